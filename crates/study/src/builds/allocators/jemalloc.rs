//! jemalloc. The versions in the table are those in the file `VERSION` of the crates' sources.

use allocanary_facts::jemalloc::NAME;

use super::part::Part;
use crate::builds::release::Release;

pub(super) const PART: Part = Part { name: NAME, releases: RELEASES, version };

const RELEASES: &[Release] = &[release("5.3.1", "0.7.1"), release("5.3.0", "0.6.1"), release("5.2.1", "0.4.3")];

/// jemalloc exports malloc itself if its names have no prefix.
const fn release(version: &'static str, package_version: &'static str) -> Release {
    let features = &["background_threads_runtime_support", "stats", "unprefixed_malloc_on_supported_platforms"];
    Release {
        allocator: NAME,
        version,
        package: "tikv-jemalloc-sys",
        package_version,
        features,
        cflags: "",
        shim: None,
        cpp: false,
    }
}

/// `5.3.0-0-g54eaed1d8b56` is 5.3.0.
fn version(told: &str) -> Option<String> {
    told.split('-').next().map(str::to_string)
}
