//! The bytes of a trace. In: a file. Out: its header and the headers of its chunks. `FORMAT.md` of this crate says how a reader orders the
//! events of different threads.
//!
//! All numbers are little-endian. A file is the trace of one process image, so a fork and an exec each begin a new file.
//!
//! **File header**, 4096 bytes. It is in a mapped page, so it is complete at any moment at which the process dies.
//!
//! | offset | bytes | content |
//! |--:|--:|---|
//! | 0 | 8 | magic `ALCTRACE` |
//! | 8 | 4 | version: 1 |
//! | 12 | 4 | length of this header, 4096 |
//! | 16 | 8 | bytes of the file that are handed out to chunks, this header included |
//! | 24 | 8 | maximum of that number (`--max-size`) |
//! | 32 | 4 | state: 0 recording (or killed), 1 the process exited, 2 stopped at the maximum, 3 stopped: the disk is full, 4 stopped: the process asked to limit itself |
//! | 36 | 4 | rate: one block in this many is recorded |
//! | 40 | 4 | process id |
//! | 44 | 4 | process id of the parent |
//! | 48 | 8 | clock ticks at the start (the processor's time-stamp counter, divided by 32) |
//! | 56 | 8 | monotonic clock at that moment, nanoseconds |
//! | 64 | 8 | wall clock at the start, nanoseconds since 1970 |
//! | 72 | 8 | clock ticks when the header was last brought up to date |
//! | 80 | 8 | monotonic clock at that moment, nanoseconds |
//! | 88 | 4 | number of threads that have written |
//! | 92 | 4 | size of a page |
//! | 96 | 8 | calls that could not be recorded: signal handlers that interrupted the writer; with a window also: no chunk was free |
//! | 104 | 8 | RssAnon of the process at the last reading, bytes, without the writer's own memory |
//! | 112 | 8 | the most RssAnon so far: the highest reading, or VmHWM without what else is resident; 0 if it was not read |
//! | 120 | 8 | window in nanoseconds; 0 without one |
//! | 128 | 8 | monotonic clock when the service was ready, nanoseconds, 0 for none: `record` writes it after the run |
//! | 136 | 8 | the same at the end of its load |
//! | 144 | 8 | the same when it was idle |
//! | 152 | 8 | window: clock ticks at which the last place that was used again had been closed |
//! | 160 | 4 | window: length of every place |
//! | 164 | 4 | 1 if the program had `PYTHONMALLOC=malloc` (or `malloc_debug`) in its environment, else 0 |
//! | 168 | 8 | window: calls that are counted at 96 because there was no free chunk |
//! | 172 | 4 | stacks: the stack of one allocation in this many is recorded; else 1 if stacks were asked for, and the C library has no `_dl_find_object` |
//! | 176 | 8 | stacks with more than 256 frames: only their innermost 256 are recorded |
//! | 184 | 8 | stacks that end at a function without tables for exceptions, or with tables that are not read: frames above it are missing |
//! | 192 | 8 | stacks for which the tables had no room; their allocations have no stack |
//! | 200 | 8 | monotonic clock when the recording was ended from outside and the resident pages were read, nanoseconds, 0 for none: `record` writes it after the run |
//! | 208 | 8 | an event without a stamp happened at most this many ticks after the stamp before it |
//! | 216 | 4 | 1 if the recorder was put into a running process, 2 if it was also taken out again, else 0 |
//! | 220 | 4 | parts of this trace, a bit each: 1 a window, 2 stacks, 4 packed; a reader refuses a trace with other bits |
//! | 256 | 512 | path of the program, ends with NUL |
//! | 768 | 256 | host: name, kernel release, architecture, ends with NUL |
//! | 1024 | 256 | build of the writer, ends with NUL |
//! | 1280 | 2816 | command line, arguments separated by spaces, ends with NUL |
//!
//! **Chunk**, at a multiple of 64 bytes. One thread writes it. A chunk of zeros was handed out but not begun.
//!
//! | offset | bytes | content |
//! |--:|--:|---|
//! | 0 | 4 | magic `CHNK`, written last |
//! | 4 | 4 | length of the chunk, this header included; a multiple of 64 |
//! | 8 | 4 | thread, counted from 0 in order of first events |
//! | 12 | 4 | number of the chunk within its thread, from 0 |
//! | 16 | 8 | clock ticks: the stamp of its begin |
//! | 24 | 8 | window, first chunk of a place: clock ticks when the place was closed, 0 while a thread writes there; else 0 |
//! | 32 | | events, to the first zero byte or the end |
//!
//! **Window**: the trace has the last seconds only (`--window`). Places of one length follow the header without gaps. A place begins with
//! one chunk. If the thread of a chunk ends, a later thread may add the next chunk to the same place. The thread of the last chunk closes
//! the place.
//! A place that was closed longer ago than the window is used again. First the magic of its first chunk is erased, then its bytes, then it
//! gets a new header. The place that was closed first is used again first. At the maximum size it is used again even if it is still in the
//! window. So a reader skips a place without the magic to its end, and numbers of a thread's chunks may be missing.
//! If a place has several chunks, each was complete before the next one began. So the stamp in the header of the next chunk is later than
//! all events of the chunk before it. Each chunk is read by itself: its table of recent blocks and its former addresses begin at 0.
//! The window begins at the tick at which the last place that was used again had been closed, but not earlier than its length before the
//! last tick. A reader drops allocations that may have happened before the window (by the stamp before them), and frees that happened
//! before it (by the stamp after them). So if a block's allocation is in the window, its free is there too. If the address of a free does
//! not occur earlier in the window, the block is from before the window. The reader drops this free, and counts it separately from strays.
//!
//! **Stacks** (`--stack-sample`). Between the chunks of events are chunks of tables. They have the same alignment and a header of the same
//! length: a magic, which is written last, the length at 4, and:
//!
//! | magic | 8 | 12 | then, from 32 on |
//! |---|---|---|---|
//! | `NODE` | number of the first node | 0 | nodes of 16 bytes: return address (8; 0: not written), parent (4), module (4) |
//! | `MODL` | how many modules are in chunks before | 0 | modules, to the first one without a length |
//! | `RESI` | mark: 0 ready, 1 peak, 2 idle, 3 the end of the recording | number of ranges | ranges of addresses: the first, and the one after the last, 8 bytes each |
//!
//! A node is one frame of a stack, and its parent is the caller's frame; 0 is the root. A node's number is above its parent's. The number
//! of a stack is that of its innermost node. The module of a node is a number from 1 on, in the order of all modules. If it is 0, the node
//! has no module, or there was no room for it; the last module with the address is then meant. A module is a file with the code of a frame,
//! and is written at its first frame:
//!
//! | offset | bytes | content |
//! |--:|--:|---|
//! | 0 | 4 | length of the record, a multiple of 8; written last |
//! | 4 | 2 | length of the path |
//! | 6 | 2 | length of the build-id |
//! | 8 | 8 | the first address of the module |
//! | 16 | 8 | the address after its last one |
//! | 24 | 8 | the address in the process minus the address in the file, of the same byte |
//! | 32 | | the path as the dynamic linker has it (the program's own is that of its executable), then the build-id |
//!
//! `record` writes `RESI` after the run. It has the pages of private memory without a file that were resident at the mark, except those of
//! the writer.
//!
//! An allocation is chosen for a stack if `(address / 8 * 0xD6E8FEB86659FD93 mod 2^64) / 2^32` is below 2^32 / N, where N is the number at
//! 172. If N is 1, all allocations are chosen. The stack of a chosen allocation is in the event before it (kind 2, x 28). Without such an
//! event it is `next[h]`: each thread has a table `next` of 4,096 numbers, at first 0. `h` is `((last * 256 + class) * 0x9E3779B97F4A7C15
//! mod 2^64) / 2^52`. `last` is the stack of the thread's last chosen allocation, at first 0. `class` is the size class below. After each
//! chosen allocation, its stack is stored in `next[h]` and in `last`.
//!
//! **Window and stacks**. A place with tables has no events. It may have several tables, one after the other, and is never used again. So
//! each node that an event names is in the file, even if it was written long before the window. The tables have at most half of the places.
//! When they have used this half, new nodes are not written, and stacks that need a new node are counted at 192. Each chunk of events is
//! read by itself here as well: its table `next` and its `last` begin at 0, and the event of a stack is in the same chunk as its
//! allocation. The tables that `record` adds after the run are after the last place.
//!
//! **Packed**. `record` packs a trace when its process has ended. The header is that of the unpacked trace, with one bit more; its offsets
//! are those of the unpacked file. After the header come the chunks that were begun, in order, without gaps, each with a header of 48
//! bytes:
//!
//! | offset | bytes | content |
//! |--:|--:|---|
//! | 0 | 4 | magic `PACK` |
//! | 4 | 4 | bytes that follow this header; not more than the chunk has after its own header |
//! | 8 | 8 | offset of the chunk in the unpacked file |
//! | 16 | 32 | the chunk's header |
//! | 48 | | the bytes after the chunk's header: unchanged if they have the same length, else deflated (RFC 1951) |
//!
//! Each chunk is inflated by itself, to the length in its header, which is at most 1 MiB.
//!
//! **Event**: a first byte, then the bytes of its kind. The two low bits of the first byte are the kind, and `x` is the six others. The
//! first byte is written last, or together with all others by one store. So if the process ends, an event is complete or absent. `varint`
//! is LEB128. `delta` is the zigzag varint of an address divided by 8, minus an earlier one. For an allocation this is the thread's last of
//! the same size class (`x` of a small block; else 64 + the number of bits of the size). For a free it is the thread's last free by address
//! in the same slot. `dt` is the varint of clock ticks since the thread's last stamp. An event without `dt` happened between two stamps of
//! its thread, and at least every 16th event has one. It happened at most the ticks at 208 after the first of these two stamps, because
//! after more ticks an event gets a stamp.
//!
//! | kind | x | then | meaning |
//! |--:|--:|---|---|
//! | 0 | 1-63 | delta | malloc of 8x bytes |
//! | 1 | low 6 bits | high 5 bits | free of the address in entry 0-2047 of the thread's table of recent blocks |
//! | 2 | 0-15 | delta, dt | free by address, slot x: bits 13 to 16 of the address divided by 8 |
//! | 2 | 16 | size, delta | malloc |
//! | 2 | 17 | size, delta | calloc |
//! | 2 | 18 | size, log2 of the alignment (1 byte), delta | memalign and its kind |
//! | 2 | 19 | size, delta | a realloc returned this block |
//! | 2 | 20 | low byte, high byte | a realloc begins with the block in that entry of the table |
//! | 2 | 21 | slot (1 byte), delta, dt | a realloc begins with the block at that address |
//! | 2 | 22 | | the realloc failed, its block lives on |
//! | 2 | 23 | varint, dt | RssAnon is this many KiB, without the writer's own memory |
//! | 2 | 24 | dt | the thread ends |
//! | 2 | 25 | | the realloc to size 0 freed its block |
//! | 2 | 26 | one byte, dt | mark: 0 ready, 1 peak, 2 idle |
//! | 2 | 27 | dt | stamp |
//! | 2 | 28 | varint | with stacks: the stack of the thread's next allocation |
//! | 3 | 1-63 | delta, dt | malloc of 8x bytes, with a stamp |
//!
//! A free or the beginning of a realloc is written before the real call, and an allocation after it. So frees and allocations of one
//! address alternate. The order of the threads' events is not recorded: a reader finds it from this rule.
//!
//! Once a process has a second thread, an allocation whose address is not in the thread's table has a stamp, in its own event or in one
//! right before it. The reason: the block may have been another thread's. One case remains inexact: the address is in the thread's table,
//! but another thread has had it since. The event may then be placed too early, by at most the ticks at 208.
//!
//! The table of recent blocks has 2048 addresses, at first 0. An allocation puts its address, divided by 8, in entry
//! `(address / 8 * 0x9E3779B97F4A7C15 mod 2^64) / 2^53`. Reader and writer update the table in the same way.

mod chunk;
mod header;

pub use chunk::{Chunk, TableHeader, put_module};
pub use header::{Marks, TraceEnd, TraceHeader};

/// The first bytes of a trace.
pub const MAGIC: [u8; 8] = *b"ALCTRACE";
/// The version that this crate writes and reads.
pub const VERSION: u32 = 1;
/// The bit of a trace with a window, in the number at [`at::PARTS`].
pub const WINDOW: u32 = 1;
/// The bit of a trace with stacks, in the same number.
pub const STACKS: u32 = 2;
/// The bit of a packed trace, in the same number.
pub const PACKED: u32 = 4;
/// The first bytes of a chunk's header in a packed trace.
pub const PACK_MAGIC: [u8; 4] = *b"PACK";
/// Length of the header of a packed chunk, including the chunk's own header.
pub const PACK_HEADER: usize = 16 + CHUNK_HEADER;
/// Length of the file header.
pub const HEADER: usize = 4096;
/// The first bytes of a chunk.
pub const CHUNK_MAGIC: [u8; 4] = *b"CHNK";
/// Length of a chunk's header.
pub const CHUNK_HEADER: usize = 32;
/// The first bytes of a chunk of nodes.
pub const NODE_MAGIC: [u8; 4] = *b"NODE";
/// The first bytes of a chunk of modules.
pub const MODULE_MAGIC: [u8; 4] = *b"MODL";
/// The first bytes of a chunk of resident pages.
pub const RESIDENT_MAGIC: [u8; 4] = *b"RESI";
/// Length of a node.
pub const NODE: usize = 16;
/// The maximum number of nodes of a trace, including the root.
pub const MOST_NODES: usize = 1 << 22;
/// Length of a module without its path and its build-id.
pub const MODULE_HEADER: usize = 32;
/// Chunks begin at multiples of this number of bytes.
pub const CHUNK_ALIGN: usize = 64;
/// The longest chunk that a reader accepts.
pub const LONGEST_CHUNK: usize = 1 << 20;
/// The maximum length of an event.
pub const LONGEST_EVENT: usize = 40;
/// A tick is two to the power of this number of counts of the time-stamp counter.
pub const TICK_SHIFT: u32 = 5;
/// A thread writes a stamp at least once in this many events.
pub const STAMP_EVERY: u32 = 16;
/// A thread also writes a stamp when this many ticks have passed since its last one: 87 us at 3 GHz, 131 us at 2 GHz.
pub const STAMP_TICKS: u64 = 1 << 13;

/// The value at [`at::ATTACHED`] if the recorder was taken out of the process again.
pub const DETACHED: u32 = 2;
/// The state of a trace that ended before its process confined itself.
pub const CONFINED: u32 = 4;

/// Offsets in the file header, in the order of the table above.
pub mod at {
    /// The version.
    pub const VERSION: usize = 8;
    /// Bytes of the file that are handed out to chunks.
    pub const USED: usize = 16;
    /// The maximum of [`USED`].
    pub const LIMIT: usize = 24;
    /// The state.
    pub const STATE: usize = 32;
    /// The rate.
    pub const RATE: usize = 36;
    /// The process.
    pub const PID: usize = 40;
    /// Its parent.
    pub const PARENT: usize = 44;
    /// Ticks at the start.
    pub const START_TICKS: usize = 48;
    /// Monotonic nanoseconds at the start.
    pub const START_MONOTONIC: usize = 56;
    /// Wall nanoseconds at the start.
    pub const START_WALL: usize = 64;
    /// Ticks at the last update.
    pub const LAST_TICKS: usize = 72;
    /// Monotonic nanoseconds at the last update.
    pub const LAST_MONOTONIC: usize = 80;
    /// Threads.
    pub const THREADS: usize = 88;
    /// Size of a page.
    pub const PAGE: usize = 92;
    /// Calls that were not recorded.
    pub const LOST: usize = 96;
    /// RssAnon at the last reading, in bytes.
    pub const RESIDENT: usize = 104;
    /// The most RssAnon so far, in bytes.
    pub const MOST_RESIDENT: usize = 112;
    /// The window in nanoseconds.
    pub const WINDOW: usize = 120;
    /// Ticks at which the place that was used again last had been closed.
    pub const HORIZON: usize = 152;
    /// Length of every place of a window.
    pub const RING: usize = 160;
    /// Whether Python takes its small objects from malloc.
    pub const PYTHON_MALLOC: usize = 164;
    /// Calls that were not recorded because a window had no free chunk.
    pub const NO_CHUNK: usize = 168;
    /// The stack of one allocation in this many is recorded.
    pub const STACKS: usize = 172;
    /// Stacks with more frames than are recorded.
    pub const CUT: usize = 176;
    /// Stacks that could not be walked to their end.
    pub const BROKEN: usize = 184;
    /// Stacks for which the tables had no room.
    pub const NO_ROOM: usize = 192;
    /// Monotonic nanoseconds at the end of the recording.
    pub const END: usize = 200;
    /// An event without a stamp happened within this many ticks after the stamp before it.
    pub const STAMP_TICKS: usize = 208;
    /// Whether the recorder was put into a running process: 0 no, 1 yes, 2 yes, and it was taken out again.
    pub const ATTACHED: usize = 216;
    /// The parts of the trace, a bit each.
    pub const PARTS: usize = 220;
    /// Monotonic nanoseconds of the marks: ready, end of the load, idle.
    pub const MARKS: usize = 128;
    /// The program's path.
    pub const PROGRAM: usize = 256;
    /// The host.
    pub const HOST: usize = 768;
    /// The writer's build.
    pub const BUILD: usize = 1024;
    /// The command line.
    pub const COMMAND: usize = 1280;
}

/// The bits of the parts of a trace with or without a window, and with or without stacks.
pub fn parts_of(has_window: bool, has_stacks: bool) -> u32 {
    (u32::from(has_window) * WINDOW) | (u32::from(has_stacks) * STACKS)
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests;
