//! What a heap contains, as numbers and names: for every view, and for a file.

use allocanary_heap::ProcessSubject;
use serde::{Deserialize, Serialize};

/// The form of saved contents. A reader refuses later ones.
pub const SCHEMA: u32 = 1;

/// What a heap contains. All sizes are bytes that the program may use, without the allocator's headers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// [`SCHEMA`].
    pub contents: u32,
    /// When it was read, in milliseconds since 1970.
    #[serde(rename = "taken_timestamp_seconds", with = "allocanary_text::seconds::millis")]
    pub taken: u64,
    /// The process.
    pub process: ProcessSubject,
    /// How long it was stopped, in microseconds; `None` if it ran on.
    #[serde(
        rename = "stopped_seconds",
        with = "allocanary_text::seconds::some_micros",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub stopped: Option<u64>,
    /// What is special about a core file; `None` for a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<CoreState>,
    /// How many readings had to agree on the leaks.
    pub readings: u32,
    /// The allocators whose blocks are counted, with their releases.
    pub allocators: Vec<String>,
    /// Live blocks.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// If the kinds are of a sample of the pages: how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledPages>,
    /// The kinds, the largest first.
    pub kinds: Vec<KindRow>,
    /// Texts that are there more than once.
    pub copies: Copies,
    /// Those that cost most, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texts: Option<Vec<Text>>,
    /// The holders, the largest first.
    pub holders: Vec<Holder>,
    /// Blocks to which only data leads that looks like a pointer: they may be held or leaked.
    #[serde(default, skip_serializing_if = "Alike::is_empty")]
    pub alike: Alike,
    /// The blocks that retain most, each one below the one that retains it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retained: Vec<Retained>,
    /// Who points to some blocks, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointed: Option<Pointed>,
    /// The leaks. `None` if they cannot be told; then the reason is among the problems.
    pub leaked: Option<Leaked>,
    /// Pipes of which the process has both ends: what only these have counts as leaked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pipes: u64,
    /// What could not be read or told, a sentence each.
    pub problems: Vec<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a core file lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreState {
    /// Bytes that should be behind its end: it is truncated.
    #[serde(rename = "missing_bytes")]
    pub missing: u64,
    /// Paths of the program and of libraries whose files are not on this host, or are not known to be of the same build.
    pub absent_files: Vec<String>,
}

/// Blocks of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindRow {
    /// The kind.
    pub kind: String,
    /// Whether it is likely only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub likely: bool,
    /// Blocks.
    pub blocks: u64,
    /// Bytes.
    pub bytes: u64,
    /// Of a sample: the truth is within so many bytes in 95 of 100 samples.
    #[serde(rename = "within_bytes", default, skip_serializing_if = "Option::is_none")]
    pub within: Option<u64>,
}

/// The pages whose blocks were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledPages {
    /// How many.
    pub pages: u64,
    /// Of how many.
    pub of: u64,
}

/// Texts that are there more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// Blocks whose text another block has as well, without one of each.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// Blocks to which only texts, numbers and unused bytes lead that look like a pointer, and what these blocks hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alike {
    /// How many.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
}

impl Alike {
    fn is_empty(&self) -> bool {
        self.blocks == 0
    }
}

/// A text that is there more than once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// Its beginning.
    pub text: String,
    /// Blocks that have it.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes without one of them.
    #[serde(rename = "again_bytes")]
    pub again: u64,
}

/// Who holds blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its name.
    pub name: String,
    /// Blocks whose shortest path begins here.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Blocks that nothing else leads to.
    pub alone_blocks: u64,
    /// Bytes of them.
    pub alone_bytes: u64,
    /// What it holds, as a tree, in the order in which it is shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<InnerBlocks>,
}

/// Blocks of a kind that a holder leads to in one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InnerBlocks {
    /// How deep it is: 0 for what the holder points to.
    pub depth: u32,
    /// Where the pointer to the first of them is, from the beginning of what is above.
    pub offset: u64,
    /// The kind.
    pub kind: String,
    /// Blocks.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes of them and of all below.
    #[serde(rename = "with_all_bytes")]
    pub with_all: u64,
}

/// A block that retains others: without it nothing leads to them. Stacks and registers do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retained {
    /// How many of the rows before it retain it.
    pub depth: u32,
    /// Its kind.
    pub kind: String,
    /// Its address, for a debugger.
    pub at: u64,
    /// Who holds it.
    pub holder: String,
    /// Blocks that it retains, with itself.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// Who points to some blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointed {
    /// The address or the kind that was asked for.
    pub wanted: String,
    /// How many blocks there are.
    pub found: u64,
    /// Those that retain most.
    pub blocks: Vec<PointedBlock>,
}

/// A block, and who points to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointedBlock {
    /// Its kind.
    pub kind: String,
    /// Its address.
    pub at: u64,
    /// Its bytes.
    #[serde(rename = "each_bytes")]
    pub each: u64,
    /// Blocks that it retains, with itself.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Words that point to it: variables and other roots, then blocks.
    pub pointers: Vec<Pointer>,
    /// How many more there are.
    pub more: u64,
    /// The way from a holder to it: where the pointer to the next step is. Empty if nothing leads to it.
    pub path: Vec<Pointer>,
}

/// A word that points to a block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    /// Who has the word: a holder, or the kind of a block.
    pub from: String,
    /// The address of the block; of a holder that of the word; 0 for a register.
    pub at: u64,
    /// Where the word is, from the beginning of the block or the variable.
    pub offset: u64,
    /// Whether it is data that looks like a pointer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub looks_alike: bool,
}

/// What nothing reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaked {
    /// Blocks.
    pub blocks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Of them, those that no other leaked block leads to.
    pub direct_blocks: u64,
    /// Bytes of those.
    pub direct_bytes: u64,
    /// By kind and size, the largest first.
    pub rows: Vec<Lost>,
    /// Where they were allocated, the largest first, if a trace of the process was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<LeakSite>,
    /// If the process has a sampled profile: how many of the blocks have their call site by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<u64>,
    /// The addresses of the blocks, on their way to who has a trace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<u64>,
}

/// Leaked blocks that one call site has allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakSite {
    /// Its name; empty for blocks that the trace does not have.
    pub name: String,
    /// Blocks; by a profile, those that were sampled.
    pub blocks: u64,
    /// Bytes that were asked for; of blocks that the trace does not have 0.
    pub bytes: u64,
}

/// Leaked blocks of one kind and size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The kind.
    pub kind: String,
    /// The bytes of each block.
    #[serde(rename = "each_bytes")]
    pub each: u64,
    /// The address of the first one, for a debugger.
    pub first: u64,
    /// The beginning of its text, if texts were asked for and it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Blocks.
    pub blocks: u64,
    /// Of them, those that no other leaked block leads to.
    pub direct: u64,
    /// Bytes.
    pub bytes: u64,
    /// The call sites of those that the process's profile has sampled, the one with the most blocks first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<LeakSite>,
    /// The addresses of these, on their way to who names call sites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sampled: Vec<u64>,
}
