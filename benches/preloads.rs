//! What a preload costs, in instructions per pair of malloc and free: callgrind counts them, and the count is the same in
//! every run. In: the programs of `examples/pairs`. Out: a table. For jemalloc the ratio is to be at most 1.03.
//!
//! `cargo bench --bench preloads` (needs valgrind)
//!
//! "direct" is a program that calls the allocator's own functions; for the system it is C's malloc without a preload.

use std::path::{Path, PathBuf};
use std::process::Command;

use allocanary_testing::callgrind;

const FEW: u64 = 10_000;
const MANY: u64 = 110_000;

const PROGRAMS: [&str; 3] = ["family-c", "family-direct-jemalloc", "family-direct-mimalloc"];

fn main() {
    if !callgrind::is_here() {
        return;
    }
    let folder = build();
    println!("{:10} {:>10} {:>10} {:>8}", "allocator", "direct", "preload", "ratio");
    for (name, direct, preload) in [
        ("system", "family-c", env!("CARGO_BIN_EXE_preload-system")),
        ("jemalloc", "family-direct-jemalloc", env!("CARGO_BIN_EXE_preload-jemalloc")),
        ("mimalloc", "family-direct-mimalloc", env!("CARGO_BIN_EXE_preload-mimalloc")),
    ] {
        let (direct, preload) =
            (per_pair(&folder.join(direct), None), per_pair(&folder.join("family-c"), Some(preload)));
        println!("{name:10} {direct:>10.3} {preload:>10.3} {:>8.4}", preload / direct);
    }
}

/// Builds the programs with this bench's profile; where they are.
fn build() -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    let profile =
        this.ancestors().find(|path| path.ends_with("deps")).and_then(Path::parent).expect("target/<profile>/deps");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--release", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    command.arg("--target-dir").arg(profile.parent().expect("the profile's folder is in the target folder"));
    command.args(PROGRAMS.iter().flat_map(|program| ["--example", program]));
    assert!(command.status().expect("cargo starts").success(), "the programs could not be built");
    profile.join("examples")
}

/// Instructions for a pair. The difference of two runs leaves out what a process costs by itself.
fn per_pair(program: &Path, preload: Option<&str>) -> f64 {
    callgrind::each(FEW, MANY, |pairs| {
        let mut command = Command::new(program);
        command.envs(preload.map(|preload| ("LD_PRELOAD", preload))).arg(pairs.to_string());
        command
    })
}
