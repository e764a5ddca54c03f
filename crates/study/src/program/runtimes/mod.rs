//! Settings of a program's runtime, such as Go's GOGC. The memory of a garbage collector follows these settings, and not those of malloc.
//! In: the file that runs a program, a candidate's settings. Out: the runtime, the variables that set them, and their proof.
//!
//! They are settings of `own`. Each runtime is a file here and a line of [`ALL`].

mod found;
mod go;
mod java;
mod knob;
mod node;
mod proof;
mod python;
mod ruby;
mod runtime;
mod taken;

pub use found::ProgramRuntime;
pub use knob::{Knob, Usual, Way};
pub use proof::{RuntimeView, proof};
pub use runtime::{RuntimeKind, Traits};

use std::fs;
use std::path::Path;

use allocanary_rows::Candidate;

/// Every runtime.
pub const ALL: &[&RuntimeKind] = &[&go::GO, &java::JAVA, &node::NODE, &python::CPYTHON, &ruby::RUBY];

/// The runtime of the program that this file runs.
pub fn of(file: &Path) -> Option<ProgramRuntime> {
    let file = fs::canonicalize(file).ok()?;
    let found = ALL.iter().find_map(|runtime| Some((*runtime, (runtime.recognise)(&file)?)));
    found.map(|(runtime, traits)| ProgramRuntime { runtime, traits, file })
}

/// The runtime that has a setting of this name.
fn owner(setting: &str) -> Option<&'static RuntimeKind> {
    ALL.iter().copied().find(|runtime| runtime.knobs.iter().any(|knob| knob.setting.name == setting))
}

/// Fails if a candidate has a setting of another runtime than the program's, one that its version lacks, or a value that its runtime
/// does not take. `program` is the file that runs.
pub fn check<'a>(
    candidates: impl Iterator<Item = &'a Candidate>,
    found: Option<&ProgramRuntime>,
    program: &Path,
) -> Result<(), String> {
    let program = program.display();
    for candidate in candidates {
        for (name, value) in &candidate.spec.settings {
            let Some(owner) = owner(name) else { continue };
            let wrong = |text: String| Err(format!("candidate `{candidate}`: {name}: {text}"));
            let (set, allocator) = (owner.name, &candidate.spec.name);
            if allocator != "own" {
                return wrong(format!(
                    "it is a setting of {set}, for `own` only, found `{allocator}`: own:{name}={value}"
                ));
            }
            let Some(found) = found.filter(|found| found.runtime.name == set) else {
                let runs = match found {
                    Some(found) => {
                        let names: Vec<&str> = found.knobs().map(|knob| knob.setting.name.as_ref()).collect();
                        format!("{}, whose settings are {}", found.title(), names.join(", "))
                    }
                    None => "none of the runtimes that are known".to_string(),
                };
                return wrong(format!("it is a setting of {set}, and {program} has {runs}: leave it out"));
            };
            if let Some((_, instead)) = found.traits.lacks.iter().find(|(lacked, _)| lacked == name) {
                return wrong(format!("{program} has {}: {instead}", found.title()));
            }
            let knob = owner.knobs.iter().find(|knob| knob.setting.name == *name);
            if let Some(Err(wanted)) = knob.map(|knob| knob.check(value)) {
                return wrong(format!("{wanted}, found `{value}`"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;

    fn found(runtime: &'static RuntimeKind, traits: Traits) -> ProgramRuntime {
        ProgramRuntime { runtime, traits, file: PathBuf::from("/x") }
    }

    fn refused(candidate: &str, found: Option<&ProgramRuntime>) -> Option<String> {
        check(std::iter::once(&candidate.into()), found, Path::new("/opt/service")).err()
    }

    #[test]
    fn names_of_settings_are_those_of_one_runtime() {
        let mut names: Vec<&str> =
            ALL.iter().flat_map(|runtime| runtime.knobs).map(|knob| &*knob.setting.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
    }

    #[test]
    fn values_that_are_usual_or_tried_are_taken() {
        for runtime in ALL {
            let found = found(runtime, Traits::default());
            for (name, value) in found.usual() {
                assert_eq!(refused(&format!("own:{name}={value}"), Some(&found)), None);
            }
            for tried in runtime.tried {
                assert_eq!(refused(&format!("own:{tried}"), Some(&found)), None);
            }
        }
    }

    #[test]
    fn a_setting_that_does_not_fit_names_its_runtime_and_the_programs() {
        let go = found(&go::GO, Traits { version: "1.26.8".into(), ..Traits::default() });
        let old = Traits { version: "1.18.10".into(), lacks: vec![("memlimit", "too old".into())], globals: None };
        let old = found(&go::GO, old);
        assert_eq!(refused("own:gogc=50,memlimit=64MiB,arena_max=1", Some(&go)), None);
        assert_eq!(refused("jemalloc:narenas=1", None), None);
        for (candidate, found, said) in [
            (
                "own:xss=1MiB",
                Some(&go),
                "xss: it is a setting of Java, and /opt/service has Go 1.26.8, whose settings are gogc, ",
            ),
            (
                "own:gogc=50",
                None,
                "gogc: it is a setting of Go, and /opt/service has none of the runtimes that are known",
            ),
            ("jemalloc:gogc=50", Some(&go), "it is a setting of Go, for `own` only, found `jemalloc`: own:gogc=50"),
            ("own:memlimit=64MiB", Some(&old), "memlimit: /opt/service has Go 1.18.10: too old"),
            ("own:gogc=never", Some(&go), "gogc: wanted off, or a whole number from 1 to 1000000, found `never`"),
            ("own:gogc=0", Some(&go), "found `0`"),
        ] {
            let why = refused(candidate, found).unwrap();
            assert!(why.contains(said), "{why}");
        }
    }

    #[test]
    fn settings_become_variables_and_options_are_added_to_the_users() {
        let set = |runtime, settings: &[(&str, &str)], user: &[(&str, &str)]| {
            let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
                pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
            };
            let (mut variables, mut settings) = (map(user), map(settings));
            found(runtime, Traits::default()).add_to(&mut variables, &mut settings);
            let lines: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
            (lines.join(";"), settings.len())
        };
        let java = [("trim", "500"), ("xss", "262144"), ("cpus", "1"), ("arena_max", "1")];
        let options = "-XX:ActiveProcessorCount=1 -XX:TrimNativeHeapInterval=500 -Xss262144";
        assert_eq!(
            set(&java::JAVA, &java, &[("JAVA_TOOL_OPTIONS", "-Xmx64m")]),
            (format!("JAVA_TOOL_OPTIONS=-Xmx64m {options}"), 1)
        );
        assert_eq!(set(&java::JAVA, &java[3..], &[]), (String::new(), 1), "what is malloc's stays");
        let go = [("gogc", "off"), ("memlimit", "67108864"), ("maxprocs", "1")];
        let said = "GOGC=off;GOMAXPROCS=1;GOMEMLIMIT=67108864";
        assert_eq!(set(&go::GO, &go, &[("GOGC", "50")]), (said.into(), 0), "a setting wins over the user's variable");
        assert_eq!(set(&python::CPYTHON, &[("pymalloc", "off")], &[]).0, "PYTHONMALLOC=malloc");
        let node = [("max_semi_space_size", "4"), ("v8_pool_size", "1"), ("uv_threadpool_size", "1")];
        assert_eq!(
            set(&node::NODE, &node, &[]).0,
            "NODE_OPTIONS=--max-semi-space-size=4 --v8-pool-size=1;UV_THREADPOOL_SIZE=1"
        );
        assert_eq!(set(&ruby::RUBY, &[("gc_heap_growth_factor", "1.1")], &[]).0, "RUBY_GC_HEAP_GROWTH_FACTOR=1.1");
    }

    #[test]
    fn a_program_of_no_runtime_is_none() {
        assert!(of(Path::new("/proc/self/exe")).is_none());
        assert!(of(Path::new("/no/such")).is_none());
    }
}
