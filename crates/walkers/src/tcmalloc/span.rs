//! A span: pages that are one large block, blocks of one size, or free. In: the bytes of its `Span`. Out: its fields.

use super::release::TcmallocRelease;

/// What a span is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanUse {
    /// Has blocks.
    Taken,
    /// Free, with its memory.
    Free,
    /// Free, and given back.
    Returned,
}

/// A span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSpan {
    /// The address of its structure.
    pub at: u64,
    /// Its first byte.
    pub from: u64,
    /// The first byte behind it.
    pub to: u64,
    /// The size class of its blocks; 0 if it is one large block.
    pub class: u8,
    /// The blocks of a class that are not in its own list of free ones.
    pub taken: u64,
    /// The first block of that list.
    pub objects: u64,
    /// What it is used for.
    pub used: SpanUse,
}

impl PageSpan {
    /// Reads the fields. `None` if they cannot be those of a span.
    pub fn parse(at: u64, bytes: &[u8], release: &TcmallocRelease) -> Option<PageSpan> {
        let fields = &release.span;
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let (start, length, bits) = (word(fields.start)?, word(fields.length)?, word(fields.bits)?);
        let used = match bits >> 24 & 3 {
            0 => SpanUse::Taken,
            1 => SpanUse::Free,
            2 => SpanUse::Returned,
            _ => return None,
        };
        let end = start.checked_add(length)?;
        (start > 0 && length > 0 && end < 1 << (48 - release.page_shift)).then_some(PageSpan {
            at,
            from: start << release.page_shift,
            to: end << release.page_shift,
            class: (bits >> 16) as u8,
            taken: bits & 0xffff,
            objects: word(fields.objects)?,
            used,
        })
    }
}
