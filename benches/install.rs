//! The cost of `install!`, in instructions per pair of allocate and free. callgrind counts them, and the count is the same in every run
//! (jemalloc's to a thousandth). In: the programs of `crates/allocanary/examples/pairs`. Out: a table. The ratio should be at most 1.001.
//!
//! `cargo bench --bench install` (needs valgrind). With `-- stats` it also shows the cost of jemalloc's statistics, compared with the crate
//! without them. This builds jemalloc once more, which takes minutes.

use std::path::{Path, PathBuf};
use std::process::Command;

use allocanary_testing::callgrind;

const FEW: u64 = 10_000;
const MANY: u64 = 110_000;

fn main() {
    if !callgrind::is_here() {
        return;
    }
    let all: Vec<String> = ["system", "jemalloc", "mimalloc"]
        .iter()
        .flat_map(|name| [format!("direct-{name}"), format!("install-{name}")])
        .collect();
    let examples = build(&profile(), &all, &["--features", "jemalloc,mimalloc,stats"]);
    println!("{:10} {:>10} {:>10} {:>8}", "allocator", "direct", "install!", "ratio");
    for allocator in ["system", "jemalloc", "mimalloc"] {
        let (direct, install) = (
            per_pair(&examples.join(format!("direct-{allocator}"))),
            per_pair(&examples.join(format!("install-{allocator}"))),
        );
        println!("{allocator:10} {direct:>10.3} {install:>10.3} {:>8.4}", install / direct);
    }
    if std::env::args().any(|argument| argument == "stats") {
        let folder =
            profile().parent().expect("the profile's folder is in the target folder").join("without-stats/release");
        let flags = ["--no-default-features", "--features", "jemalloc"];
        let without = per_pair(&build(&folder, &["direct-jemalloc".into()], &flags).join("direct-jemalloc"));
        let with = per_pair(&examples.join("direct-jemalloc"));
        println!("\njemalloc   {with:>10.3} with its statistics, {without:.3} without: {:.4}", with / without);
    }
}

/// Instructions per pair of allocate and free. The difference of two runs leaves out the cost of the process itself.
fn per_pair(program: &Path) -> f64 {
    callgrind::each(FEW, MANY, |pairs| {
        let mut command = Command::new(program);
        command.arg(pairs.to_string());
        command
    })
}

/// The folder of the profile that this bench was built with: `target/release`.
fn profile() -> PathBuf {
    let this = std::env::current_exe().expect("a running program has a path");
    let profile = this.ancestors().find(|path| path.ends_with("deps")).and_then(Path::parent);
    profile.expect("target/<profile>/deps").to_path_buf()
}

/// Builds the programs into the folder of a profile. Returns the folder of the programs.
fn build(profile: &Path, programs: &[String], flags: &[&str]) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--release",
        "--manifest-path",
        concat!(env!("CARGO_MANIFEST_DIR"), "/crates/allocanary/Cargo.toml"),
    ]);
    command.arg("--target-dir").arg(profile.parent().expect("the profile's folder is in the target folder"));
    command.args(flags).args(programs.iter().flat_map(|program| ["--example", program]));
    assert!(command.status().expect("cargo starts").success(), "the programs could not be built");
    profile.join("examples")
}
