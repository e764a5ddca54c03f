//! Provenance only: tells the crate which sources, compiler and options it was built from.
//!
//! `ALLOCANARY_BUILD` is a hash over every source file, the lock file, the compiler, the profile and the
//! features. The command and its cells carry the same one or the cell is refused: a git revision alone would
//! call two different uncommitted trees equal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    for path in ["src", "build.rs", "Cargo.toml", "Cargo.lock", ".git/logs/HEAD"] {
        if Path::new(path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let rustc = output(&variable("RUSTC"), &["--version"]).unwrap_or_else(|| "unknown rustc".into());
    let profile = profile_name();
    let features = features();
    let target = variable("TARGET");

    let mut hash = Fnv::new();
    for file in sources() {
        hash.add(file.to_string_lossy().as_bytes());
        hash.add(&fs::read(&file).unwrap_or_default());
    }
    for text in [&rustc, &profile, &features, &target] {
        hash.add(text.as_bytes());
    }

    println!("cargo:rustc-env=ALLOCANARY_BUILD={:016x}", hash.0);
    println!("cargo:rustc-env=ALLOCANARY_REVISION={}", revision());
    println!("cargo:rustc-env=ALLOCANARY_RUSTC={rustc}");
    println!("cargo:rustc-env=ALLOCANARY_PROFILE={profile}");
    println!("cargo:rustc-env=ALLOCANARY_FEATURES={features}");
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

/// The features that are on, in order, as cargo takes them back: `command,jemalloc`.
fn features() -> String {
    const ALL: [&str; 8] = [
        "default",
        "command",
        "jemalloc",
        "mimalloc",
        "prometheus",
        "system-alloc",
        "jemalloc-alloc",
        "mimalloc-alloc",
    ];
    let on = |name: &&str| {
        let key = format!("CARGO_FEATURE_{}", name.to_uppercase().replace('-', "_"));
        std::env::var_os(key).is_some()
    };
    ALL.iter().filter(|name| on(name)).copied().collect::<Vec<_>>().join(",")
}

/// The git revision, `-dirty` where the tree differs from it; a packaged crate has a file that names it.
fn revision() -> String {
    if let Some(revision) = output("git", &["describe", "--always", "--abbrev=12", "--dirty"]) {
        return revision;
    }
    let packaged = fs::read_to_string(".cargo_vcs_info.json").unwrap_or_default();
    match packaged.split('"').skip_while(|word| *word != "sha1").nth(2) {
        Some(revision) => revision.chars().take(12).collect(),
        None => "unknown".into(),
    }
}

fn sources() -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("Cargo.toml"), PathBuf::from("Cargo.lock"), PathBuf::from("build.rs")];
    let mut folders = vec![PathBuf::from("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// FNV-1a: the standard library's hasher may change between compilers, and this need not resist anyone.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
