//! What can be built of an allocator: one version of it. In: nothing. Out: the type of an entry in the tables.

/// A version of an allocator, and the crate that bundles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The allocator.
    pub allocator: &'static str,
    /// Its version, as the library reports it.
    pub version: &'static str,
    /// The crate.
    pub package: &'static str,
    /// The exact version of the crate.
    pub package_version: &'static str,
    /// The crate's features, without its default ones.
    pub features: &'static [&'static str],
    /// Additional flags for the C compiler, for options that are not features of the crate.
    pub cflags: &'static str,
    /// The C source that defines the family of malloc, if the crate does not.
    pub shim: Option<&'static str>,
    /// Whether it is written in C++.
    pub cpp: bool,
}

impl Release {
    /// Its name as a candidate, such as `jemalloc@5.3.0`.
    pub fn name(&self) -> String {
        format!("{}@{}", self.allocator, self.version)
    }
}
