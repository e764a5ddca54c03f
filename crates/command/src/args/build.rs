//! The flags of `build`. In: what the user typed. Out: plain values.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Flags of `build`.
#[derive(Args, Clone, Default)]
pub struct BuildFlags {
    /// What to build, such as mimalloc@2.2.5 or jemalloc@5.3; without a patch number, the newest is built [default: list what can be built].
    #[arg(value_name = "ALLOCATOR@VERSION")]
    pub names: Vec<String>,
    /// Build although the library is there already [default: keep it].
    #[arg(long, requires = "names")]
    pub again: bool,
    /// Take no crate from the network: cargo uses crates that it has downloaded before [default: download].
    #[arg(long, requires = "names")]
    pub offline: bool,
    /// Take crates from a folder that `cargo vendor` made, and none from the network [default: the registry].
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, requires = "names")]
    pub vendored: Option<PathBuf>,
    /// Remove the libraries that are named, or all [default: build].
    #[arg(long, conflicts_with_all = ["again", "offline", "vendored"])]
    pub prune: bool,
}
