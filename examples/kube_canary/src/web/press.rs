//! Makes a page. In: thousands of pieces of text. Out: one buffer, plain or gzipped.
//!
//! A gzipped page is compressed as it is written, so that the whole text, ten to twenty times as large, is never in memory.

use std::io;

use flate2::{Compress, Compression, FlushCompress, Status};

use super::budget::{Budget, Share};

/// Text is collected up to this size before a call of the compressor.
const STAGING: usize = 16 * 1024;

/// The compressor looks back 2 to the power of this many bytes. Lines repeat those just before them, and a smaller window needs less
/// memory. `benches/scrape.rs` shows what each size costs.
const WINDOW_BITS: u8 = 13;

/// A compressor and the text before it, used again for every page.
pub(super) struct Press {
    compress: Compress,
    staging: Vec<u8>,
    out: Vec<u8>,
    gzip: bool,
    /// This page's share of the budget; `None` between pages.
    share: Option<Share>,
    /// The size that the page would have with enough room.
    length: usize,
    /// Whether there was not enough room.
    over: bool,
}

/// The reason why there was no room for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Other pages have the room at the moment.
    Crowded,
    /// The page is larger than the whole budget.
    TooLarge,
}

impl Press {
    /// Allocates and touches all memory that it will ever need, so that a first scrape does not look like a leak.
    pub(super) fn new() -> Self {
        let mut press = Press {
            // 1 is the fastest level. At any level, a page shrinks to a tenth.
            compress: Compress::new_gzip(Compression::new(1), WINDOW_BITS),
            staging: Vec::with_capacity(STAGING),
            out: Vec::new(),
            gzip: false,
            share: None,
            length: 0,
            over: false,
        };
        press.start(true, Vec::with_capacity(STAGING), Budget::new(usize::MAX).share());
        let mut rng = allocanary_sys::rng::Rng::new(1);
        for _ in 0..2 << WINDOW_BITS {
            press.put(&rng.next().to_le_bytes()[..4]);
        }
        let _ = press.finish();
        press
    }

    /// Begins a page in this buffer. It may grow until the budget has no room for it.
    pub(super) fn start(&mut self, gzip: bool, out: Vec<u8>, share: Share) {
        (self.gzip, self.share, self.length, self.over) = (gzip, Some(share), 0, false);
        self.out = out;
        self.out.clear();
        self.staging.clear();
        self.compress.reset();
    }

    /// The next piece of text.
    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8]) {
        if self.staging.len() + bytes.len() > STAGING {
            self.spill(bytes);
        } else {
            self.staging.extend_from_slice(bytes);
        }
    }

    #[cold]
    fn spill(&mut self, bytes: &[u8]) {
        let staging = std::mem::take(&mut self.staging);
        self.pass(&staging, FlushCompress::None);
        self.staging = staging;
        self.staging.clear();
        if bytes.len() > STAGING {
            self.pass(bytes, FlushCompress::None);
        } else {
            self.staging.extend_from_slice(bytes);
        }
    }

    /// Ends the page. Returns its buffer and its share of the budget, or the reason why there is none.
    pub(super) fn finish(&mut self) -> Result<(Vec<u8>, Option<Share>), Refusal> {
        let staging = std::mem::take(&mut self.staging);
        self.pass(&staging, FlushCompress::Finish);
        self.staging = staging;
        let (out, share) = (std::mem::take(&mut self.out), self.share.take());
        if !self.over {
            return Ok((out, share));
        }
        drop(out);
        // The page's memory goes back to the system before other pages may use its share.
        let _ = allocanary::tuning::purge();
        match share {
            Some(share) if share.can_never_be(self.length) => Err(Refusal::TooLarge),
            _ => Err(Refusal::Crowded),
        }
    }

    /// Whether the page may have `bytes` bytes. If not, its text so far is freed at once.
    fn may_have(&mut self, bytes: usize) -> bool {
        if !self.over && !self.share.as_mut().is_some_and(|share| share.grow(bytes)) {
            self.over = true;
            self.out = Vec::new();
        }
        !self.over
    }

    fn pass(&mut self, mut text: &[u8], flush: FlushCompress) {
        if !self.gzip {
            self.length += text.len();
            if self.may_have(self.length) {
                self.out.extend_from_slice(text);
            }
            return;
        }
        loop {
            if self.out.capacity() - self.out.len() < STAGING / 4 {
                self.out.reserve(STAGING / 2);
            }
            let (before, length) = (self.compress.total_in(), self.out.len());
            // The stream is valid after `reset` and there is room, so the compressor returns no error.
            let status = self.compress.compress_vec(text, &mut self.out, flush).unwrap_or(Status::StreamEnd);
            text = &text[(self.compress.total_in() - before) as usize..];
            self.length += self.out.len() - length;
            let done = match flush {
                FlushCompress::Finish => status == Status::StreamEnd,
                _ => text.is_empty() && self.out.len() < self.out.capacity(),
            };
            if !self.may_have(self.length) {
                // The stream is finished although nobody reads it. A compressor that is reset within a block would begin the next page
                // within that block.
                self.out.clear();
            }
            if done {
                return;
            }
        }
    }
}

impl io::Write for Press {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for Press {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Press").field("gzip", &self.gzip).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;

    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn gunzip(bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(bytes).read_to_end(&mut text).expect("a whole gzip file");
        text
    }

    proptest! {
        // The same values each time, so that a random draw does not stop an unrelated change.
        #![proptest_config(ProptestConfig { cases: 64, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]
        #[test]
        fn what_goes_in_comes_out(pieces in prop::collection::vec((any::<u64>(), 0..40_000usize), 0..12)) {
            let mut press = Press::new();
            for gzip in [true, false, true] {
                let mut wanted = Vec::new();
                press.start(gzip, Vec::new(), Budget::new(usize::MAX).share());
                for (seed, length) in &pieces {
                    let mut rng = allocanary_sys::rng::Rng::new(*seed);
                    // Half random bytes, half a repeated line.
                    let piece: Vec<u8> = (0..*length).map(|at| if at % 97 < 48 { rng.next() as u8 } else { at as u8 }).collect();
                    press.put(&piece);
                    wanted.extend_from_slice(&piece);
                }
                let (page, _) = press.finish().unwrap();
                let read = if gzip { gunzip(&page) } else { page };
                prop_assert!(read == wanted, "gzip: {}, {} bytes of {}", gzip, read.len(), wanted.len());
            }
        }
    }

    #[test]
    fn a_page_that_is_too_large_is_none_and_the_next_one_is_whole() {
        let mut press = Press::new();
        let noise: Vec<u8> = std::iter::repeat_with({
            let mut rng = allocanary_sys::rng::Rng::new(1);
            move || rng.next() as u8
        })
        .take(200_000)
        .collect();
        for gzip in [false, true] {
            let mut page = |budget: &Arc<Budget>| {
                press.start(gzip, Vec::new(), budget.share());
                noise.chunks(1000).for_each(|piece| press.put(piece));
                let kept = press.out.capacity();
                assert!(!press.over || kept <= 2 * STAGING, "{kept} bytes kept of a page that is none");
                press.finish()
            };
            assert_eq!(page(&Budget::new(100_000)).unwrap_err(), Refusal::TooLarge);
            let budget = Budget::new(250_000);
            let (whole, share) = page(&budget).unwrap();
            assert_eq!(page(&budget).unwrap_err(), Refusal::Crowded);
            drop(share);
            assert!(page(&budget).is_ok(), "all room came back, of the refused page too");
            assert_eq!(if gzip { gunzip(&whole) } else { whole }, noise);
        }
    }
}
