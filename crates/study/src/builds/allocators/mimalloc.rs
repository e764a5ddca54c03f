//! mimalloc. The versions in the table are those of `MI_MALLOC_VERSION` in the crates' sources.

use allocanary_facts::mimalloc::NAME;

use super::part::Part;
use crate::builds::release::Release;

pub(super) const PART: Part = Part { name: NAME, releases: RELEASES, version };

const RELEASES: &[Release] = &[
    release("3.3.2", "0.1.49", &["extended", "override"]),
    release("3.3.1", "0.1.47", &["extended", "override"]),
    release("3.3.0", "0.1.46", &["extended", "override"]),
    release("3.1.5", "0.1.44", &["extended", "override", "v3"]),
    release("2.3.2", "0.1.49", &["extended", "override", "v2"]),
    release("2.3.1", "0.1.47", &["extended", "override", "v2"]),
    release("2.3.0", "0.1.46", &["extended", "override", "v2"]),
    release("2.2.5", "0.1.43", &["extended", "override"]),
    release("2.2.4", "0.1.44", &["extended", "override"]),
    release("2.2.3", "0.1.42", &["extended", "override"]),
    release("2.1.7", "0.1.39", &["extended", "override"]),
    release("2.1.6", "0.1.38", &["extended", "override"]),
    release("2.1.2", "0.1.35", &["extended", "override"]),
    release("2.0.9", "0.1.30", &["extended", "override"]),
    release("2.0.6", "0.1.25", &["extended", "override"]),
    release("1.7.5", "0.1.24", &["extended", "override"]),
];

/// mimalloc exports malloc itself with the feature `override`.
const fn release(version: &'static str, package_version: &'static str, features: &'static [&'static str]) -> Release {
    Release {
        allocator: NAME,
        version,
        package: "libmimalloc-sys",
        package_version,
        features,
        cflags: "",
        shim: None,
        cpp: false,
    }
}

/// `225` is 2.2.5, `20302` is 2.3.2.
fn version(told: &str) -> Option<String> {
    let number: u32 = told.parse().ok()?;
    let step = if number < 1000 { 10 } else { 100 };
    Some(format!("{}.{}.{}", number / (step * step), number / step % step, number % step))
}
