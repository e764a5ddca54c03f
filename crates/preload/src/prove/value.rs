//! A value of an allocator's setting.

/// A value that was read.
#[derive(Debug, PartialEq)]
pub enum ReadBack<'a> {
    Flag(bool),
    Number(i128),
    Word(&'a str),
}
