//! The tables of other allocators' settings agree with the libraries: every setting of every available library, of the host or
//! built, is set in a process and read back.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use allocanary_doctor::installed::{Installed, built, installed};
use allocanary_facts::setting::{Setting, SettingKind};
use allocanary_study::builds::cache::LibraryFolder;
use allocanary_testing::skipped::skipped;
use serde_json::Value;
use tempfile::tempdir;

const PROVER: &str = env!("CARGO_BIN_EXE_preload-prove");

/// Settings that cannot be read back: the reader, the setting, and the text that is read in place of the value; `None` if the
/// library has no function for it. If one begins to work, the test fails, and its line must be removed.
const CANNOT: &[(&str, &str, Option<&str>)] = &[
    ("tcmalloc", "transfer_num_obj", None),
    // Takes effect only in builds that found process_madvise(2).
    ("jemalloc", "process_madvise_max_batch", Some("0")),
];

/// Values, at least one of which is not the default.
fn values(setting: &Setting) -> Vec<String> {
    match &setting.kind {
        SettingKind::Flag => vec!["true".into(), "false".into()],
        SettingKind::Number { min, max } => {
            let all = [0, 1, 2, 3].map(|add| min.max(&0) + add);
            all.into_iter().filter(|value| value <= max).map(|value| value.to_string()).collect()
        }
        SettingKind::Size { min, max } => {
            let all = [(1 << 20).min(max / 2).max(*min), (*max).min(1 << 21)];
            all.map(|value| value.to_string()).to_vec()
        }
        SettingKind::Choice { names } => names.iter().map(|name| name.to_string()).collect(),
        SettingKind::Time { .. } | SettingKind::Text | SettingKind::Path => {
            panic!("{}: a setting that cannot be read back is in no table", setting.name)
        }
    }
}

/// The line of a process's start, under this library with this setting.
fn proof(library: &Installed, setting: &Setting, value: &str, folder: &Path) -> Value {
    let path = folder.join("proof");
    let _ = fs::remove_file(&path);
    let kind = match setting.kind {
        SettingKind::Flag => "flag",
        SettingKind::Number { .. } => "number",
        SettingKind::Size { .. } => "size",
        _ => "word",
    };
    let settings = BTreeMap::from([(setting.name.to_string(), value.to_string())]);
    let status = Command::new("/bin/true")
        .env_clear()
        .envs(library.environment.variables(&settings))
        .env("LD_PRELOAD", format!("{PROVER}:{}", library.path.display()))
        .env("ALLOCANARY_PROOF", &path)
        .env("ALLOCANARY_PROVE", format!("x {} {}={kind}", library.reader, setting.name))
        .status()
        .unwrap();
    assert!(status.success(), "{}: {}={value}: {status}", library.name, setting.name);
    let text = fs::read_to_string(&path).unwrap_or_default();
    serde_json::from_str(text.lines().next().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{}: {}={value}: {error}: {text}", library.name, setting.name))
}

#[test]
fn every_setting_of_every_library_here_is_read_back() {
    let mut all = installed(&["system", "jemalloc", "mimalloc"]);
    let cached = LibraryFolder::of_user().map(|cache| cache.all()).unwrap_or_default();
    all.extend(cached.iter().filter_map(|one| built(&one.allocator, &one.version, &one.library)));
    let folder = tempdir().unwrap();
    let mut wrong = Vec::new();
    for library in &all {
        for setting in &library.settings {
            let cannot = CANNOT.iter().find(|cannot| (cannot.0, cannot.1) == (library.reader, &*setting.name));
            for value in values(setting) {
                let line = proof(library, setting, &value, folder.path());
                assert_eq!(line["malloc"], library.path.display().to_string().as_str(), "{}", library.name);
                assert!(
                    line["version"].as_str().is_some_and(|version| !version.is_empty()),
                    "{}: {line}",
                    library.name
                );
                let found = line["settings"][&*setting.name].as_str();
                let wanted = cannot.map_or(Some(value.as_str()), |cannot| cannot.2);
                if found != wanted {
                    wrong
                        .push(format!("{}:{}={value}: found {found:?}, wanted {wanted:?}", library.name, setting.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    for reader in ["jemalloc", "mimalloc", "tcmalloc"] {
        if !all.iter().any(|library| library.reader == reader) {
            skipped(format!("no library of {reader} is installed, which Debian's lib{reader} packages bring"));
        }
    }
}
