//! What a binary of ours was built from. Only binaries depend on this crate: it changes with each commit and with each source file of a
//! cell. A library that depended on it would be compiled again each time, with all that depends on that library.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

use allocanary_rows::provenance::BuildFacts;

/// A part of the build script. It is compiled here for its tests.
#[cfg(test)]
#[path = "../build/sources.rs"]
mod sources;

/// A hash over every source file of a cell, the lock file, the compiler and the profile. In a packaged crate, only this crate's sources are
/// hashed, and its version stands for the others. The command refuses a cell and a preload with another hash than its own. A git revision
/// would not be enough, because two different uncommitted trees have the same one.
pub const BUILD: &str = env!("ALLOCANARY_BUILD");

/// What this binary was built from.
// A function and not constants: inlined into the command's `main`, constants would change its only codegen unit, which took 50 s of
// processor time to compile again.
#[inline(never)]
pub fn built() -> BuildFacts {
    BuildFacts {
        revision: env!("ALLOCANARY_REVISION"),
        id: BUILD,
        rustc: env!("ALLOCANARY_RUSTC"),
        profile: env!("ALLOCANARY_PROFILE"),
        target: env!("ALLOCANARY_TARGET"),
        host: env!("ALLOCANARY_HOST"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_build_is_known() {
        let built = built();
        assert_eq!(built.id.len(), 16);
        assert!(built.rustc.starts_with("rustc "));
        assert_eq!(built.host, built.target);
    }
}
