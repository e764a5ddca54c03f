//! The origin of a number: the build and the host. In: the variables of build.rs, and the host. Out: a value in every row.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use allocanary_sys::host::Host;

/// The build and the host behind a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The program that measured.
    pub build: Build,
    /// The machine on which it ran.
    pub host: Host,
}

impl Provenance {
    /// The provenance of this process.
    pub fn here() -> Self {
        Provenance { build: Build::this(), host: Host::this() }
    }
}

/// What rows call the command and its cells.
pub const PACKAGE: &str = "allocanary";

/// The hash over sources, compiler and profile of this build, [`Build::id`].
pub const BUILD: &str = env!("ALLOCANARY_BUILD");

static REVISION: OnceLock<&str> = OnceLock::new();

/// Sets the git revision of this program, once, before its first row. Only a binary knows the revision: see the crate
/// `allocanary-revision`.
pub fn built_from(revision: &'static str) {
    let _ = REVISION.set(revision);
}

/// A build of allocanary, or of an outside cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// `allocanary`, or the package of an outside cell.
    pub package: String,
    /// The package's version.
    pub version: String,
    /// The git revision, with `-dirty` if the tree differed from it; `unknown` if the program has not set it ([`built_from`]).
    pub revision: String,
    /// A hash over sources, compiler and profile. Two builds have the same hash only if all of these are equal.
    pub id: String,
    /// The compiler's version line.
    pub rustc: String,
    /// The cargo profile.
    pub profile: String,
    /// The target triple.
    pub target: String,
}

impl Build {
    /// This build.
    pub fn this() -> Self {
        Build {
            package: PACKAGE.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            revision: REVISION.get().copied().unwrap_or("unknown").into(),
            id: BUILD.into(),
            rustc: env!("ALLOCANARY_RUSTC").into(),
            profile: env!("ALLOCANARY_PROFILE").into(),
            target: env!("ALLOCANARY_TARGET").into(),
        }
    }

    /// A build of another package with this library: an outside cell, identified by its own package and version.
    pub fn of_package(package: &str, version: &str) -> Self {
        Build { package: package.into(), version: version.into(), ..Build::this() }
    }

    /// Whether this is a cross build.
    pub fn is_cross(&self) -> bool {
        self.target != env!("ALLOCANARY_HOST")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_and_build_are_known() {
        let here = Provenance::here();
        assert!(here.host.memory_bytes > 1 << 20 && here.host.page_bytes >= 4096);
        assert!(here.host.affinity <= here.host.cores);
        assert_eq!(here.build.id.len(), 16);
        assert!(here.build.rustc.starts_with("rustc "));
    }
}
