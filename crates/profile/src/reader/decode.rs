//! The words of a table. In: words, which may be anything. Out: samples, and frames whose callers come before them.

use allocanary_sys::clocks::monotonic_nanos;

use super::process::Mapping;
use crate::layout::{ADDRESS, ADDRESS_BITS, BLOCK, OF_FRAME, OF_SAMPLE, SIZE, SIZE_BITS, TAKEN, word};

/// The maximum number of frames of a stack.
const DEEPEST: usize = 256;

/// A sampled block that is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampledBlock {
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
    /// The innermost frame of its stack, an index of [`TableProfile::frames`]; 0 if it has no stack.
    pub frame: u32,
    /// Its age in seconds.
    pub age: u64,
}

/// A frame of a stack, and the bytes and blocks that the stacks that end in it have allocated since the table began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RawFrame {
    /// The index of the caller's frame, which is lower; 0 for the outermost frame.
    pub parent: u32,
    /// The return address.
    pub pc: u64,
    /// An estimate of the bytes.
    pub bytes: f64,
    /// An estimate of the blocks.
    pub blocks: f64,
}

/// The counts of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounts {
    /// Samples since the table began.
    pub sampled: u64,
    /// Samples for which the table had no place.
    pub full: u64,
    /// The bytes that these samples represent.
    pub full_bytes: u64,
    /// Samples without a stack, because it could not be walked.
    pub no_stack: u64,
    /// Samples without a stack, because the table had no place for a frame.
    pub no_frame: u64,
    /// Samples without a stack, because all walkers were taken.
    pub no_walker: u64,
    /// Stacks whose outermost frames were left out.
    pub cut: u64,
    /// Libraries that the process has closed.
    pub closed: u64,
    /// Samples that a process with a filter of system calls has not taken.
    pub filtered: u64,
}

/// The content of a table.
#[derive(Clone, Debug, Default)]
pub struct TableProfile {
    /// The process.
    pub pid: u32,
    /// The mean distance of samples in bytes.
    pub mean: u64,
    /// How old the table is, in seconds.
    pub seconds: f64,
    /// Whether the process is the child of a fork, so that its parent's blocks are not in the table.
    pub is_forked: bool,
    /// Whether the program already ran when the table began, so that blocks from before are not in it.
    pub is_late: bool,
    /// The counts.
    pub counts: TableCounts,
    /// The sampled blocks that are alive.
    pub samples: Vec<SampledBlock>,
    /// The frames. The first one stands for no frame.
    pub frames: Vec<RawFrame>,
    /// The mappings of the process.
    pub mappings: Vec<Mapping>,
    /// The number of tables in the process. It is above 1 if several libraries profile the process.
    pub tables: usize,
}

impl TableProfile {
    /// The return addresses of a stack, innermost first.
    pub fn stack(&self, frame: u32) -> Vec<u64> {
        let mut next = frame as usize;
        let frame = |at: usize| self.frames.get(at).filter(|_| at > 0);
        let addresses = std::iter::from_fn(|| {
            let found = frame(next)?;
            next = found.parent as usize;
            Some(found.pc)
        });
        addresses.take(DEEPEST).collect()
    }
}

/// Decodes the words of a table.
pub(super) fn profile(pid: u32, header: &[u64], samples: &[u64], frames: &[u64]) -> TableProfile {
    let at = |index: usize| header.get(index).copied().unwrap_or(0);
    let nanos = monotonic_nanos().saturating_sub(at(word::BEGAN));
    let (frames, numbers) = in_order(frames.as_chunks::<OF_FRAME>().0);
    let sample = |[key, size]: &[u64; OF_SAMPLE]| {
        let frame = (key >> ADDRESS_BITS) as usize;
        (*key != 0 && *key != TAKEN).then(|| SampledBlock {
            address: key & ADDRESS,
            size: size & SIZE,
            frame: numbers.get(frame).copied().unwrap_or(0),
            age: (nanos / 1_000_000_000).saturating_sub(size >> SIZE_BITS),
        })
    };
    TableProfile {
        pid,
        mean: at(word::MEAN).max(1),
        seconds: nanos as f64 / 1e9,
        is_forked: at(word::FORKED) != 0,
        is_late: at(word::LATE) != 0,
        counts: TableCounts {
            sampled: at(word::SAMPLED),
            full: at(word::FULL),
            full_bytes: at(word::FULL_BYTES),
            no_stack: at(word::NO_STACK),
            no_frame: at(word::NO_FRAME),
            no_walker: at(word::NO_WALKER),
            cut: at(word::CUT),
            closed: at(word::CLOSED),
            filtered: at(word::FILTERED),
        },
        samples: samples.as_chunks::<OF_SAMPLE>().0.iter().filter_map(sample).collect(),
        frames,
        mappings: Vec::new(),
        tables: 1,
    }
}

/// Returns the frames in an order in which callers come first, and the new number of each old number. An old number is a frame's place plus
/// 1. Frames whose callers lead in a circle, or nowhere, are left out.
fn in_order(frames: &[[u64; OF_FRAME]]) -> (Vec<RawFrame>, Vec<u32>) {
    let parent = |number: usize| {
        let [key, ..] = frames.get(number.checked_sub(1)?)?;
        (*key != 0).then_some((key >> ADDRESS_BITS) as usize)
    };
    // The number of frames from this one outwards; 0 if they do not end.
    let depth = |number: usize| {
        let mut next = number;
        for depth in 1..=DEEPEST {
            match parent(next) {
                Some(0) => return depth,
                Some(outer) => next = outer,
                None => return 0,
            }
        }
        0
    };
    let mut order: Vec<(usize, usize)> =
        (1..=frames.len()).map(|number| (depth(number), number)).filter(|(depth, _)| *depth > 0).collect();
    order.sort_unstable();
    let mut numbers = vec![0; frames.len() + 1];
    let mut out = vec![RawFrame::default()];
    for (_, number) in order {
        let [key, bytes, blocks] = frames[number - 1];
        numbers[number] = out.len() as u32;
        out.push(RawFrame {
            parent: parent(number).and_then(|parent| numbers.get(parent).copied()).unwrap_or(0),
            pc: key & ADDRESS,
            bytes: bytes as f64,
            blocks: blocks as f64 / BLOCK as f64,
        });
    }
    (out, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::HEADER;
    use proptest::prelude::*;

    fn key(address: u64, number: u64) -> u64 {
        address | number << ADDRESS_BITS
    }

    #[test]
    fn callers_come_first_and_circles_are_left_out() {
        let frames = [[key(0xa, 3), 7, 512], [0, 0, 0], [key(0xb, 0), 0, 0], [key(0xc, 5), 1, 1], [key(0xd, 4), 1, 1]];
        let samples = [key(0x1000, 1), 100 | 5 << SIZE_BITS, 0, 9, TAKEN, 9, key(0x2000, 4), 50, key(0x3000, 99), 60];
        let mut header = [0; HEADER];
        (header[word::MEAN], header[word::BEGAN]) = (4096, monotonic_nanos());
        let found = profile(7, &header, &samples, frames.as_flattened());
        assert_eq!(found.frames.len(), 3);
        assert_eq!(found.stack(found.samples[0].frame), [0xa, 0xb]);
        assert_eq!((found.frames[2].bytes, found.frames[2].blocks), (7.0, 2.0));
        let seen: Vec<_> = found.samples.iter().map(|one| (one.address, one.size, one.frame)).collect();
        assert_eq!(seen, [(0x1000, 100, 2), (0x2000, 50, 0), (0x3000, 60, 0)]);
    }

    proptest! {
        #[test]
        fn fuzz_no_words_make_it_panic(
            header in proptest::collection::vec(any::<u64>(), HEADER),
            samples in proptest::collection::vec(any::<u64>(), 0..64),
            frames in proptest::collection::vec(any::<u64>(), 0..96),
        ) {
            // Callers' numbers are small in a real table.
            for mask in [u64::MAX, ADDRESS | 31 << ADDRESS_BITS] {
                let some = |words: &[u64]| words.iter().map(|word| word & mask).collect::<Vec<_>>();
                let found = profile(1, &header, &some(&samples), &some(&frames));
                for sample in &found.samples {
                    prop_assert!(found.stack(sample.frame).len() <= DEEPEST);
                }
                for (at, frame) in found.frames.iter().enumerate().skip(1) {
                    prop_assert!((frame.parent as usize) < at);
                }
            }
        }
    }
}
