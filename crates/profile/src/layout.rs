//! The table of a profile, as it lies in the program's memory. In: nothing. Out: places of its parts.
//!
//! The beacon leads to it: a mark of 16 bytes in the writable data of the program or of a library, and behind it the table's address. The
//! table is a mapping of its own: a header of 64-bit words, the samples, and the frames of their stacks. A header says where these are and
//! how many, so that a reader needs no constant of this release.
//!
//! - A sample is two words: the address in bits 0 to 47 with the number of its innermost frame above it; then the size in bits 0 to 39
//!   with the seconds from the table's begin above it. A free place is 0; [`TAKEN`] is a place that is being filled.
//! - A frame is three words: its key, which is the return address in bits 0 to 47 with the number of its caller's frame above it; the
//!   bytes that stacks ending here have allocated (sums of weights); and 256 times the blocks. A frame's number is its place plus 1; 0 is
//!   none.

/// What stands before the table's address: at a multiple of 16, and in no other data.
pub const MARK: [u8; 16] =
    [0xa1, 0x10, 0xca, 0x4a, 0x21, b'p', b'r', b'o', b'f', b'i', b'l', b'e', b's', 0xf0, 0x9f, 0x1b];

/// The table's address in a piece of memory that begins with a mark.
pub fn table_of(bytes: &[u8]) -> Option<u64> {
    let address = bytes.strip_prefix(&MARK)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*address)).filter(|address| *address != 0)
}

/// The first word of a header: `acnaprof`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"acnaprof");
/// The version that this release writes and reads.
pub const VERSION: u64 = 1;

/// Bits of an address in user space: 47 on x86-64, 48 on aarch64. Above them 16 are left for the number of a frame.
pub const ADDRESS_BITS: u32 = 48;
/// See above.
pub const ADDRESS: u64 = (1 << ADDRESS_BITS) - 1;
/// Bits of a size.
pub const SIZE_BITS: u32 = 40;
/// See above.
pub const SIZE: u64 = (1 << SIZE_BITS) - 1;
/// A sample's first word while it is being filled: no block has this address.
pub const TAKEN: u64 = 1;
/// Blocks are counted in parts of this many.
pub const BLOCK: u64 = 256;

/// Places for samples: at the mean of 512 KiB those of a heap of some 6 GiB.
pub const SAMPLES: usize = 1 << 14;
/// Places for frames.
pub const FRAMES: usize = 1 << 14;
const _: () = assert!(FRAMES < 1 << (64 - ADDRESS_BITS));
/// Words of a sample, and of a frame.
pub const OF_SAMPLE: usize = 2;
/// See above.
pub const OF_FRAME: usize = 3;
/// Words of a header.
pub const HEADER: usize = 32;
/// The most places that a reader takes: 16 and 24 MiB.
pub const MOST_PLACES: u64 = 1 << 20;

/// The words of a header, by their index.
pub mod word {
    /// [`MAGIC`](super::MAGIC), written last.
    pub const MAGIC: usize = 0;
    /// [`VERSION`](super::VERSION).
    pub const VERSION: usize = 1;
    /// The process.
    pub const PID: usize = 2;
    /// The mean distance of samples in bytes.
    pub const MEAN: usize = 3;
    /// How many places for samples there are, and the offset of the first.
    pub const SAMPLES: usize = 4;
    /// See above.
    pub const SAMPLES_AT: usize = 5;
    /// How many places for frames there are, and the offset of the first.
    pub const FRAMES: usize = 6;
    /// See above.
    pub const FRAMES_AT: usize = 7;
    /// When the table began: nanoseconds of the monotonic clock.
    pub const BEGAN: usize = 8;
    /// 1 in the child of a fork: its parent's blocks are not in its table.
    pub const FORKED: usize = 9;
    /// Counts: samples.
    pub const SAMPLED: usize = 10;
    /// Samples for which the table had no place, and the bytes that they stood for.
    pub const FULL: usize = 11;
    /// See above.
    pub const FULL_BYTES: usize = 12;
    /// Samples without a stack: it could not be walked.
    pub const NO_STACK: usize = 13;
    /// Samples without a stack: the table had no place for a frame.
    pub const NO_FRAME: usize = 14;
    /// Samples without a stack: all walkers were taken.
    pub const NO_WALKER: usize = 15;
    /// Stacks whose outermost frames were left out.
    pub const CUT: usize = 16;
    /// Libraries that were closed: others may have got their addresses.
    pub const CLOSED: usize = 17;
    /// Samples that were not taken in a process that has given itself a filter of system calls.
    pub const FILTERED: usize = 18;
    /// 1 if the program ran already when the table began: blocks from before are not in it.
    pub const LATE: usize = 19;
}
