//! Records the pages in which blocks have been. In: calls of a replay. Out: the same calls of another allocator, and a file with the
//! addresses of the blocks and the resident pages.
//!
//! There is a bit for each page of the address space. A summary has a bit for each page of these bits. It is 1 if not all of them are 0.
//! Both are in shared memory: only written pages exist, and they do not count as the allocator's memory. Nothing here allocates.

use std::alloc::{GlobalAlloc, Layout};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::ReplayStop;
use crate::mapped::Anonymous;
use crate::placed::{PAGE, Writer};

/// The number of bits of a process's address.
const ADDRESS: u32 = if cfg!(target_arch = "x86_64") { 47 } else { 48 };
/// The number of words for the bits of all pages.
const WORDS: usize = 1 << (ADDRESS - 12 - 6);
/// The number of words that share one bit of the summary. They are one page.
const EACH: usize = 512;

/// An allocator, and the pages in which its blocks have been.
pub struct Noted<A> {
    allocator: A,
    notes: Notes,
}

/// The pages in which blocks have been.
pub struct Notes {
    pages: Anonymous<AtomicU64>,
    summary: Anonymous<AtomicU64>,
}

// SAFETY: the maps are only touched by atomic operations.
unsafe impl Sync for Notes {}

impl<A> Noted<A> {
    /// Wraps an allocator, with no pages recorded yet. `None` if the kernel does not give the address space that the notes need.
    pub fn new(allocator: A) -> Option<Noted<A>> {
        Some(Noted { allocator, notes: Notes::new()? })
    }

    /// The recorded pages. A pool may add the pages of its blocks.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Writes the addresses of the blocks at a stop, and those of the recorded pages that are resident.
    pub fn write(&self, stop: &ReplayStop<'_>, file: &File) -> io::Result<()> {
        let pagemap = File::open("/proc/self/pagemap")?;
        let mut out = Writer::new(file);
        self.notes.stretches(|pages| {
            out.used(&pages)?;
            resident(&pagemap, pages, |pages| out.resident(&pages))
        })?;
        stop.region.iter().try_for_each(|region| out.region(region))?;
        stop.blocks().try_for_each(|block| out.block(&block))?;
        out.end()
    }
}

impl Notes {
    /// No pages yet. `None` if the kernel does not give the address space.
    pub fn new() -> Option<Notes> {
        Some(Notes { pages: Anonymous::new(WORDS)?, summary: Anonymous::new(WORDS / EACH / 64)? })
    }

    pub(super) fn note(&self, block: *mut u8, size: usize) {
        if block.is_null() {
            return;
        }
        let first = block.addr() / PAGE as usize;
        let last = (block.addr() + size.max(1) - 1) / PAGE as usize;
        for at in first / 64..=last / 64 {
            let from = if at == first / 64 { first % 64 } else { 0 };
            let to = if at == last / 64 { last % 64 } else { 63 };
            let bits = (u64::MAX << from) & (u64::MAX >> (63 - to));
            let Some(word) = self.pages.items().get(at) else { return };
            if word.load(Relaxed) & bits != bits {
                word.fetch_or(bits, Relaxed);
                self.summary.items()[at / EACH / 64].fetch_or(1 << (at / EACH % 64), Relaxed);
            }
        }
    }

    /// Calls `tell` with the pages in which blocks have been, in order, as ranges that do not touch each other.
    fn stretches(&self, mut tell: impl FnMut(Range<u64>) -> io::Result<()>) -> io::Result<()> {
        let mut open: Option<Range<u64>> = None;
        for (at, summary) in self.summary.items().iter().enumerate() {
            for chunk in bits(summary.load(Relaxed)) {
                let first = (at * 64 + chunk) * EACH;
                for (word, pages) in self.pages.items()[first..first + EACH].iter().enumerate() {
                    for bit in bits(pages.load(Relaxed)) {
                        let page = ((first + word) * 64 + bit) as u64;
                        match &mut open {
                            Some(open) if open.end == page => open.end += 1,
                            _ => open.replace(page..page + 1).map_or(Ok(()), &mut tell)?,
                        }
                    }
                }
            }
        }
        open.map_or(Ok(()), tell)
    }
}

/// The positions of the bits that are 1.
fn bits(word: u64) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(word), |word| Some(word & (word - 1)))
        .take_while(|word| *word != 0)
        .map(|word| word.trailing_zeros() as usize)
}

const PRESENT: u64 = 1 << 63;

/// Calls `tell` with the resident pages among these pages, as ranges that do not touch each other.
fn resident(pagemap: &File, pages: Range<u64>, mut tell: impl FnMut(Range<u64>) -> io::Result<()>) -> io::Result<()> {
    let mut words = [0; 4096];
    let mut open: Option<Range<u64>> = None;
    let mut page = pages.start;
    while page < pages.end {
        let wanted = ((pages.end - page) * 8).min(words.len() as u64) as usize;
        pagemap.read_exact_at(&mut words[..wanted], page * 8)?;
        for word in words[..wanted].as_chunks().0 {
            if u64::from_ne_bytes(*word) & PRESENT != 0 {
                match &mut open {
                    Some(open) if open.end == page => open.end += 1,
                    _ => open.replace(page..page + 1).map_or(Ok(()), &mut tell)?,
                }
            }
            page += 1;
        }
    }
    open.map_or(Ok(()), tell)
}

// SAFETY: every call is passed on unchanged.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Noted<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let block = unsafe { self.allocator.alloc(layout) };
        self.notes.note(block, layout.size());
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let block = unsafe { self.allocator.alloc_zeroed(layout) };
        self.notes.note(block, layout.size());
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.allocator.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        let block = unsafe { self.allocator.realloc(block, layout, size) };
        self.notes.note(block, size);
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_blocks_are_noted_as_stretches_across_words_and_chunks() {
        let noted = Notes::new().unwrap();
        let chunk = (EACH * 64) as u64;
        let at = |page: u64| std::ptr::without_provenance_mut((page * PAGE) as usize);
        noted.note(at(3), 1);
        noted.note(std::ptr::without_provenance_mut((5 * PAGE - 1) as usize), 2);
        noted.note(at(62), 4 * PAGE as usize);
        noted.note(at(chunk - 1), 2 * PAGE as usize);
        noted.note(at(2 * chunk), (chunk * PAGE) as usize + 1);
        noted.note(at(2 * chunk + 5), 0);
        noted.note(std::ptr::null_mut(), 100);
        let mut found = Vec::new();
        noted
            .stretches(|pages| {
                found.push(pages);
                Ok(())
            })
            .unwrap();
        assert_eq!(found, [3..6, 62..66, chunk - 1..chunk + 1, 2 * chunk..3 * chunk + 1]);
    }
}
