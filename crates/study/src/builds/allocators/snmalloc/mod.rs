//! snmalloc.

use allocanary_facts::snmalloc::NAME;

use super::part::{Part, as_told};
use crate::builds::release::Release;

pub(super) const PART: Part = Part { name: NAME, releases: &[RELEASE], version: as_told };

const RELEASE: Release = Release {
    allocator: NAME,
    version: "0.7.6",
    package: "snmalloc-sys",
    package_version: "0.7.6",
    features: &["build_cc", "libc-api"],
    cflags: "",
    shim: Some(include_str!("shim.c")),
    cpp: true,
};
