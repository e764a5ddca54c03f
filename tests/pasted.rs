//! The line of Rust that a report tells its reader to paste compiles, and its settings are in force.

use std::collections::BTreeMap;

use allocanary::tuning;
use allocanary_rows::Spec;
use allocanary_screens::report::lines::DeployLines;

// As it was pasted.
#[rustfmt::skip]
allocanary::install!(
    jemalloc, dirty_decay_ms = -1, metadata_thp = "disabled", narenas = 3, tcache = false
);

#[test]
fn the_line_of_a_report_is_the_one_above_and_its_settings_are_in_force() {
    let candidate = "jemalloc:narenas=3,tcache=false,dirty_decay_ms=-1,metadata_thp=disabled";
    let install = DeployLines::of(&Spec::parse(candidate).unwrap().into()).unwrap().install.unwrap();
    let source = include_str!("pasted.rs");
    assert!(source.contains(&format!("\n{install}\n")), "{install}");
    if std::env::vars_os().any(|(name, _)| name.to_string_lossy().ends_with("MALLOC_CONF")) {
        return;
    }
    let settings: BTreeMap<String, String> = tuning::settings().unwrap();
    for (name, value) in [("dirty_decay_ms", "-1"), ("metadata_thp", "disabled"), ("narenas", "3"), ("tcache", "false")]
    {
        assert_eq!(settings.get(name).map(String::as_str), Some(value), "{name}");
    }
    tuning::check().unwrap();
}
