//! The layout of a profile's table in the program's memory.
//!
//! The beacon leads to the table: a mark of 16 bytes in the writable data of the program or of a library, followed by the table's address.
//! The table is a mapping of its own: a header of 64-bit words, the samples, and the frames of their stacks. The header has the places and
//! the numbers of these parts, so that a reader needs no constant of this release.
//!
//! - A sample is two words. The first has the address in bits 0 to 47, and above it the number of the innermost frame. The second has the
//!   size in bits 0 to 39, and above it the seconds since the table began. A free place is 0, and [`TAKEN`] is a place that is being
//!   filled.
//! - A frame is three words. The first is its key: the return address in bits 0 to 47, and above it the number of its caller's frame. The
//!   second is the bytes that stacks ending here have allocated (sums of weights). The third is 256 times their blocks. A frame's number is
//!   its place plus 1; 0 means no frame.

/// The mark before the table's address. It is at an address that is a multiple of 16, and no other data has these bytes.
pub const MARK: [u8; 16] =
    [0xa1, 0x10, 0xca, 0x4a, 0x21, b'p', b'r', b'o', b'f', b'i', b'l', b'e', b's', 0xf0, 0x9f, 0x1b];

/// The table's address, from a piece of memory that begins with a mark.
pub fn table_of(bytes: &[u8]) -> Option<u64> {
    let address = bytes.strip_prefix(&MARK)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*address)).filter(|address| *address != 0)
}

/// The first word of a header: `acnaprof`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"acnaprof");
/// The version that this release writes and reads.
pub const VERSION: u64 = 1;

/// Bits of an address in user space: 47 on x86-64, 48 on aarch64. The 16 bits above them have the number of a frame.
pub const ADDRESS_BITS: u32 = 48;
/// The bits of an address, as a mask.
pub const ADDRESS: u64 = (1 << ADDRESS_BITS) - 1;
/// Bits of a size.
pub const SIZE_BITS: u32 = 40;
/// The bits of a size, as a mask.
pub const SIZE: u64 = (1 << SIZE_BITS) - 1;
/// A sample's first word while it is being filled. No block has this address.
pub const TAKEN: u64 = 1;
/// The table counts blocks in parts. This many parts are one block.
pub const BLOCK: u64 = 256;

/// The number of places for samples. At the mean distance of 512 KiB these are the samples of a heap of some 6 GiB.
pub const SAMPLES: usize = 1 << 14;
/// The number of places for frames.
pub const FRAMES: usize = 1 << 14;
const _: () = assert!(FRAMES < 1 << (64 - ADDRESS_BITS));
/// The number of words of a sample.
pub const OF_SAMPLE: usize = 2;
/// The number of words of a frame.
pub const OF_FRAME: usize = 3;
/// The number of words of a header.
pub const HEADER: usize = 32;
/// The maximum number of places that a reader accepts. Samples then take 16 MiB, and frames 24 MiB.
pub const MOST_PLACES: u64 = 1 << 20;

/// The words of a header, by their index.
pub mod word {
    /// [`MAGIC`](super::MAGIC), written last.
    pub const MAGIC: usize = 0;
    /// [`VERSION`](super::VERSION).
    pub const VERSION: usize = 1;
    /// The process's number.
    pub const PID: usize = 2;
    /// The mean distance of samples in bytes.
    pub const MEAN: usize = 3;
    /// The number of places for samples.
    pub const SAMPLES: usize = 4;
    /// The offset of the first sample in the table, in bytes.
    pub const SAMPLES_AT: usize = 5;
    /// The number of places for frames.
    pub const FRAMES: usize = 6;
    /// The offset of the first frame in the table, in bytes.
    pub const FRAMES_AT: usize = 7;
    /// The time at which the table began, in nanoseconds of the monotonic clock.
    pub const BEGAN: usize = 8;
    /// 1 in the child of a fork, whose table does not have its parent's blocks.
    pub const FORKED: usize = 9;
    /// The number of samples.
    pub const SAMPLED: usize = 10;
    /// The number of samples for which the table had no place.
    pub const FULL: usize = 11;
    /// The number of bytes that these samples represent.
    pub const FULL_BYTES: usize = 12;
    /// The number of samples without a stack because it could not be walked.
    pub const NO_STACK: usize = 13;
    /// The number of samples without a stack because the table had no place for a frame.
    pub const NO_FRAME: usize = 14;
    /// The number of samples without a stack because all walkers were taken.
    pub const NO_WALKER: usize = 15;
    /// The number of stacks whose outermost frames were left out.
    pub const CUT: usize = 16;
    /// The number of libraries that were closed. Others may have got their addresses.
    pub const CLOSED: usize = 17;
    /// The number of samples that were not taken because the process has given itself a filter of system calls.
    pub const FILTERED: usize = 18;
    /// 1 if the program already ran when the table began. Blocks from before are not in the table.
    pub const LATE: usize = 19;
}
