//! Whether a runtime has taken its settings. In: what was seen of the process with the most memory. Out: each value, or why the row
//! fails.

use std::collections::BTreeMap;
use std::fs;

use super::found::ProgramRuntime;
use super::knob::{Knob, Way};
use super::runtime::RuntimeKind;
use super::taken::RuntimeMemory;
use allocanary_rows::Cell;
use allocanary_rows::sample::{Failure, FailureKind};
use allocanary_sys::proc::files::{ProcEntry, path};

/// A process, as its runtime sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeView {
    /// The process.
    pub pid: u32,
    /// Its variables when it was started.
    pub variables: BTreeMap<String, String>,
    /// Its command line.
    pub words: Vec<String>,
    /// The values that a Go runtime itself has in force.
    pub taken: Option<RuntimeMemory>,
}

/// Variables with more options of Java: for its launcher, and for the virtual machine. They override JAVA_TOOL_OPTIONS.
const MORE_WORDS: [&str; 2] = ["JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"];
/// Options of Java and Node whose value is the next word.
const WITH_VALUE: [&str; 10] = [
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--add-modules",
    "--add-opens",
    "--add-exports",
    "-r",
    "--require",
];

impl RuntimeView {
    /// Reads a process; `None` if it has ended.
    pub fn read(pid: u32, found: &ProgramRuntime) -> Option<RuntimeView> {
        let texts = |file: ProcEntry| -> Option<Vec<String>> {
            let bytes = fs::read(path(pid, file)).ok().filter(|bytes| !bytes.is_empty())?;
            Some(bytes.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned()).collect())
        };
        let pair = |text: String| text.split_once('=').map(|(name, value)| (name.to_string(), value.to_string()));
        let (variables, words) =
            (texts(ProcEntry::Environ)?.into_iter().filter_map(pair).collect(), texts(ProcEntry::Cmdline)?);
        // A wrapper is another program, and does not have the runtime's variables.
        let is_it = || fs::read_link(path(pid, ProcEntry::Exe)).is_ok_and(|file| file == found.file);
        let taken = found.traits.globals.as_ref().filter(|_| is_it()).and_then(|globals| globals.read(pid));
        Some(RuntimeView { pid, variables, words, taken })
    }

    /// The word of the command line with this option. It overrides a variable.
    fn on_command_line(&self, option: &str) -> Option<&str> {
        let more =
            MORE_WORDS.iter().filter_map(|name| self.variables.get(*name)).flat_map(|text| text.split_whitespace());
        let mut words = self.options().chain(more);
        words.find(|word| word.starts_with(option))
    }

    /// The words of the command line before the program that the runtime runs. The words after that are the program's own.
    fn options(&self) -> impl Iterator<Item = &str> {
        let mut is_value = false;
        self.words.iter().skip(1).map(String::as_str).take_while(move |word| {
            let goes_on = word.starts_with('-') || is_value;
            is_value = WITH_VALUE.contains(word);
            goes_on
        })
    }
}

/// The settings of the runtime, each with its value, or why it is not proven. Fails if one is not in force.
pub fn proof(
    cell: &Cell,
    found: &ProgramRuntime,
    seen: Option<&RuntimeView>,
    main: u32,
) -> Result<BTreeMap<String, Result<String, String>>, Failure> {
    let mut all = BTreeMap::new();
    for knob in found.runtime.knobs {
        let name = knob.setting.name.to_string();
        let Some(value) = cell.settings.get(&name) else { continue };
        let said = match seen.filter(|seen| seen.pid == main) {
            Some(seen) => {
                in_force(found.runtime, knob, value, seen).map_err(|text| Failure {
                    kind: FailureKind::Setting,
                    text: format!("{name}: wanted {value}, {text}"),
                })?;
                match found.runtime.is_changeable && seen.taken.is_none() {
                    true => Err(UNREAD.to_string()),
                    false => Ok(value.clone()),
                }
            }
            None => Err("the process with the most memory ended before its environment was read".to_string()),
        };
        all.insert(name, said);
    }
    Ok(all)
}

/// The reason for a setting that only the variable shows.
const UNREAD: &str = "the program can change it itself, and its runtime could not be read: a program that is stripped, loaded at any \
                      address (-buildmode=pie) or built by an unknown release does not tell";

/// Checks that a value is in force. The error says what was found instead.
fn in_force(runtime: &RuntimeKind, knob: &Knob, value: &str, seen: &RuntimeView) -> Result<(), String> {
    const WHERE: &str = "in the environment of the process with the most memory";
    const CHANGED: &str = "the program, or what starts it, changes its environment";
    let text = knob.text(value);
    if let Some(word) = (runtime.ignores)(&seen.words) {
        return Err(format!(
            "found {word} on the program's command line, which makes it ignore its variables: take it away there"
        ));
    }
    match knob.way {
        Way::Variable(name) => match seen.variables.get(name) {
            Some(found) if *found == text => {}
            Some(found) => return Err(format!("found {name}={found} {WHERE}: {CHANGED}")),
            None => return Err(format!("found no {name} {WHERE}: {CHANGED}")),
        },
        Way::Option(name, option) => {
            let all = seen.variables.get(name).map_or("", String::as_str);
            let last = all.split_whitespace().rfind(|word| word.starts_with(option));
            if last.and_then(|word| word.strip_prefix(option)) != Some(&text) {
                let found = last.map_or(format!("no {option}"), str::to_string);
                return Err(format!("found {found} in {name} {WHERE}: {CHANGED}"));
            }
            if let Some(word) = seen.on_command_line(option) {
                let more = if name == "JAVA_TOOL_OPTIONS" { " or in _JAVA_OPTIONS or JDK_JAVA_OPTIONS" } else { "" };
                return Err(format!(
                    "found {word} on the program's command line{more}, which wins over {name}: take it away there"
                ));
            }
        }
    }
    match seen.taken.and_then(|taken| taken.value(&knob.setting.name)) {
        Some(found) if found != value => {
            Err(format!("found {found} in the runtime of the process with the most memory: the program sets it itself"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::{RuntimeKind, Traits, go, java, python};
    use super::*;
    use allocanary_rows::job::Job;
    use allocanary_rows::program::Program;

    fn said(
        runtime: &'static RuntimeKind,
        settings: &[(&str, &str)],
        seen: Option<RuntimeView>,
    ) -> Result<String, String> {
        let map = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let cell = Cell { settings: map, ..Cell::new("own", "own", Job::of_program(Program::default())) };
        let found = ProgramRuntime { runtime, traits: Traits::default(), file: PathBuf::new() };
        let all = proof(&cell, &found, seen.as_ref(), 7).map_err(|failure| {
            assert_eq!(failure.kind, FailureKind::Setting);
            failure.text
        })?;
        Ok(all.into_iter().map(|(name, said)| format!("{name} {}\n", said.unwrap_or_else(|why| why))).collect())
    }

    fn seen(variables: &[(&str, &str)], words: &str) -> RuntimeView {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        RuntimeView { pid: 7, variables, words: words.split(' ').map(str::to_string).collect(), taken: None }
    }

    #[test]
    fn a_variable_counts_if_the_biggest_process_has_it() {
        let wanted = [("gogc", "200"), ("arena_max", "1")];
        let of = |variables: &[(&str, &str)]| said(&go::GO, &wanted, Some(seen(variables, "./x")));
        let of_itself = of(&[("GOGC", "200")]).unwrap();
        assert!(of_itself.starts_with("gogc the program can change it itself"), "{of_itself}");
        assert!(of(&[("GOGC", "50")]).unwrap_err().starts_with("gogc: wanted 200, found GOGC=50 in the environment"));
        assert!(of(&[]).unwrap_err().contains("found no GOGC"));
        let ended = said(&go::GO, &wanted, None).unwrap();
        assert!(ended.contains("ended before"), "{ended}");
        let of_another = RuntimeView { pid: 8, ..seen(&[("GOGC", "50")], "sh") };
        assert_eq!(said(&go::GO, &wanted, Some(of_another)).unwrap(), ended, "a process that has less");
    }

    #[test]
    fn a_program_that_sets_it_itself_is_a_failure() {
        let with = |percent| {
            let taken = Some(RuntimeMemory { percent, limit: i64::MAX, procs: 2 });
            said(&go::GO, &[("gogc", "200")], Some(RuntimeView { taken, ..seen(&[("GOGC", "200")], "./x") }))
        };
        assert_eq!(with(200).unwrap(), "gogc 200\n");
        let failure = with(400).unwrap_err();
        assert!(
            failure.contains("wanted 200, found 400 in the runtime") && failure.contains("sets it itself"),
            "{failure}"
        );
    }

    #[test]
    fn a_variable_that_the_command_line_makes_ignored_is_a_failure() {
        let of = |words: &str| {
            said(&python::CPYTHON, &[("pymalloc", "off")], Some(seen(&[("PYTHONMALLOC", "malloc")], words)))
        };
        assert_eq!(of("python3 x.py -E").unwrap(), "pymalloc off\n");
        let failure = of("python3 -E x.py").unwrap_err();
        assert!(failure.contains("found -E on the program's command line"), "{failure}");
    }

    #[test]
    fn the_last_option_counts_and_the_command_line_wins() {
        let of = |options: &str, words: &str, more: &str| {
            let variables = [("JAVA_TOOL_OPTIONS", options), ("JDK_JAVA_OPTIONS", more)];
            said(&java::JAVA, &[("xss", "262144")], Some(seen(&variables, words)))
        };
        assert_eq!(of("-Xss1m -Xss262144", "java -Xmx1g A", "").unwrap(), "xss 262144\n");
        assert!(of("-Xss262144 -Xss1m", "java A", "").unwrap_err().contains("found -Xss1m in JAVA_TOOL_OPTIONS"));
        assert!(of("", "java A", "").unwrap_err().contains("found no -Xss in JAVA_TOOL_OPTIONS"));
        assert_eq!(of("-Xss262144", "java -cp x A -Xss2m", "").unwrap(), "xss 262144\n", "an argument of the program");
        let last = [("JAVA_TOOL_OPTIONS", "-Xss262144"), ("_JAVA_OPTIONS", "-Xss2m")];
        let failure = said(&java::JAVA, &[("xss", "262144")], Some(seen(&last, "java A"))).unwrap_err();
        assert!(failure.contains("found -Xss2m on the program's command line or in _JAVA_OPTIONS"), "{failure}");
        for (words, more) in [("java -cp x -Xss2m A", ""), ("java A", "-Xss2m")] {
            let failure = of("-Xss262144", words, more).unwrap_err();
            assert!(failure.contains("found -Xss2m on the program's command line"), "{failure}");
        }
    }
}
