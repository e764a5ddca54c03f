//! The crates that a service with `install!` compiles. In: cargo's tree of dependencies. Out: a short list of crates.

use std::collections::BTreeSet;
use std::process::Command;

use super::bounded::Bounded;

/// The crates that a service gets with these features, without those of the allocators' build scripts.
fn crates_of(features: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--offline", "--package", "allocanary", "--edges", "normal", "--prefix", "none"]);
    tree.args(["--no-default-features", "--features", features, "--format", "{p}"]);
    tree.args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    let output = tree.finish().unwrap();
    assert!(output.status.success(), "{tree:?}: {}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_string).collect()
}

#[test]
fn a_service_compiles_the_allocator_and_what_installs_it() {
    const OURS: [&str; 4] = ["allocanary", "allocanary-facts", "allocanary-sys", "allocanary-text"];
    for (features, theirs) in [
        ("", &["libc"][..]),
        // `paste` names tikv-jemalloc-ctl's modules while it compiles.
        ("jemalloc", &["libc", "paste", "tikv-jemalloc-ctl", "tikv-jemalloc-sys", "tikv-jemallocator"]),
        // `cty` has the names of C's types.
        ("mimalloc", &["cty", "libc", "libmimalloc-sys", "mimalloc"]),
    ] {
        let wanted: BTreeSet<String> = OURS.iter().chain(theirs).map(|name| name.to_string()).collect();
        assert_eq!(crates_of(features), wanted, "features: {features:?}");
    }
}

#[test]
fn recording_adds_the_recorder_its_format_and_its_stacks_alone() {
    let (without, with) = (crates_of("jemalloc"), crates_of("jemalloc,record"));
    let added: Vec<&String> = with.difference(&without).collect();
    assert_eq!(added, ["allocanary-recorder", "allocanary-stacks", "allocanary-trace"], "{with:?}");
}

/// `tests/without_stats.rs` has no test at all where they are on.
#[test]
fn jemallocs_statistics_are_a_choice() {
    let on = |features: &str| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut tree = Command::new(cargo);
        tree.args(["tree", "--offline", "--package", "allocanary", "--edges", "normal", "--prefix", "none"]);
        tree.args(["--no-default-features", "--features", features, "--format", "{p}: {f}"]);
        tree.args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
        let output = tree.finish().unwrap();
        assert!(output.status.success(), "{tree:?}: {}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).unwrap();
        let of = |line: &str| {
            let (package, features) = line.split_once(": ")?;
            features.split([',', ' ']).any(|one| one == "stats").then(|| package.split(' ').next().unwrap().to_string())
        };
        lines.lines().filter_map(of).collect::<BTreeSet<String>>()
    };
    assert_eq!(on("jemalloc"), BTreeSet::new());
    assert!(on("jemalloc,stats").contains("tikv-jemalloc-sys"), "{:?}", on("jemalloc,stats"));
}
