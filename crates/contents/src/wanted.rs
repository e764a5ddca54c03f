//! What to search in a heap, as the flags of the command say.

use std::fmt;

use allocanary_heap::ReadMode;
use serde::{Deserialize, Serialize};

/// What to search in a heap.
#[derive(Clone, Debug)]
pub struct ContentsRequest {
    /// Whether the process is stopped.
    pub how: ReadMode,
    /// The most bytes that are copied. For a larger process, only the kinds are estimated, from a sample.
    pub limit: u64,
    /// Whether a sample is enough. It takes less time and less memory.
    pub is_sampled: bool,
    /// Whether to find what holds the blocks.
    pub holders: bool,
    /// Whether to return the texts.
    pub texts: bool,
    /// Whether to return the addresses of leaked blocks.
    pub addresses: bool,
    /// The blocks for which to find what points to them.
    pub target: Option<Target>,
    /// Whether to find the same for a few blocks of each of the largest kinds.
    pub largest: bool,
}

/// Blocks for which to find what points to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// The block that contains an address.
    Address(u64),
    /// The largest few blocks of a kind.
    Kind(String),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Address(at) => write!(f, "{at:#x}"),
            Target::Kind(name) => f.write_str(name),
        }
    }
}
