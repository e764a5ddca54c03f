//! The git revision. A crate of its own, on which binaries alone depend: it changes with each commit, and a library that had it would be
//! compiled again with all that depends on it.

#![forbid(unsafe_code)]

/// The revision, with `-dirty` if the sources differed from it; `unknown` outside of a repository.
// Not a constant: inlined into the command's main it changed its one unit, which took 50 s of processor time to compile again.
#[inline(never)]
pub fn revision() -> &'static str {
    env!("ALLOCANARY_REVISION")
}
