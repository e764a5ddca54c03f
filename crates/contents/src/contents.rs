//! What a heap contains, as numbers and names. All views use these types, and they can be saved to a file.

use allocanary_heap::ProcessSubject;
use serde::{Deserialize, Serialize};

/// The version of saved contents. A reader refuses later versions.
pub const SCHEMA: u32 = 1;

/// What a heap contains. All sizes are usable bytes, without the allocator's headers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// The version: [`SCHEMA`].
    pub contents: u32,
    /// When it was read, in milliseconds since 1970.
    #[serde(rename = "taken_timestamp_seconds", with = "allocanary_text::seconds::millis")]
    pub taken: u64,
    /// The process.
    pub process: ProcessSubject,
    /// How long the process was stopped, in microseconds; `None` if it was not stopped.
    #[serde(
        rename = "stopped_seconds",
        with = "allocanary_text::seconds::some_micros",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub stopped: Option<u64>,
    /// What is missing in a core file; `None` for a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<CoreState>,
    /// The number of readings that had to agree on the leaks.
    pub readings: u32,
    /// The allocators whose blocks are counted, with their releases.
    pub allocators: Vec<String>,
    /// The number of live blocks.
    pub blocks: u64,
    /// The bytes of these blocks.
    pub bytes: u64,
    /// The number of sampled pages, if the kinds are an estimate from a sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<SampledPages>,
    /// The kinds, the largest first.
    pub kinds: Vec<KindRow>,
    /// Texts that occur more than once.
    pub copies: Copies,
    /// The texts whose copies cost most, if they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub texts: Option<Vec<Text>>,
    /// The holders, the largest first.
    pub holders: Vec<Holder>,
    /// Blocks to which only data leads that looks like a pointer. They may be held or leaked.
    #[serde(default, skip_serializing_if = "Alike::is_empty")]
    pub alike: Alike,
    /// The blocks that retain most bytes. Each comes after the block that retains it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retained: Vec<Retained>,
    /// What points to some blocks, if this was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointed: Option<Pointed>,
    /// For each of the largest kinds, the blocks that retain most, and what points to them, if this was requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub largest: Vec<Pointed>,
    /// The leaks. `None` if they could not be found: `problems` has the reason.
    pub leaked: Option<Leaked>,
    /// The number of pipes of which the process has both ends. Blocks whose only pointer is in such a pipe count as leaked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pipes: u64,
    /// What could not be read or found out, a sentence each.
    pub problems: Vec<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a core file lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreState {
    /// The bytes that are missing because the file is truncated.
    #[serde(rename = "missing_bytes")]
    pub missing: u64,
    /// Paths of the program and of libraries whose files are not on this host, or may be of another build.
    pub absent_files: Vec<String>,
}

/// Blocks of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindRow {
    /// The kind.
    pub kind: String,
    /// Whether the kind is only likely.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub likely: bool,
    /// The number of blocks.
    pub blocks: u64,
    /// The bytes of these blocks.
    pub bytes: u64,
    /// In a sample, the true figure is within this many bytes in 95 of 100 samples.
    #[serde(rename = "within_bytes", default, skip_serializing_if = "Option::is_none")]
    pub within: Option<u64>,
}

/// The size of a sample of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledPages {
    /// Their number.
    pub pages: u64,
    /// The number of all pages with blocks.
    pub of: u64,
}

/// Texts that occur more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// Blocks with the same text as another block. One block of each text is not counted.
    pub blocks: u64,
    /// The bytes of these blocks.
    pub bytes: u64,
}

/// Blocks to which only texts, numbers and unused bytes lead that look like a pointer, and the blocks that these hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alike {
    /// Their number.
    pub blocks: u64,
    /// The bytes of these blocks.
    pub bytes: u64,
}

impl Alike {
    fn is_empty(&self) -> bool {
        self.blocks == 0
    }
}

/// A text that occurs more than once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// The beginning of the text.
    pub text: String,
    /// The number of blocks that have it.
    pub blocks: u64,
    /// The bytes of these blocks.
    pub bytes: u64,
    /// The bytes of these blocks without one of them, which are the bytes that sharing the text would save.
    #[serde(rename = "again_bytes")]
    pub again: u64,
}

/// A place that holds blocks, such as a variable or a thread's stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its name.
    pub name: String,
    /// The number of blocks whose shortest path begins here.
    pub blocks: u64,
    /// The bytes of these blocks.
    pub bytes: u64,
    /// The number of blocks that no other holder leads to.
    pub alone_blocks: u64,
    /// The bytes of these blocks.
    pub alone_bytes: u64,
    /// What it holds, as a tree. The rows are in the order in which they are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<InnerBlocks>,
}

/// Blocks of a kind that a holder leads to in one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InnerBlocks {
    /// Its depth in the tree: 0 for what the holder points to.
    pub depth: u32,
    /// The offset of the pointer to the first of these blocks, from the beginning of the block or holder above.
    pub offset: u64,
    /// The kind.
    pub kind: String,
    /// The number of blocks.
    pub blocks: u64,
    /// The bytes of these blocks.
    pub bytes: u64,
    /// Bytes of these blocks and of all below.
    #[serde(rename = "with_all_bytes")]
    pub with_all: u64,
}

/// A block that retains others: without it nothing would lead to them. Stacks and registers do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retained {
    /// Its depth in the tree: how many of the rows before retain it.
    pub depth: u32,
    /// Its kind.
    pub kind: String,
    /// Its address, for a debugger.
    pub at: u64,
    /// The name of its holder.
    pub holder: String,
    /// The number of blocks that it retains, including itself.
    pub blocks: u64,
    /// The bytes of these blocks.
    pub bytes: u64,
}

/// What points to some blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointed {
    /// The requested address or kind.
    pub wanted: String,
    /// The number of such blocks.
    pub found: u64,
    /// The blocks that retain most bytes.
    pub blocks: Vec<PointedBlock>,
}

/// A block, and what points to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointedBlock {
    /// Its kind.
    pub kind: String,
    /// Its address.
    pub at: u64,
    /// Its bytes.
    #[serde(rename = "each_bytes")]
    pub each: u64,
    /// The number of blocks that it retains, including itself.
    pub blocks: u64,
    /// The bytes of these blocks.
    pub bytes: u64,
    /// The words that point to it: first variables and other roots, then blocks.
    pub pointers: Vec<Pointer>,
    /// The number of further pointers.
    pub more: u64,
    /// The path from a holder to the block, as the pointers to each next step. Empty if nothing leads to it.
    pub path: Vec<Pointer>,
    /// What its first words are. Bytes that may be a text are not shown.
    pub first: Vec<String>,
    /// The beginning of the text in it, if texts were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A word that points to a block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    /// The owner of the word: a holder, or a block, named by its kind.
    pub from: String,
    /// The address of the block, or of the word if a holder has it; 0 for a register.
    pub at: u64,
    /// The offset of the word from the beginning of the block or variable.
    pub offset: u64,
    /// Whether it is data that looks like a pointer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub looks_alike: bool,
}

/// Blocks that nothing reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaked {
    /// The number of blocks.
    pub blocks: u64,
    /// The bytes of these blocks.
    pub bytes: u64,
    /// The number of these that no other leaked block leads to.
    pub direct_blocks: u64,
    /// The bytes of these blocks.
    pub direct_bytes: u64,
    /// The blocks by kind and size, the largest row first.
    pub rows: Vec<Lost>,
    /// The call sites that allocated them, the largest first, if a trace of the process was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<LeakSite>,
    /// If the process has a sampled profile, the number of blocks whose call site it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<u64>,
    /// The addresses of the blocks, for the code that has a trace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<u64>,
}

/// Leaked blocks that one call site has allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakSite {
    /// Its name; empty for blocks that are not in the trace.
    pub name: String,
    /// The number of blocks. From a profile, only the sampled blocks.
    pub blocks: u64,
    /// The requested bytes; 0 for blocks that are not in the trace.
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
    /// The beginning of its text, if it is a text and texts were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The number of blocks.
    pub blocks: u64,
    /// The number of these that no other leaked block leads to.
    pub direct: u64,
    /// The bytes of these blocks.
    pub bytes: u64,
    /// The call sites of the blocks that the process's profile has sampled, the one with the most blocks first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<LeakSite>,
    /// The addresses of the sampled blocks, for the code that names call sites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sampled: Vec<u64>,
}
