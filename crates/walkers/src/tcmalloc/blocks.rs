//! Finds which blocks of the spans are taken, free or cached.

use super::lists::List;
use super::span::{PageSpan, SpanUse};
use crate::{Memory, Window};

/// The blocks of all spans.
#[derive(Debug)]
pub struct SpanBlocks<'a> {
    spans: &'a [PageSpan],
    sizes: &'a [u64],
    /// For each span, the index of its first word in `free` and `cached`.
    first: Vec<usize>,
    /// A bit for each block, set if it is in the list of its span.
    pub free: Vec<u64>,
    /// A bit for each block, set if it is in another list.
    pub cached: Vec<u64>,
    /// Lists with a wrong link or a wrong length.
    pub breaks: u64,
    /// The bytes of the blocks that these lists have too many or too few.
    pub skipped: u64,
}

impl<'a> SpanBlocks<'a> {
    /// All blocks, none of them free yet.
    pub fn new(spans: &'a [PageSpan], sizes: &'a [u64]) -> Self {
        let mut blocks =
            SpanBlocks { spans, sizes, first: Vec::new(), free: Vec::new(), cached: Vec::new(), breaks: 0, skipped: 0 };
        let mut words = 0;
        for span in spans {
            blocks.first.push(words);
            words += blocks.count(span).div_ceil(64) as usize;
        }
        blocks.first.push(words);
        (blocks.free, blocks.cached) = (vec![0; words], vec![0; words]);
        blocks
    }

    /// The bytes of each of the span's blocks; 0 if the span is one large block or free.
    pub fn size(&self, span: &PageSpan) -> u64 {
        if span.used == SpanUse::Taken { self.sizes.get(usize::from(span.class)).copied().unwrap_or(0) } else { 0 }
    }

    /// The number of blocks of a span.
    pub fn count(&self, span: &PageSpan) -> u64 {
        (span.to - span.from).checked_div(self.size(span)).unwrap_or(0)
    }

    /// The bits of the span with this index: free, then cached.
    pub fn of(&self, span: usize) -> (&[u64], &[u64]) {
        let range = self.first[span]..self.first[span + 1];
        (&self.free[range.clone()], &self.cached[range])
    }

    /// Follows the spans' lists of free blocks. A list's length follows from the number of taken blocks.
    pub fn free_of_spans(&mut self, memory: &dyn Memory) {
        let mut window = Window::of_pages(memory);
        for span in self.spans.iter().filter(|span| self.size(span) > 0).copied().collect::<Vec<_>>() {
            let length = self.count(&span).checked_sub(span.taken);
            if length.is_none() {
                self.broken(self.size(&span));
            }
            let list = List { head: span.objects, last: None, length: Some(length.unwrap_or(0)), class: span.class };
            self.follow(&mut window, &list, true);
        }
    }

    /// Follows a list of cached blocks.
    pub fn cached(&mut self, memory: &dyn Memory, lists: &[List]) {
        let mut window = Window::of_pages(memory);
        for list in lists {
            self.follow(&mut window, list, false);
        }
    }

    fn follow(&mut self, window: &mut Window, list: &List, of_span: bool) {
        let size = self.sizes.get(usize::from(list.class)).copied().unwrap_or(0);
        let (mut at, mut count) = (list.head, 0);
        while at != 0 && list.length.is_none_or(|length| count < length) {
            let Some((word, bit)) = self.place(at, list.class) else { break };
            if (self.free[word] | self.cached[word]) & bit != 0 {
                break;
            }
            if of_span {
                self.free[word] |= bit
            } else {
                self.cached[word] |= bit
            }
            count += 1;
            at = match window.word(at) {
                _ if list.last == Some(at) => 0,
                Some(next) => next,
                None => break,
            };
        }
        let missing = list.length.map_or(0, |length| length - count);
        if at != 0 || missing > 0 {
            self.broken(size.saturating_mul(missing.max(1)));
        }
    }

    /// The index of the word and the bit of the block at an address. `None` unless a block of this class begins there.
    fn place(&self, at: u64, class: u8) -> Option<(usize, u64)> {
        let number = self.spans.partition_point(|span| span.from <= at).checked_sub(1)?;
        let span = self.spans.get(number).filter(|span| at < span.to && span.class == class)?;
        let size = self.size(span);
        let index = (at - span.from).checked_div(size).filter(|index| *index < self.count(span))?;
        let begins = (at - span.from).is_multiple_of(size);
        begins.then_some((self.first[number] + (index / 64) as usize, 1 << (index % 64)))
    }

    fn broken(&mut self, bytes: u64) {
        self.breaks += 1;
        self.skipped = self.skipped.saturating_add(bytes);
    }
}
