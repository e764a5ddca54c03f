//! Whether a preloaded allocator is in effect. In: the lines that it appended to a file, one for each process image. Out:
//! its version and the settings that it read back, or the reason why it does not count.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use serde::Deserialize;

use allocanary_cell::Cell;
use allocanary_cell::provenance::Build;
use allocanary_cell::sample::{Failure, FailureKind};

/// A line of the file.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ProofLine {
    /// `load` or `exit`.
    pub at: String,
    /// The process.
    pub pid: u32,
    /// Its program.
    #[serde(default)]
    pub exe: String,
    /// The allocator's name.
    #[serde(default)]
    pub allocator: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// The build of the library.
    #[serde(default)]
    pub build: String,
    /// Settings, as they were read back.
    #[serde(default)]
    pub settings: BTreeMap<String, serde_json::Value>,
    /// What is wrong.
    #[serde(default)]
    pub problem: Option<String>,
    /// Bytes in blocks at exit.
    #[serde(default)]
    pub allocated: Option<u64>,
    /// Bytes in pages with blocks at exit.
    #[serde(default)]
    pub active: Option<u64>,
    /// Bytes in pages that were not given back at exit.
    #[serde(default)]
    pub resident: Option<u64>,
    /// Bytes of the allocator's own at exit.
    #[serde(default)]
    pub metadata: Option<u64>,
    /// Arenas at exit.
    #[serde(default)]
    pub arenas: Option<u64>,
}

/// What is proven of a run.
#[derive(Clone, Debug, Default)]
pub struct Proven {
    /// The allocator's version.
    pub version: String,
    /// The settings that were asked for, as they were read back.
    pub found: BTreeMap<String, String>,
    /// Those that were not read back, each with the reason.
    pub unproven: BTreeMap<String, String>,
    /// The counters of the biggest process at its exit.
    pub exit: Option<ProofLine>,
}

/// Reads the lines; a line that a kill has torn is left out.
pub fn read(path: &Path) -> Vec<ProofLine> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Fails if a line could not be appended to the file: the disk is full, or files may not get that long. A preload that could not
/// write its line says nothing.
pub fn check_room(path: &Path) -> Result<(), Failure> {
    let appended = fs::File::options().append(true).create(true).open(path).and_then(|mut file| file.write_all(b"\n"));
    appended.map_err(|error| Failure {
        kind: FailureKind::Around,
        text: format!(
            "{}: the preload's proof has no room there: {error}: free the disk, or raise `ulimit -f`",
            path.display()
        ),
    })
}

/// What the lines prove of a cell whose biggest process was `main`, with the end of its standard error.
pub fn check(cell: &Cell, lines: &[ProofLine], main: u32, main_name: &str, complaint: &str) -> Result<Proven, Failure> {
    let fail = |text: String| Err(Failure { kind: FailureKind::Setting, text });
    let library = format!("preload-{}", cell.allocator);
    let loads: Vec<&ProofLine> = lines.iter().filter(|line| line.at == "load").collect();
    // A process may have become another program by an exec, with another environment.
    let is_it = |line: &&&ProofLine| line.exe == main_name || main_name.is_empty();
    let own = loads.iter().rev().filter(|line| line.pid == main).find(is_it);
    // A child that was forked without an exec has its parent's allocator.
    let own = own.or_else(|| loads.iter().rev().find(|line| !main_name.is_empty() && line.exe == main_name));
    let Some(load) = own else {
        let others: Vec<&str> = loads.iter().map(|line| line.exe.as_str()).collect();
        let found = match others.as_slice() {
            [] => "in no process".to_string(),
            [first, ..] => format!("only in other processes, such as {first}"),
        };
        // The loader's own words, if it dropped the library.
        let loader = complaint.split(" | ").find(|line| line.contains("cannot be preloaded"));
        let loader = loader.map_or(String::new(), |line| format!(": {line}"));
        return fail(format!(
            "{library}: wanted in process {main} ({main_name}), found {found}: the program is static, or changes its \
             environment, or the loader dropped the library{loader}"
        ));
    };
    if load.allocator != cell.allocator {
        return fail(format!("{library}: wanted {}, found {}", cell.allocator, load.allocator));
    }
    let build = Build::this();
    if load.build != build.id {
        let found = if load.build.is_empty() { "none" } else { &load.build };
        return fail(format!("{library}: wanted build {}, found {found}: install the command anew", build.id));
    }
    if let Some(problem) = &load.problem {
        return fail(format!("{library} in {}: {problem}", load.exe));
    }
    if load.version.is_empty() {
        return fail(format!("{library}: does not say its version: no version, no sample"));
    }
    let mut proven = Proven { version: load.version.clone(), ..Proven::default() };
    for (name, wanted) in &cell.settings {
        let found = load.settings.get(name).map(|value| match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        match found {
            Some(found) if found == *wanted => drop(proven.found.insert(name.clone(), found)),
            Some(found) => {
                return fail(format!(
                    "{name}: wanted {wanted}, found {found} in {}: the allocator refused, clipped or ignored it",
                    load.exe
                ));
            }
            None => drop(proven.unproven.insert(name.clone(), "the preloaded library does not read it back".into())),
        }
    }
    proven.exit = lines.iter().rev().find(|line| line.at == "exit" && line.pid == main).cloned();
    Ok(proven)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> Cell {
        serde_json::from_value(serde_json::json!({
            "candidate": "jemalloc:narenas=1", "allocator": "jemalloc", "settings": {"narenas": "1"},
            "workload": "x", "threads": 0, "repeat": 0, "seed": 1
        }))
        .unwrap()
    }

    fn line(change: &str) -> Vec<ProofLine> {
        let text = format!(
            r#"{{"at":"load","pid":7,"exe":"/bin/x","allocator":"jemalloc","version":"5.3","build":"{}","settings":{{"narenas":"1"}}}}"#,
            Build::this().id
        );
        let (from, to) = change.split_once('>').unwrap_or(("", ""));
        vec![serde_json::from_str(&text.replacen(from, to, 1)).unwrap()]
    }

    #[test]
    fn a_full_disk_is_said_and_not_that_the_program_is_static() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check_room(&folder.path().join("proof")).is_ok());
        let failure = check_room(Path::new("/dev/full")).unwrap_err();
        assert!(failure.text.contains("No space left on device"), "{}", failure.text);
    }

    #[test]
    fn a_setting_counts_if_the_main_process_has_read_it_back() {
        let proven = check(&cell(), &line(""), 7, "/bin/x", "").unwrap();
        assert_eq!((proven.version.as_str(), proven.found["narenas"].as_str()), ("5.3", "1"));
        assert!(proven.unproven.is_empty() && proven.exit.is_none());
        let proven = check(&cell(), &line("narenas>other"), 7, "/bin/x", "").unwrap();
        assert!(proven.unproven.contains_key("narenas"));
    }

    #[test]
    fn what_is_not_in_effect_says_why() {
        let loader = "ERROR: ld.so: object 'x' from LD_PRELOAD cannot be preloaded: ignored.";
        for (mut lines, said) in [
            (line("/bin/x>/bin/env"), "found only in other processes, such as /bin/env"),
            (line(":7>:8"), "wanted in process 7 (/bin/y), found only in other processes, such as /bin/x"),
            (Vec::new(), "found in no process: the program is static"),
            (Vec::new(), "cannot be preloaded: ignored"),
            (line("jemalloc>mimalloc"), "wanted jemalloc, found mimalloc"),
            (line("\"build\":\">\"build\":\"9"), "wanted build "),
            (line("\"1\">\"4\""), "narenas: wanted 1, found 4 in /bin/y"),
            (line("5.3>"), "no version, no sample"),
            (line("\"version\">\"problem\":\"no quota\",\"version\""), "no quota"),
        ] {
            // But for the first two, the process is the right one.
            if !said.contains("found only") {
                lines.iter_mut().for_each(|line| line.exe = "/bin/y".into());
            }
            let failure = check(&cell(), &lines, 7, "/bin/y", loader).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Setting);
            assert!(failure.text.contains(said), "{} has no {said}", failure.text);
        }
    }
}
