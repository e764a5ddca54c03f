//! The pages that clients read. In: a function that writes a page. Out: bytes that many clients can share, and whose buffer
//! is returned when the last client is done. If pages that are still read leave no room, the result is a refusal.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::budget::{Budget, Share};
use super::exposition::Format;
use super::press::{Press, Refusal};

/// A buffer up to this size is kept for the next page. A larger one goes back to the system: a person requests a large page without gzip
/// only once, and not every minute like Prometheus.
const KEPT: usize = 256 * 1024;

/// The number of buffers that are kept.
const SPARE: usize = 2;

/// A page that is still being sent is also used for other requests until it is this old, so that simultaneous requests
/// share one page.
const FRESH: Duration = Duration::from_millis(20);

/// The same if memory is scarce. It is not longer, because a scraper that gets old counters sees no loss and no error.
const STALE: Duration = Duration::from_secs(3);

/// The most bytes of plain metrics. A thousand peers by one protocol are 3 MB. By four protocols they are 9 MB and more, depending on the
/// length of their names.
///
/// The three budgets, the memory of 64 sockets and that of a thousand peers are together less than the limit in
/// `deploy/base/daemonset.yaml`, which `tests/it/hardship.rs` measures.
const PLAIN: usize = 10 << 20;
/// The most bytes of plain JSON: a thousand peers by four protocols are 2 MB.
const JSON: usize = 3 << 20;
/// The most bytes of gzipped pages. They have a separate budget, so that slow readers of plain pages do not block
/// Prometheus.
const GZIPPED: usize = 2 << 20;

/// The content of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Metrics(Format),
    Peers,
    Brief,
    Mesh,
    Health,
}

/// Makes pages, and tracks which are still read.
#[derive(Debug)]
pub(super) struct Pages {
    /// A press for each serving thread, so that no thread waits for another one's compressor.
    presses: Box<[Mutex<Press>]>,
    shelf: Arc<Mutex<Shelf>>,
    plain: Arc<Budget>,
    json: Arc<Budget>,
    gzipped: Arc<Budget>,
}

#[derive(Debug, Default)]
struct Shelf {
    spare: Vec<Vec<u8>>,
    live: Vec<Live>,
}

#[derive(Debug)]
struct Live {
    kind: Kind,
    gzip: bool,
    at: Instant,
    page: Weak<Page>,
}

/// A page with readers.
#[derive(Debug)]
struct Page {
    text: Vec<u8>,
    shelf: Arc<Mutex<Shelf>>,
    /// Freed after the text, so that the budget is returned last.
    _share: Option<Share>,
}

/// One reader's hold on a page.
struct Hold(Arc<Page>);

impl AsRef<[u8]> for Hold {
    fn as_ref(&self) -> &[u8] {
        &self.0.text
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let text = std::mem::take(&mut self.text);
        if text.capacity() > KEPT {
            drop(text);
            // glibc keeps freed memory at the end of its heap, up to twice the largest block that it has given back.
            let _ = allocanary::tuning::purge();
            return;
        }
        let mut shelf = lock(&self.shelf);
        if shelf.spare.len() < SPARE {
            shelf.spare.push(text);
        }
    }
}

impl Pages {
    /// Pages for this number of threads.
    pub(super) fn new(threads: usize) -> Self {
        let presses = (0..threads.max(1)).map(|_| Mutex::new(Press::new())).collect();
        let budget = Budget::new;
        Pages { presses, shelf: Arc::default(), plain: budget(PLAIN), json: budget(JSON), gzipped: budget(GZIPPED) }
    }

    /// A page of this kind: one that another client still reads and that is fresh enough, or a new one that `write`
    /// writes.
    pub(super) fn get(&self, kind: Kind, gzip: bool, write: impl FnOnce(&mut Press)) -> Result<Bytes, Refusal> {
        let budget = match (gzip, kind) {
            (true, _) => &self.gzipped,
            (false, Kind::Metrics(_)) => &self.plain,
            (false, _) => &self.json,
        };
        let buffer = {
            let mut shelf = lock(&self.shelf);
            if let Some(page) = shelf.newest(kind, gzip, if budget.is_scarce() { STALE } else { FRESH }) {
                return Ok(Bytes::from_owner(Hold(page)));
            }
            shelf.spare.pop().unwrap_or_default()
        };
        let mut press = self.press();
        press.start(gzip, buffer, budget.share());
        write(&mut press);
        let written = press.finish();
        drop(press);
        let mut shelf = lock(&self.shelf);
        let (text, share) = match written {
            Ok(page) => page,
            Err(why) => return shelf.newest(kind, gzip, STALE).map(|page| Bytes::from_owner(Hold(page))).ok_or(why),
        };
        let page = Arc::new(Page { text, shelf: self.shelf.clone(), _share: share });
        shelf.live.push(Live { kind, gzip, at: Instant::now(), page: Arc::downgrade(&page) });
        Ok(Bytes::from_owner(Hold(page)))
    }

    fn press(&self) -> MutexGuard<'_, Press> {
        self.presses.iter().find_map(|press| press.try_lock().ok()).unwrap_or_else(|| lock(&self.presses[0]))
    }
}

impl Shelf {
    /// The newest page of this kind that still has readers, if it is younger than `age`.
    fn newest(&mut self, kind: Kind, gzip: bool, age: Duration) -> Option<Arc<Page>> {
        self.live.retain(|live| live.page.strong_count() > 0);
        let same = self.live.iter().filter(|live| live.kind == kind && live.gzip == gzip);
        let newest = same.max_by_key(|live| live.at)?;
        if newest.at.elapsed() < age { newest.page.upgrade() } else { None }
    }
}

/// Locks even after a panic in the middle of a page, because the next page begins again.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSIC: Kind = Kind::Metrics(Format::Classic);

    /// A page of `kib` KiB. The first one repeats the byte `first`; the others are random, and no compressor makes them
    /// smaller.
    fn page(pages: &Pages, kind: Kind, gzip: bool, first: u8, kib: usize) -> Result<Bytes, Refusal> {
        let mut rng = allocanary_sys::rng::Rng::new(1);
        pages.get(kind, gzip, |press| {
            press.put(&[first; 1024]);
            (0..(kib - 1) * 128).for_each(|_| press.put(&rng.next().to_le_bytes()));
        })
    }

    /// The refusal alone, so that a failing test does not print a page.
    fn refusal(page: Result<Bytes, Refusal>) -> Option<Refusal> {
        page.err()
    }

    fn age(pages: &Pages, by: Duration) {
        lock(&pages.shelf).live.iter_mut().for_each(|live| live.at -= by);
    }

    #[test]
    fn requests_that_come_together_share_and_buffers_come_back() {
        let pages = Pages::new(1);
        let page = |first| page(&pages, Kind::Peers, false, first, 1).unwrap();
        let first = page(1);
        assert_eq!(page(2)[0], 1, "too early");
        age(&pages, FRESH);
        let second = page(2);
        age(&pages, FRESH);
        let third = page(3);
        assert_eq!(
            (first[0], second[0], third[0]),
            (1, 2, 3),
            "while there is room slow readers make nobody's page old"
        );
        assert_eq!(self::page(&pages, Kind::Brief, false, 9, 1).unwrap()[0], 9);
        assert!(self::page(&pages, Kind::Peers, true, 3, 1).unwrap() != third, "who wants gzip gets no plain page");
        drop((first, second, third));
        assert_eq!(lock(&pages.shelf).spare.len(), SPARE);
        assert_eq!(page(4)[0], 4);
    }

    #[test]
    fn where_room_is_scarce_a_page_is_shared_for_a_while_and_not_for_ever() {
        for (kind, gzip, budget) in [(CLASSIC, false, PLAIN), (Kind::Peers, false, JSON), (CLASSIC, true, GZIPPED)] {
            let pages = Pages::new(1);
            let page = |first, kib| page(&pages, kind, gzip, first, kib);
            let most = budget / 1024 * 2 / 3;
            let slow = page(1, most).unwrap();
            age(&pages, STALE / 2);
            assert!(page(2, 1).unwrap() == slow, "though there is room for so little");
            assert!(page(2, most).unwrap() == slow);
            age(&pages, STALE);
            assert_eq!(refusal(page(3, most)), Some(Refusal::Crowded), "what is older than that is shown to nobody");
            drop(slow);
            assert!(page(4, most).is_ok());
        }
    }

    #[test]
    fn a_page_that_is_larger_than_the_room_left_falls_back_to_the_newest() {
        let pages = Pages::new(1);
        let (fits, not) = (PLAIN / 1024 * 2 / 5, PLAIN / 1024 * 7 / 10);
        let slow = page(&pages, CLASSIC, false, 1, fits).unwrap();
        age(&pages, FRESH);
        assert!(!pages.plain.is_scarce());
        assert!(page(&pages, CLASSIC, false, 2, not).unwrap() == slow);
        age(&pages, STALE);
        assert_eq!(refusal(page(&pages, CLASSIC, false, 2, not)), Some(Refusal::Crowded));
        assert!(page(&pages, CLASSIC, false, 2, fits).is_ok(), "the refused page gave back what it had");
    }

    #[test]
    fn readers_of_one_sort_keep_nobody_from_another() {
        let pages = Pages::new(1);
        let _metrics = page(&pages, CLASSIC, false, 1, PLAIN / 1024).unwrap();
        let _gzipped = page(&pages, CLASSIC, true, 1, GZIPPED / 1024 * 9 / 10).unwrap();
        let _peers = page(&pages, Kind::Peers, false, 1, JSON / 1024).unwrap();
        assert_eq!(refusal(page(&pages, Kind::Mesh, false, 1, 1)), Some(Refusal::Crowded));
    }

    #[test]
    fn a_page_that_never_fits_says_so() {
        let pages = Pages::new(1);
        assert_eq!(refusal(page(&pages, CLASSIC, false, 1, PLAIN / 1024 + 1)), Some(Refusal::TooLarge));
        assert_eq!(refusal(page(&pages, CLASSIC, true, 1, GZIPPED / 1024 + 100)), Some(Refusal::TooLarge));
        assert!(page(&pages, CLASSIC, false, 1, PLAIN / 1024).is_ok());
    }

    #[test]
    fn pages_that_are_written_at_the_same_time_have_one_budget() {
        const WRITERS: usize = 4;
        let pages = Pages::new(WRITERS);
        let begun = std::sync::Barrier::new(WRITERS);
        let write = |_| {
            pages.get(CLASSIC, false, |press| {
                begun.wait();
                (0..PLAIN * 2 / 3 / 1024).for_each(|_| press.put(&[b'x'; 1024]));
                begun.wait();
            })
        };
        let held = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS).map(|at| scope.spawn(move || write(at))).collect();
            writers.into_iter().filter_map(|writer| writer.join().unwrap().ok()).collect::<Vec<_>>()
        });
        let apart: std::collections::BTreeSet<_> = held.iter().map(|page| page.as_ptr()).collect();
        assert!(apart.len() <= 1, "{} pages of two thirds of the room", apart.len());
    }

    #[test]
    fn a_large_buffer_is_not_kept() {
        let pages = Pages::new(1);
        drop(pages.get(Kind::Peers, false, |press| (0..100).for_each(|_| press.put(&[b'x'; 10_000]))));
        assert!(lock(&pages.shelf).spare.is_empty());
    }
}
