//! Assigns slots to blocks. In: the threads that make and free blocks, in merged order. Out: the index of each block in the table of a
//! replay.
//!
//! The same events always give the same slots. So a second reading of the trace can match the blocks of a replay with those of the trace.

use std::collections::{HashMap, VecDeque};

/// The number of free slots that a thread keeps for itself.
const OWN_SLOTS: usize = 512;

/// The free slots, and the threads that own them.
#[derive(Debug, Default)]
pub struct FreeSlots {
    /// How often each slot was used again.
    generations: Vec<u16>,
    /// Slots of blocks that each thread freed.
    own: HashMap<u32, Vec<u32>>,
    /// Slots that any thread may take. Those that were freed first are at the front.
    shared: VecDeque<u32>,
}

impl FreeSlots {
    /// The slot of a new block of a thread, and how often the slot was used before.
    pub fn take(&mut self, thread: u32) -> (u32, u16) {
        let own = self.own.get_mut(&thread).and_then(Vec::pop);
        let slot = own.or_else(|| self.shared.pop_front()).unwrap_or_else(|| {
            self.generations.push(0);
            self.generations.len() as u32 - 1
        });
        (slot, self.generations[slot as usize])
    }

    /// Gives the block of a slot another size. The block keeps the slot. Returns how often the slot was used before.
    pub fn again(&mut self, slot: u32) -> u16 {
        let generation = &mut self.generations[slot as usize];
        *generation = generation.wrapping_add(1);
        *generation
    }

    /// A thread frees the block of a slot.
    pub fn release(&mut self, thread: u32, slot: u32) {
        self.again(slot);
        let free = self.own.entry(thread).or_default();
        free.push(slot);
        if free.len() > OWN_SLOTS {
            // Other threads get the slots that were freed longest ago, so that no thread has to wait for them.
            self.shared.extend(free.drain(..OWN_SLOTS / 2));
        }
    }

    /// Ends a thread. Others may take its slots.
    pub fn end(&mut self, thread: u32) {
        self.shared.extend(self.own.remove(&thread).into_iter().flatten());
    }

    /// The number of slots.
    pub fn count(&self) -> usize {
        self.generations.len()
    }
}
