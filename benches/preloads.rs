//! The cost of a preload. In: the programs of `crates/allocanary/examples/pairs`, and `tests/it/preloads_c/hello.c`. Out: two tables.
//!
//! - Memory of a small C program in KiB, as medians of 101 runs: the resident memory, and its part that no file backs. With
//!   `preload-system` the program should have at most 300 KiB more than without it.
//! - Instructions per pair of malloc and free. callgrind counts them, and the count is the same in every run. For jemalloc the ratio should
//!   be at most 1.03. "direct" is a program that calls the allocator's own functions. For the system it is C's malloc without a preload.
//!
//! `cargo bench --bench preloads` (needs a C compiler, and valgrind for the second table)

use std::path::{Path, PathBuf};
use std::process::Command;

use allocanary_testing::callgrind;

const FEW: u64 = 10_000;
const MANY: u64 = 110_000;

const PROGRAMS: [&str; 3] = ["family-c", "family-direct-jemalloc", "family-direct-mimalloc"];

const RUNS: usize = 101;

const PRELOADS: [(&str, &str); 3] = [
    ("system", env!("CARGO_BIN_EXE_preload-system")),
    ("jemalloc", env!("CARGO_BIN_EXE_preload-jemalloc")),
    ("mimalloc", env!("CARGO_BIN_EXE_preload-mimalloc")),
];

fn main() {
    memory();
    instructions();
}

/// Prints the memory of a small program.
fn memory() {
    let folder = tempfile::tempdir().expect("a folder for the program");
    let hello = folder.path().join("hello");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/preloads_c/hello.c");
    let compiled = Command::new("cc").args(["-O1", "-o"]).arg(&hello).arg(source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        return println!("memory: skipped, there is no C compiler (cc)");
    }
    let without = medians(&hello, None);
    println!("{:10} {:>10} {:>10} {:>10} {:>10}", "preload", "resident", "more", "anonymous", "more");
    println!("{:10} {:>10} {:>10} {:>10}", "none", without[0], "", without[1]);
    for (name, preload) in PRELOADS {
        let with = medians(&hello, Some(preload));
        let more = [with[0] - without[0], with[1] - without[1]];
        println!("{name:10} {:>10} {:>10} {:>10} {:>10}", with[0], more[0], with[1], more[1]);
    }
}

/// The medians of the figures that the program prints about its memory.
fn medians(hello: &Path, preload: Option<&str>) -> [i64; 2] {
    let once = || -> Vec<i64> {
        let output =
            Command::new(hello).envs(preload.map(|preload| ("LD_PRELOAD", preload))).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.split_whitespace().map(|number| number.parse().expect("a number of KiB")).collect()
    };
    let runs: Vec<Vec<i64>> = (0..RUNS).map(|_| once()).collect();
    [0, 1].map(|of| {
        let mut sorted: Vec<i64> = runs.iter().map(|run| run[of]).collect();
        sorted.sort_unstable();
        sorted[RUNS / 2]
    })
}

/// Prints the instructions per pair of malloc and free.
fn instructions() {
    if !callgrind::is_here() {
        return;
    }
    let folder = build();
    println!("\n{:10} {:>10} {:>10} {:>8}", "allocator", "direct", "preload", "ratio");
    for ((name, preload), direct) in PRELOADS.into_iter().zip(PROGRAMS) {
        let (direct, preload) =
            (per_pair(&folder.join(direct), None), per_pair(&folder.join("family-c"), Some(preload)));
        println!("{name:10} {direct:>10.3} {preload:>10.3} {:>8.4}", preload / direct);
    }
}

/// Builds the programs with this bench's profile. Returns their folder.
fn build() -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    let profile =
        this.ancestors().find(|path| path.ends_with("deps")).and_then(Path::parent).expect("target/<profile>/deps");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args([
        "build",
        "--release",
        "--manifest-path",
        concat!(env!("CARGO_MANIFEST_DIR"), "/crates/allocanary/Cargo.toml"),
    ]);
    command.args(["--features", "jemalloc,mimalloc,stats"]);
    command.arg("--target-dir").arg(profile.parent().expect("the profile's folder is in the target folder"));
    command.args(PROGRAMS.iter().flat_map(|program| ["--example", program]));
    assert!(command.status().expect("cargo starts").success(), "the programs could not be built");
    profile.join("examples")
}

/// Instructions per pair. The difference of two runs leaves out the cost of the process itself.
fn per_pair(program: &Path, preload: Option<&str>) -> f64 {
    callgrind::each(FEW, MANY, |pairs| {
        let mut command = Command::new(program);
        command.envs(preload.map(|preload| ("LD_PRELOAD", preload))).arg(pairs.to_string());
        command
    })
}
