//! Adds up blocks of one kind on the same page, so that the layout is searched once for a page with many small blocks.

use crate::{BlockKind, Layout, PAGE};

/// The bytes of one page that are not yet in the layout.
pub struct Sums<'a> {
    layout: &'a mut Layout,
    kind: BlockKind,
    page: u64,
    bytes: u64,
}

impl<'a> Sums<'a> {
    pub fn new(layout: &'a mut Layout, kind: BlockKind) -> Self {
        Sums { layout, kind, page: 0, bytes: 0 }
    }

    /// Adds a block, or several adjacent ones.
    pub fn add(&mut self, at: u64, bytes: u64) {
        let page = at & !(PAGE - 1);
        if page != self.page {
            self.put();
            self.page = page;
        }
        let here = bytes.min(page + PAGE - at);
        self.bytes += here;
        if here < bytes {
            self.put();
            self.layout.block(at + here, bytes - here, self.kind);
        }
    }

    fn put(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes > 0 {
            self.layout.block(self.page, bytes, self.kind);
        }
    }
}

impl Drop for Sums<'_> {
    fn drop(&mut self) {
        self.put();
    }
}
