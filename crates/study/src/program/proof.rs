//! Whether a preloaded allocator is in effect. In: the lines that it appended to a file, one for each process image. Out:
//! its version and the settings that it read back, or the reason why it does not count.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use allocanary_facts::MEMORY_BUDGET;
use allocanary_rows::Cell;
use allocanary_rows::provenance::Build;
use allocanary_rows::sample::{Failure, FailureKind};
use allocanary_sys::private;

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
    /// The library whose `malloc` the process calls; empty in the lines of our own preloads.
    #[serde(default)]
    pub malloc: String,
    /// The memory budget, if one is on.
    #[serde(default)]
    pub memory_budget: Option<BudgetLine>,
    /// The problem that the preload reports.
    #[serde(default)]
    pub problem: Option<String>,
    /// Bytes in blocks at exit.
    #[serde(default)]
    pub allocator_allocated_bytes: Option<u64>,
    /// Bytes in pages with blocks at exit.
    #[serde(default)]
    pub allocator_active_bytes: Option<u64>,
    /// Bytes in pages that were not given back at exit.
    #[serde(default)]
    pub allocator_resident_bytes: Option<u64>,
    /// Bytes of mappings at exit.
    #[serde(default)]
    pub allocator_mapped_bytes: Option<u64>,
    /// Bytes that the allocator needs for itself at exit.
    #[serde(default)]
    pub allocator_metadata_bytes: Option<u64>,
    /// Arenas at exit.
    #[serde(default)]
    pub allocator_arenas: Option<u64>,
}

/// The memory budget of a line.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct BudgetLine {
    /// The limit in bytes; `None` if no control group has one.
    pub limit_bytes: Option<u64>,
}

/// What is proven of a run.
#[derive(Clone, Debug, Default)]
pub struct Proven {
    /// The allocator's version.
    pub version: String,
    /// The requested settings, as they were read back.
    pub found: BTreeMap<String, String>,
    /// The settings that were not read back, each with the reason.
    pub unproven: BTreeMap<String, String>,
    /// The counters of the largest process at its exit.
    pub exit: Option<ProofLine>,
}

/// Reads the lines. A line that a kill has cut off is left out.
pub fn read(path: &Path) -> Vec<ProofLine> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Fails if a line could not be appended to the file: the disk is full, or files may not get that long. A preload that could not write its
/// line cannot report this itself.
pub fn check_room(path: &Path) -> Result<(), Failure> {
    private::append(path, b"\n").map_err(|error| Failure {
        kind: FailureKind::Around,
        text: format!(
            "{}: the preload's proof has no room there: {error}: free the disk, or raise `ulimit -f`",
            path.display()
        ),
    })
}

/// The library that is preloaded into a cell's program.
#[derive(Clone, Copy, Debug)]
pub enum PreloadLibrary<'a> {
    /// Our own preload of the cell's allocator.
    Ours,
    /// A library of others, next to our library that asks it.
    Other {
        /// The library.
        path: &'a Path,
        /// Its version, for a library that does not tell it.
        version: &'a str,
    },
}

/// What the lines prove about a cell. `main` is its largest process. `complaint` is the end of its standard error.
pub fn check(
    cell: &Cell,
    lines: &[ProofLine],
    main: u32,
    main_name: &str,
    complaint: &str,
    preloaded: PreloadLibrary,
) -> Result<Proven, Failure> {
    let fail = |text: String| Err(Failure { kind: FailureKind::Setting, text });
    let library = match preloaded {
        PreloadLibrary::Ours => format!("preload-{}", cell.allocator),
        PreloadLibrary::Other { path, .. } => path.display().to_string(),
    };
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
        // The loader's own message, if it dropped the library.
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
    let mut version = load.version.as_str();
    if let PreloadLibrary::Other { path, version: known } = preloaded {
        let real = |path: &Path| path.canonicalize().unwrap_or(path.into());
        if real(Path::new(&load.malloc)) != real(path) {
            let found = if load.malloc.is_empty() { "none" } else { &load.malloc };
            return fail(format!("{library}: wanted as the malloc of {}, found {found}", load.exe));
        }
        version = if version.is_empty() { known } else { version };
        // `mimalloc@2.0`, from a file's name, means any 2.0. A complete version means itself.
        let is_wanted = |wanted: &str| version == wanted || version.starts_with(&format!("{wanted}."));
        if let Some((_, wanted)) = cell.allocator.split_once('@').filter(|(_, wanted)| !is_wanted(wanted)) {
            return fail(format!("{library}: wanted version {wanted}, found {version} in {}", load.exe));
        }
    }
    if version.is_empty() {
        return fail(format!("{library}: does not say its version: no version, no sample"));
    }
    let mut proven = Proven { version: version.to_string(), ..Proven::default() };
    for (name, wanted) in &cell.settings {
        if name == MEMORY_BUDGET {
            match &load.memory_budget {
                Some(BudgetLine { limit_bytes: Some(_) }) => drop(proven.found.insert(name.clone(), wanted.clone())),
                Some(BudgetLine { limit_bytes: None }) => {
                    let why = "no control group of the program has a memory limit: give it one by --memory-limit, or name a size";
                    drop(proven.unproven.insert(name.clone(), why.into()));
                }
                None if wanted == "off" => drop(proven.found.insert(name.clone(), wanted.clone())),
                None => return fail(format!("{name}: wanted {wanted}, found that none is on in {}", load.exe)),
            }
            continue;
        }
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
            None => drop(proven.unproven.insert(name.clone(), not_told(preloaded))),
        }
    }
    let exit = lines.iter().rev().find(|line| line.at == "exit" && line.pid == main);
    match preloaded {
        PreloadLibrary::Ours => proven.exit = exit.cloned(),
        PreloadLibrary::Other { .. } => {
            let at_exit = |name: &String| exit?.settings.get(name)?.as_str();
            let changed = |(name, wanted): (&String, &String)| {
                at_exit(name)
                    .filter(|found| *found != wanted)
                    .map(|found| format!("{name}: wanted {wanted}, found {found}"))
            };
            if let Some(changed) = proven.found.iter().find_map(changed) {
                return fail(format!("{changed} at the end of {}: the program changed it", load.exe));
            }
        }
    }
    Ok(proven)
}

/// Why a setting is not proven.
fn not_told(preloaded: PreloadLibrary) -> String {
    match preloaded {
        PreloadLibrary::Ours => "the preloaded library does not read it back".into(),
        PreloadLibrary::Other { path, .. } => format!("{} has no function that tells it", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> Cell {
        serde_json::from_value(serde_json::json!({
            "candidate": "jemalloc:narenas=1", "allocator": "jemalloc", "settings": {"narenas": "1"},
            "workload": "x", "threads": 0, "repeat": 0, "seed": 1, "place": 0
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
        let proven = check(&cell(), &line(""), 7, "/bin/x", "", PreloadLibrary::Ours).unwrap();
        assert_eq!((proven.version.as_str(), proven.found["narenas"].as_str()), ("5.3", "1"));
        assert!(proven.unproven.is_empty() && proven.exit.is_none());
        let proven = check(&cell(), &line("narenas>other"), 7, "/bin/x", "", PreloadLibrary::Ours).unwrap();
        assert!(proven.unproven.contains_key("narenas"));
    }

    #[test]
    fn a_budget_counts_if_it_has_a_limit() {
        let cell = |budget: &str| Cell { settings: [(MEMORY_BUDGET.to_string(), budget.to_string())].into(), ..cell() };
        let check = |budget: &str, found: &str| {
            check(
                &cell(budget),
                &line(&format!("\"settings\">{found}\"settings\"")),
                7,
                "/bin/x",
                "",
                PreloadLibrary::Ours,
            )
        };
        let proven = check("container", r#""memory_budget":{"limit_bytes":1000},"#).unwrap();
        assert!(proven.found[MEMORY_BUDGET] == "container" && proven.unproven.is_empty());
        assert!(
            check("container", r#""memory_budget":{"limit_bytes":null},"#).unwrap().unproven[MEMORY_BUDGET]
                .contains("no control group")
        );
        assert!(check("off", "").unwrap().unproven.is_empty());
        assert!(check("1GiB", "").unwrap_err().text.contains("memory_budget: wanted 1GiB, found that none is on"));
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
            let failure = check(&cell(), &lines, 7, "/bin/y", loader, PreloadLibrary::Ours).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Setting);
            assert!(failure.text.contains(said), "{} has no {said}", failure.text);
        }
    }

    fn of_other(allocator: &str, malloc: &str, exit: &str) -> Result<Proven, Failure> {
        let mut cell = cell();
        cell.allocator = allocator.into();
        let mut lines = line(&format!("\"jemalloc\">\"{allocator}\",\"malloc\":\"{malloc}\""));
        if !exit.is_empty() {
            let text = format!(r#"{{"at":"exit","pid":7,"settings":{{"narenas":"{exit}"}}}}"#);
            lines.push(serde_json::from_str(&text).unwrap());
        }
        check(&cell, &lines, 7, "/bin/x", "", PreloadLibrary::Other { path: Path::new("/lib/j.so"), version: "9" })
    }

    #[test]
    fn a_library_of_others_counts_if_malloc_is_its_own_and_it_tells_its_version_and_settings() {
        let proven = of_other("jemalloc@5.3", "/lib/j.so", "1").unwrap();
        assert_eq!((proven.version.as_str(), proven.found["narenas"].as_str()), ("5.3", "1"));
        assert!(proven.exit.is_none());
        for (found, said) in [
            (of_other("jemalloc@5.3", "/lib/c.so", ""), "/lib/j.so: wanted as the malloc of /bin/x, found /lib/c.so"),
            (of_other("jemalloc@5.3.1", "/lib/j.so", ""), "wanted version 5.3.1, found 5.3 in /bin/x"),
            (
                of_other("jemalloc@5.3", "/lib/j.so", "4"),
                "wanted 1, found 4 at the end of /bin/x: the program changed it",
            ),
        ] {
            let failure = found.unwrap_err();
            assert!(failure.kind == FailureKind::Setting && failure.text.contains(said), "{}", failure.text);
        }
    }

    #[test]
    fn a_library_that_tells_nothing_has_the_version_of_its_file_and_says_which_settings_it_does_not_tell() {
        let mut cell = cell();
        cell.allocator = "mesh".into();
        let lines = line("\"jemalloc\",\"version\":\"5.3\">\"mesh\",\"malloc\":\"/lib/m.so\"");
        let lines = [ProofLine { settings: BTreeMap::new(), ..lines[0].clone() }];
        let library = |version| PreloadLibrary::Other { path: Path::new("/lib/m.so"), version };
        let proven = check(&cell, &lines, 7, "/bin/x", "", library("1.0")).unwrap();
        assert_eq!(proven.version, "1.0");
        assert_eq!(proven.unproven["narenas"], "/lib/m.so has no function that tells it");
        let failure = check(&cell, &lines, 7, "/bin/x", "", library("")).unwrap_err();
        assert!(failure.text.contains("no version, no sample"), "{}", failure.text);
    }
}
