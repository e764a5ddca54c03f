//! Changes a line in a copy of the repository, and checks the hash.

use std::collections::BTreeSet;
use std::process::Command;

use super::*;
use tempfile::tempdir;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn hash_of(root: &Path) -> Fnv {
    hash(root, &places(root).unwrap())
}

/// Copies all files that may be part of the hash, and all other crates.
fn copy(from: &Path, to: &Path) {
    let every = ROOT.iter().map(PathBuf::from).chain(folders(from));
    for file in files(from, &every.collect::<Vec<_>>()) {
        fs::create_dir_all(to.join(&file).parent().unwrap()).unwrap();
        fs::copy(from.join(&file), to.join(&file)).unwrap();
    }
}

/// The folders of all crates.
fn folders(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join("crates")).unwrap().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    folders.map(|entry| Path::new("crates").join(entry.file_name())).collect()
}

/// The folders of the crates that cargo links into cells and preloads.
fn by_cargo(root: &Path) -> BTreeSet<PathBuf> {
    let words = "tree --offline --locked --prefix none --edges normal,build --all-features";
    let crates = "-p allocanary -p allocanary-cell -p allocanary-preload -p allocanary-revision -p allocanary-recorder";
    let mut command = Command::new(env!("CARGO"));
    let output = command.args(words.split(' ')).args(crates.split(' ')).current_dir(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // `allocanary-sys v0.1.0 (/repository/crates/sys)`
    let paths = text.lines().filter_map(|line| line.split_once('(')?.1.split_once(')'));
    paths.filter_map(|(path, _)| Some(Path::new(path).strip_prefix(root).ok()?.to_path_buf())).collect()
}

#[test]
fn a_line_in_a_linked_crate_is_another_build() {
    let root = repository();
    let linked = by_cargo(&root);
    assert!(linked.len() > 4, "{linked:?}");
    let folder = tempdir().unwrap();
    copy(&root, folder.path());
    let before = hash_of(folder.path());
    assert_eq!(before, hash_of(&root), "the place of the repository does not count");
    for name in folders(&root) {
        let file = folder.path().join(&name).join("src/lib.rs");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{text}// a line\n")).unwrap();
        assert_eq!(hash_of(folder.path()) != before, linked.contains(&name), "{}", name.display());
        fs::write(&file, text).unwrap();
    }
    for file in ["Cargo.lock", "build.rs", "src/preloads/record.map", "src/cells/system.rs", "crates/trace/Cargo.toml"]
    {
        let file = folder.path().join(file);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{text}\n")).unwrap();
        assert_ne!(hash_of(folder.path()), before, "{}", file.display());
        fs::write(&file, text).unwrap();
    }
    assert_eq!(hash_of(folder.path()), before);
}

#[test]
fn what_the_roots_call_is_linked() {
    let root = repository();
    let places = places(&root).unwrap();
    for file in files(&root, &["src/cells".into(), "src/preloads".into()]) {
        let text = fs::read_to_string(root.join(&file)).unwrap();
        let names = text.split(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter));
        for name in names.filter_map(|word| word.strip_prefix("allocanary_")?.split_once("::")) {
            let folder = Path::new("crates").join(name.0);
            assert!(places.contains(&folder), "{} calls {}", file.display(), folder.display());
        }
    }
}

#[test]
fn every_way_to_name_a_crate_is_read() {
    let folder = tempdir().unwrap();
    let crates = ["allocanary", "cell", "preload", "revision", "recorder", "a", "b", "c", "d", "e"];
    let manifests = [
        "",
        "[dependencies]\nx = { workspace = true }\nserde = '1'\nserde_json.workspace = true\n",
        "[build-dependencies.b]\npath = '../b'\n",
        "",
        "",
        "[target.'cfg(unix)'.dependencies]\nc = { path = '../../crates/c', optional = true }\n",
        "[dev-dependencies]\nd = { path = '../d' }\n",
        "[dependencies]\na = { path = '../a' }\n",
        "",
        "",
    ];
    let common = "[workspace.dependencies]\nx = { path = 'crates/a', package = 'y' }\nserde_json = '1'\n";
    fs::write(folder.path().join("Cargo.toml"), common).unwrap();
    for (name, manifest) in crates.into_iter().zip(manifests) {
        let folder = folder.path().join("crates").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    }
    let found = linked(folder.path()).unwrap();
    assert_eq!(
        found,
        ["allocanary", "cell", "preload", "revision", "recorder", "a", "b", "c"]
            .map(|name| Path::new("crates").join(name))
    );
    assert_eq!(places(folder.path()).unwrap(), PACKAGED.map(PathBuf::from), "no build script of the repository here");
    fs::write(folder.path().join("crates/b/Cargo.toml"), "[dependencies").unwrap();
    assert!(linked(folder.path()).unwrap_err().contains("crates/b/Cargo.toml: "));
}
