//! Facts of a mapped file. They are the same in each process that maps it.

/// A fact that a file can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// The bytes from the start of its first segment to the end of its last one, in whole pages.
    Extent,
    /// The minor release number of glibc in its text: 36 for 2.36.
    Release,
}
