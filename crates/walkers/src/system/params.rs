//! Finds `mp_`, the parameters of malloc, in the data with the main arena: the address where the main heap begins, and the allocator's own
//! counts of mmapped blocks. These counts show whether a walk has found all such blocks.

use std::ops::RangeInclusive;

use super::release::Release;
use crate::{Memory, Window};

/// The size of a thread arena's heap, without huge pages.
const HEAP: u64 = 64 << 20;
/// The sizes of huge pages on x86-64 and elsewhere.
const HUGE: RangeInclusive<u64> = 64 << 10..=16 << 30;

/// The parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Params {
    /// The address of the word `sbrk_base`.
    at: u64,
    /// Where the main heap begins. 0 if the main arena has never had memory.
    pub base: u64,
    /// A trim makes the main arena smaller by a multiple of this.
    pub trim_unit: u64,
    /// The heaps of thread arenas begin at multiples of this, and are at most this large.
    pub heap: u64,
    /// Mmapped blocks.
    pub mmapped: u64,
    /// Bytes of mmapped blocks.
    pub mmapped_bytes: u64,
}

impl Params {
    /// Finds the parameters by the values that they must have. They contain the begin of the main arena if it has
    /// memory. `None` if no words of the data fit.
    pub fn find(memory: &dyn Memory, data: (u64, u64), release: &Release, has_memory: bool) -> Option<Params> {
        let mut window = Window::new(memory);
        for run in memory.pages().within(data.0, data.1) {
            let mut at = run.from + 64;
            while at + 40 <= run.to {
                let params = Params::at(&mut window, memory, at, release);
                if params.is_some_and(|params| (params.base != 0) == has_memory) {
                    return params;
                }
                at += 8;
            }
        }
        None
    }

    /// The address of the word with the bytes of mmapped blocks.
    pub fn at_mapped(&self) -> u64 {
        self.at - 16
    }

    /// Reads the parameters again.
    pub fn again(&self, memory: &dyn Memory, release: &Release) -> Option<Params> {
        Params::at(&mut Window::new(memory), memory, self.at, release)
    }

    /// Reads the parameters, if `at` is the word `sbrk_base`. The bins of a thread cache, the largest block in it, the
    /// blocks of a bin, and a limit that is mostly 0 follow this word.
    fn at(window: &mut Window, memory: &dyn Memory, at: u64, release: &Release) -> Option<Params> {
        let [bins, largest, count] = [8, 16, 24].map(|after| window.word(at + after));
        let (bins, largest, count) = (bins?, largest?, count?);
        if bins == 0 || bins > 64 || !(24..=8 << 20).contains(&largest) || count > 0xffff {
            return None;
        }
        let base = window.word(at)?;
        if base != 0 && !memory.mapping(base).is_some_and(|one| one.writable && !one.shared) {
            return None;
        }
        let [bytes, most_bytes] = [16, 8].map(|before| window.word(at - before));
        let (bytes, most_bytes) = (bytes?, most_bytes?);
        let counts = window.bytes(at - release.n_mmaps, 16)?;
        let [now, _allowed, most, fixed] =
            [0, 4, 8, 12].map(|at| u32::from_le_bytes([counts[at], counts[at + 1], counts[at + 2], counts[at + 3]]));
        let page = memory.machine().page;
        let fits =
            bytes % page == 0 && bytes <= most_bytes && now <= most && fixed <= 1 && (most == 0) == (most_bytes == 0);
        let [transparent, explicit] = match release.huge_pages {
            true => [window.word(at - 56)?, window.word(at - 48)?],
            false => [0, 0],
        };
        let sizes_fit =
            [transparent, explicit].iter().all(|&size| size == 0 || HUGE.contains(&size) && size.is_power_of_two());
        (fits && sizes_fit).then_some(Params {
            at,
            base,
            trim_unit: transparent.max(page),
            heap: if explicit == 0 { HEAP } else { 4 * explicit },
            mmapped: u64::from(now),
            mmapped_bytes: bytes,
        })
    }
}
