//! Provenance only: tells the crate which sources, compiler and options it was built from.
//!
//! `ALLOCANARY_BUILD` is a hash over every source file of a cell, the lock file, the compiler and the profile. The
//! command refuses a cell with another hash than its own. A git revision would not be enough, because two different
//! uncommitted trees have the same one. It is not part of this crate, so that a commit does not compile this crate and
//! all crates above it again.

use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "build/sources.rs"]
mod sources;

fn main() {
    // A packaged crate is not inside the repository.
    let is_packaged = !Path::new("../../crates/cell/build.rs").exists();
    let root = Path::new(if is_packaged { "." } else { "../.." });
    let places = sources::places(root).unwrap_or_else(|problem| panic!("the sources of a cell: {problem}"));
    for place in &places {
        let path = root.join(place);
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
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

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// `PROFILE` knows only `debug` and `release`; the folder above `build/` is named after the real profile.
fn profile_name() -> String {
    let out = PathBuf::from(variable("OUT_DIR"));
    let folder = out.ancestors().find(|path| path.file_name().is_some_and(|name| name == "build"));
    let name = folder.and_then(Path::parent).and_then(Path::file_name);
    name.map_or_else(|| variable("PROFILE"), |name| name.to_string_lossy().into_owned())
}
