//! Tests of parsing what mimalloc prints.

use super::*;

#[test]
fn option_lines_are_read_by_name_and_in_bytes() {
    let read = |line| option_line(line).map(|(_, value)| value);
    assert_eq!(read("option 'purge_delay': 1000 ").as_deref(), Some("1000"));
    assert_eq!(read("option 'arena_reserve': 1048576 KiB").as_deref(), Some("1073741824"));
    assert_eq!(read("option 'page_max_reclaim': -1 ").as_deref(), Some("-1"));
    assert_eq!(read("option 'deprecated_segment_reset': 0 "), None);
    assert_eq!(read("debug level : 0"), None);
}

#[test]
fn numbers_are_found_in_the_statistics() {
    let text = br#"{ "purged": 7, "committed": { "total": 1, "peak": 9, "current": 5 }, "x": {} }"#;
    assert_eq!(json_number(text, "committed", "current"), Some(5));
    assert_eq!(json_number(text, "purged", ""), Some(7));
    assert_eq!(json_number(text, "commit", "current"), None);
    let below_zero = br#"{ "committed": { "total": 1, "current": -5 }, "arena_count": 3 }"#;
    assert_eq!(json_number(below_zero, "committed", "current"), None, "a count below zero is none");
    assert_eq!(json_number(below_zero, "arena_count", ""), Some(3));
}

#[test]
fn the_table_has_every_option_of_the_linked_version() {
    let mut printed = Vec::<u8>::new();
    let argument: *mut Vec<u8> = &mut printed;
    // SAFETY: `append` gets the vector that outlives the call, from this thread only.
    unsafe { mi_options_print_out(append, argument.cast()) };
    let text = String::from_utf8_lossy(&printed);
    let names = text.lines().filter_map(|line| line.strip_prefix("option '")?.split_once('\'').map(|(name, _)| name));
    let names: Vec<&str> = names.filter(|name| !name.starts_with("deprecated_")).collect();
    for name in &names {
        assert!(
            SETTINGS.iter().any(|setting| setting.name == *name),
            "mimalloc has an option {name} that the table lacks"
        );
    }
    for setting in SETTINGS {
        assert!(names.contains(&&*setting.name), "this mimalloc has no option {}", setting.name);
    }
    let in_kib =
        |name: &str| text.lines().any(|line| line.starts_with(&format!("option '{name}'")) && line.contains("KiB"));
    for setting in SETTINGS {
        let is_size = matches!(setting.kind, SettingKind::Size { .. });
        assert_eq!(is_size, in_kib(&setting.name), "{}: a size is what mimalloc counts in KiB", setting.name);
    }
}
