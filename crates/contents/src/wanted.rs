//! What is looked for in a heap. In: flags. Out: the type that all of the reading has.

use std::fmt;

use allocanary_heap::ReadMode;
use serde::{Deserialize, Serialize};

/// What is looked for.
#[derive(Clone, Debug)]
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
    /// The blocks of which it is told who points to them.
    pub target: Option<Target>,
}

/// Blocks of which it is told who points to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// The block at an address, or around it.
    Address(u64),
    /// The largest few of a kind.
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
