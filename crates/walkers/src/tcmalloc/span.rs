//! A span: pages that are one large block, blocks of one size, or free. It is read from its `Span`.

use super::release::TcmallocRelease;

/// The state of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanUse {
    /// Has blocks.
    Taken,
    /// Free, and not given back to the kernel.
    Free,
    /// Free, and given back to the kernel.
    Returned,
}

/// A span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSpan {
    /// The address of its structure.
    pub at: u64,
    /// The address of its first byte.
    pub from: u64,
    /// The first address behind it.
    pub to: u64,
    /// The size class of its blocks; 0 if it is one large block.
    pub class: u8,
    /// The number of its blocks that are not in its own list of free blocks.
    pub taken: u64,
    /// The first block of its own list of free blocks.
    pub objects: u64,
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
