//! All memory that the allocator has from the kernel: the pieces of each arena, and the blocks with their own pages.

use super::arenas::Arena;
use super::heaps::{self, Piece};
use super::mappings::{self, Wanted};
use super::release::Release;
use super::share::Share;
use super::structures::Structures;
use crate::Memory;

/// The memory.
#[derive(Debug)]
pub(super) struct Memories {
    /// The pieces of each arena.
    pub pieces: Vec<Vec<Piece>>,
    /// Blocks that have their own pages: address and bytes.
    pub mmapped: Vec<(u64, u64)>,
    /// The bytes of these blocks.
    pub mmapped_bytes: u64,
    /// Arenas whose memory was not found.
    pub breaks: u64,
}

impl Memories {
    /// Finds the memory that the arenas themselves point to: the data segment, and the heaps of threads.
    pub fn of_heaps(memory: &dyn Memory, found: &Structures) -> Memories {
        let (main, threads) = found.arenas.split_first().expect("there is a main arena");
        let in_one_piece = main.has_memory(found.release) && main.contiguous;
        let of_main = in_one_piece.then(|| heaps::of_main(memory, main, found).map(|piece| vec![piece]));
        let of_threads = (1..).zip(threads).map(|(index, arena)| heaps::of_thread(memory, arena, index, found));
        let heaps: Vec<_> = [of_main.unwrap_or(Some(Vec::new()))].into_iter().chain(of_threads).collect();
        let breaks = heaps.iter().filter(|heaps| heaps.is_none()).count() as u64;
        let pieces = heaps.into_iter().map(Option::unwrap_or_default).collect();
        Memories { pieces, mmapped: Vec::new(), mmapped_bytes: 0, breaks }
    }

    /// Adds the blocks and pieces that lie between this memory, except for those of another C library.
    pub fn add_between(&mut self, memory: &dyn Memory, found: &Structures, share: &Share) {
        let release = found.release;
        let main = &found.arenas[0];
        // Reads the counts again, because blocks come and go.
        let params = &found.params.again(memory, release).unwrap_or(found.params);
        let wanted = Wanted {
            release,
            mmapped: params.mmapped,
            mmapped_bytes: params.mmapped_bytes,
            main: (main.has_memory(release) && !main.contiguous).then_some(main),
            base: params.base,
            share,
        };
        let mut between = mappings::find(memory, wanted, &share.taken);
        self.pieces[0].append(&mut between.pieces);
        (self.mmapped, self.mmapped_bytes) = (between.mmapped, between.mmapped_bytes);
    }

    /// The address ranges of all this memory.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let pieces = self.pieces.iter().flatten().map(|piece| (piece.from, piece.blocks.to));
        pieces.chain(self.mmapped.iter().map(|(at, bytes)| (*at, at + bytes)))
    }

    /// Whether an arena has an address.
    pub fn has(&self, at: u64) -> bool {
        self.pieces.iter().flatten().any(|piece| piece.from <= at && at < piece.blocks.to)
    }
}

impl Arena {
    /// Whether the arena has memory. The main arena of a program that has allocated nothing has none: its end points into its own bins.
    pub fn has_memory(&self, release: &Release) -> bool {
        self.top != 0 && self.top != self.at + release.bins - 16
    }
}
