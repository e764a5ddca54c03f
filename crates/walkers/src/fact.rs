//! What a mapped file says, which is the same in each process that maps it.

/// What can be asked of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// The bytes from its first segment to the end of its last one, in whole pages.
    Extent,
    /// The release of glibc that it names: 36 for 2.36.
    Release,
}
