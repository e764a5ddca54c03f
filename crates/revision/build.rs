//! Asks git for the revision.

use std::fs;
use std::path::Path;
use std::process::Command;

fn main() {
    // A commit, and an edit, which makes it dirty. In a packaged crate there is nothing above it that belongs to it.
    let is_packaged = !Path::new("../../crates/revision/build.rs").exists();
    let repository = [".git/logs/HEAD", "Cargo.toml", "src", "crates"].map(|place| format!("../../{place}"));
    println!("cargo:rerun-if-changed=build.rs");
    for place in repository.iter().filter(|place| !is_packaged && Path::new(place).exists()) {
        println!("cargo:rerun-if-changed={place}");
    }
    println!("cargo:rustc-env=ALLOCANARY_REVISION={}", revision());
}

/// Of the repository; of a packaged crate from its file.
fn revision() -> String {
    let git = Command::new("git").args(["describe", "--always", "--abbrev=12", "--dirty"]).output();
    if let Some(said) = git.ok().filter(|said| said.status.success()) {
        return String::from_utf8_lossy(&said.stdout).trim().to_string();
    }
    let packaged = fs::read_to_string(".cargo_vcs_info.json").unwrap_or_default();
    match packaged.split('"').skip_while(|word| *word != "sha1").nth(2) {
        Some(revision) => revision.chars().take(12).collect(),
        None => "unknown".into(),
    }
}
