//! Asks git for the revision, and hashes the sources that cells and preloads are made of.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "build/sources.rs"]
mod sources;

fn main() {
    // A packaged crate has no repository around it.
    let is_packaged = !Path::new("../../crates/revision/build.rs").exists();
    let root = Path::new(if is_packaged { "." } else { "../.." });
    let places = sources::places(root).unwrap_or_else(|problem| panic!("the sources of a cell: {problem}"));
    // The revision changes with a commit, and with an edit, which makes it dirty.
    let repository = [".git/logs/HEAD", "Cargo.toml", "src", "crates"].map(PathBuf::from);
    println!("cargo:rerun-if-changed=build.rs");
    for place in repository.iter().filter(|_| !is_packaged).chain(&places) {
        let path = root.join(place);
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    println!("cargo:rustc-env=ALLOCANARY_REVISION={}", revision(is_packaged));

    let rustc = output(&variable("RUSTC"), &["--version"]).unwrap_or_else(|| "unknown rustc".into());
    let profile = profile_name();
    let target = variable("TARGET");
    let mut hash = sources::hash(root, &places);
    for text in [&rustc, &profile, &target] {
        hash.add(text.as_bytes());
    }
    println!("cargo:rustc-env=ALLOCANARY_BUILD={:016x}", hash.value());
    println!("cargo:rustc-env=ALLOCANARY_RUSTC={rustc}");
    println!("cargo:rustc-env=ALLOCANARY_PROFILE={profile}");
    println!("cargo:rustc-env=ALLOCANARY_TARGET={target}");
    println!("cargo:rustc-env=ALLOCANARY_HOST={}", variable("HOST"));
}

/// The revision of the repository. A packaged crate has it in a file.
fn revision(is_packaged: bool) -> String {
    // A package may be unpacked inside another repository, whose revision is not its own.
    if let Some(said) =
        (!is_packaged).then(|| output("git", &["describe", "--always", "--abbrev=12", "--dirty"])).flatten()
    {
        return said;
    }
    let packaged = fs::read_to_string(".cargo_vcs_info.json").unwrap_or_default();
    match packaged.split('"').skip_while(|word| *word != "sha1").nth(2) {
        Some(revision) => revision.chars().take(12).collect(),
        None => "unknown".into(),
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// The cargo profile, by the name of the folder above `build/`. The variable `PROFILE` has only `debug` or `release`.
fn profile_name() -> String {
    let out = PathBuf::from(variable("OUT_DIR"));
    let folder = out.ancestors().find(|path| path.file_name().is_some_and(|name| name == "build"));
    let name = folder.and_then(Path::parent).and_then(Path::file_name);
    name.map_or_else(|| variable("PROFILE"), |name| name.to_string_lossy().into_owned())
}
