//! rpmalloc.

use allocanary_facts::rpmalloc::NAME;

use super::part::{Part, as_told};
use crate::builds::release::Release;

pub(super) const PART: Part = Part { name: NAME, releases: &[RELEASE], version: as_told };

const RELEASE: Release = Release {
    allocator: NAME,
    // The crate bundles a later commit than this release. The library has no function that reports its version.
    version: "1.4.3",
    package: "rpmalloc-sys",
    package_version: "0.2.3",
    features: &["preload", "thread_cache", "global_cache", "adaptive_thread_cache"],
    cflags: "-DENABLE_OVERRIDE=1",
    shim: None,
    cpp: false,
};
