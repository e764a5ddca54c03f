//! The origin of a number: the build and the host. In: what the binary knows about itself, and the host. Out: a value in every row.

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

/// The name of the command and its cells in rows.
pub const PACKAGE: &str = "allocanary";

/// What only a binary knows about itself. If a library contained it, that library and all that depends on it would be compiled again with
/// each change of any source: see the crate `allocanary-revision`.
#[derive(Clone, Copy, Debug)]
pub struct BuildFacts {
    /// The git revision, with `-dirty` if the tree differed from it; `unknown` outside of a repository.
    pub revision: &'static str,
    /// The hash over sources, compiler and profile: [`Build::id`].
    pub id: &'static str,
    /// The compiler's version line.
    pub rustc: &'static str,
    /// The cargo profile.
    pub profile: &'static str,
    /// The target triple.
    pub target: &'static str,
    /// The triple of the machine that built it.
    pub host: &'static str,
}

/// For a program that did not call [`built_from`], such as a library's test.
const NOT_SAID: BuildFacts = BuildFacts {
    revision: "unknown",
    id: "not-said",
    rustc: "unknown rustc",
    profile: "unknown",
    target: "unknown",
    host: "unknown",
};

static BUILT: OnceLock<BuildFacts> = OnceLock::new();

/// Stores what this program was built from. Called once, before its first row.
pub fn built_from(built: BuildFacts) {
    let _ = BUILT.set(built);
}

fn built() -> BuildFacts {
    BUILT.get().copied().unwrap_or(NOT_SAID)
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
        let BuildFacts { revision, id, rustc, profile, target, .. } = built();
        Build {
            package: PACKAGE.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            revision: revision.into(),
            id: id.into(),
            rustc: rustc.into(),
            profile: profile.into(),
            target: target.into(),
        }
    }

    /// A build of another package with this library: an outside cell, identified by its own package and version.
    pub fn of_package(package: &str, version: &str) -> Self {
        Build { package: package.into(), version: version.into(), ..Build::this() }
    }

    /// Whether this is a cross build.
    pub fn is_cross(&self) -> bool {
        self.target != built().host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_known() {
        let here = Provenance::here();
        assert!(here.host.memory_bytes > 1 << 20 && here.host.page_bytes >= 4096);
        assert!(here.host.affinity <= here.host.cores);
        assert!(!here.build.is_cross());
    }
}
