//! What is looked for in a heap. In: flags. Out: the type that all of the reading has.

use allocanary_heap::ReadMode;

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub struct ContentsRequest {
    /// Whether the process is stopped.
    pub how: ReadMode,
    /// The most bytes that are copied. Of a process that has more the kinds are told, from a sample.
    pub limit: u64,
    /// Whether a sample is enough, which takes less time and less memory.
    pub is_sampled: bool,
    /// Whether to tell who holds the blocks.
    pub holders: bool,
    /// Whether to tell what texts say.
    pub texts: bool,
    /// Whether to tell the addresses of leaked blocks.
    pub addresses: bool,
}
