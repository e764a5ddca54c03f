//! Keeps what lived at the latest peak of live bytes. In: blocks that begin and end in slots. Out: the slots of the peak, without a second
//! pass. A slot of a block of the peak is not used again until there is a higher peak, so memory is bounded by the blocks that lived at the
//! peak and those that live.

use crate::ever::Ever;

/// A block that is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Where it lies.
    pub address: u64,
    /// How many bytes were asked for.
    pub size: u64,
    /// Its index in [`Taken::totals`](crate::tally::Taken::totals).
    pub of: u32,
}

/// Watches for more live bytes than ever before.
pub struct Watch {
    /// The last nanosecond at which a peak counts.
    until: u64,
    live: u64,
    most: u64,
    /// The slots of blocks of the peak that have ended since.
    ended: Vec<u32>,
    /// Whether the block in each slot began after the peak, and the slots of which that is so.
    is_later: Vec<bool>,
    later: Vec<u32>,
    /// Where blocks have been since.
    since: Ever,
}

impl Watch {
    /// Until this nanosecond.
    pub fn until(until: u64) -> Watch {
        let (ended, is_later, later, since) = (Vec::new(), Vec::new(), Vec::new(), Ever::default());
        Watch { until, live: 0, most: 0, ended, is_later, later, since }
    }

    /// A block begins in a slot. Tells whether this is the peak so far; `ever` is then where blocks have been until it, and slots that were
    /// kept are unused.
    pub fn added(&mut self, nanos: u64, slot: u32, block: Block, ever: &mut Ever, unused: &mut Vec<u32>) -> bool {
        self.live = self.live.saturating_add(block.size);
        if self.is_later.len() <= slot as usize {
            self.is_later.resize(slot as usize + 1, false);
        }
        self.since.add(block.address, block.size);
        let is_peak = self.live > self.most && nanos <= self.until;
        if is_peak {
            self.most = self.live;
            unused.append(&mut self.ended);
            self.later.drain(..).for_each(|slot| self.is_later[slot as usize] = false);
            ever.join(&mut self.since);
        } else if !std::mem::replace(&mut self.is_later[slot as usize], true) {
            self.later.push(slot);
        }
        is_peak
    }

    /// The block in a slot ends. Tells whether the slot is to be kept.
    pub fn removed(&mut self, slot: u32, block: Block) -> bool {
        self.live = self.live.saturating_sub(block.size);
        let is_kept = !self.is_later(slot);
        if is_kept {
            self.ended.push(slot);
        }
        is_kept
    }

    /// Whether the block in a slot began after the peak, or there has been none.
    pub fn is_later(&self, slot: u32) -> bool {
        self.most == 0 || self.is_later[slot as usize]
    }
}
