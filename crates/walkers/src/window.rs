//! Reads memory in pieces, so that many small reads at ascending addresses need one copy.

use crate::{Memory, PAGE};

/// The default length of a piece, in bytes.
const PIECE: u64 = 1 << 18;

/// A copy of one piece of a process's memory. Pieces begin at multiples of their length.
pub struct Window<'a> {
    memory: &'a dyn Memory,
    piece: u64,
    from: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    /// A window that has read nothing yet.
    pub fn new(memory: &'a dyn Memory) -> Self {
        Window { memory, piece: PIECE, from: 0, bytes: Vec::new() }
    }

    /// A window with pieces of one page, for reads that jump about, such as along a list.
    pub fn of_pages(memory: &'a dyn Memory) -> Self {
        Window { piece: PAGE, ..Window::new(memory) }
    }

    /// `count` bytes from an address, at most one piece. `None` if they cannot be read.
    pub fn bytes(&mut self, at: u64, count: usize) -> Option<&[u8]> {
        let end = at.checked_add(count as u64)?;
        if at < self.from || end > self.from + self.bytes.len() as u64 {
            self.fill(at, end)?;
        }
        let start = (at - self.from) as usize;
        self.bytes.get(start..start + count)
    }

    /// The word at an address.
    pub fn word(&mut self, at: u64) -> Option<u64> {
        self.bytes(at, 8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes were asked for")))
    }

    /// Reads the piece around the address, cut to its mapping and to pages that may be read.
    fn fill(&mut self, at: u64, end: u64) -> Option<()> {
        let mapping = self.memory.mapping(at)?;
        let mut from = (at / self.piece * self.piece).max(mapping.from);
        let mut to = (from / self.piece * self.piece).checked_add(self.piece)?.min(mapping.to);
        for run in self.memory.pages().within(from, to).filter(|run| !run.state.may_be_read()) {
            if run.to > at {
                to = run.from;
                break;
            }
            from = run.to;
        }
        let to = to.max(end);
        if to - from > 2 * self.piece {
            return None;
        }
        self.bytes.resize((to - from) as usize, 0);
        self.from = from;
        if self.memory.read(from, &mut self.bytes) {
            return Some(());
        }
        // Some page of the piece cannot be read. So it tries only the pages of the wanted bytes, then only these bytes.
        let pages = (at / PAGE * PAGE).max(mapping.from)..end.next_multiple_of(PAGE).min(mapping.to).max(end);
        for part in [pages, at..end] {
            self.from = part.start;
            self.bytes.resize((part.end - part.start) as usize, 0);
            if self.memory.read(part.start, &mut self.bytes) {
                return Some(());
            }
        }
        self.bytes.clear();
        None
    }
}
