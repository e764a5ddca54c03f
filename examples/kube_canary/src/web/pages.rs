//! The buffers of pages. In: something that writes a page. Out: bytes that many clients can hold at once, and whose buffer
//! comes back when the last of them is done; or nothing, where all pages that are still read leave no room for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use super::exposition::Format;
use super::press::Press;
use crate::clock;

/// A buffer up to this size is kept for the next page; a larger one goes back to the system, since whoever wants a large
/// mesh ungzipped is rather a person, once, than Prometheus, every minute.
const KEPT: usize = 256 * 1024;

/// So many buffers are kept.
const SPARE: usize = 2;

/// A page that is still being sent is fresh enough for others for so long: requests that come together share one.
const FRESH_NS: u64 = 20_000_000;

/// The most bytes of all pages at a time. A page that nobody shares the room with may be larger.
const ROOM: usize = 8 << 20;

/// And so many more for those that are gzipped: people who read large pages slowly must not keep Prometheus out.
const ROOM_FOR_GZIP: usize = 2 << 20;

/// What a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Metrics(Format),
    Peers,
    Brief,
    Mesh,
}

/// Makes pages, and knows which are still read.
#[derive(Debug)]
pub(super) struct Pages {
    /// One for each thread that serves, so that none waits for another's compressor.
    presses: Box<[Mutex<Press>]>,
    shelf: Arc<Mutex<Shelf>>,
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
    at: u64,
    bytes: usize,
    page: Weak<Page>,
}

/// A page with readers.
#[derive(Debug)]
struct Page {
    text: Vec<u8>,
    shelf: Arc<Mutex<Shelf>>,
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
            // glibc keeps what was freed at the end of its heap, up to twice the largest block that it ever gave back.
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
    /// For so many threads.
    pub(super) fn new(threads: usize) -> Self {
        let presses = (0..threads.max(1)).map(|_| Mutex::new(Press::new())).collect();
        Pages { presses, shelf: Arc::default() }
    }

    /// A page of that kind: one that somebody else still reads, or a new one that `write` writes.
    ///
    /// No more pages of a kind live than there are presses, and one: where slow readers hold all of them, the next client
    /// gets the newest, which is as old as the time after which slow readers are dropped, at most. So does the client for
    /// whose page there is no room; `None` where none of the kind lives.
    pub(super) fn get(&self, kind: Kind, gzip: bool, write: impl FnOnce(&mut Press)) -> Option<Bytes> {
        let (buffer, room) = {
            let mut shelf = lock(&self.shelf);
            shelf.live.retain(|live| live.page.strong_count() > 0);
            let mut same = shelf.live.iter().filter(|live| live.kind == kind && live.gzip == gzip);
            let (count, newest) = (same.clone().count(), same.clone().map(|live| live.at).max().unwrap_or(0));
            let newest = same.find(|live| live.at == newest);
            let room = room(shelf.live.iter().map(|live| live.bytes).sum(), gzip);
            if let Some(live) = newest
                && (count > self.presses.len() || clock::now() - live.at < FRESH_NS || live.bytes > room)
                && let Some(page) = live.page.upgrade()
            {
                return Some(Bytes::from_owner(Hold(page)));
            }
            (shelf.spare.pop().unwrap_or_default(), room)
        };
        let mut press = self.press();
        press.start(gzip, buffer, room);
        write(&mut press);
        let text = press.finish()?;
        drop(press);
        let bytes = text.len();
        let page = Arc::new(Page { text, shelf: self.shelf.clone() });
        lock(&self.shelf).live.push(Live { kind, gzip, at: clock::now(), bytes, page: Arc::downgrade(&page) });
        Some(Bytes::from_owner(Hold(page)))
    }

    fn press(&self) -> MutexGuard<'_, Press> {
        self.presses.iter().find_map(|press| press.try_lock().ok()).unwrap_or_else(|| lock(&self.presses[0]))
    }
}

/// How large a page may be, where others that are still read have so many bytes.
fn room(held: usize, gzip: bool) -> usize {
    match (held, gzip) {
        (0, _) => usize::MAX,
        (_, false) => ROOM.saturating_sub(held),
        (_, true) => (ROOM + ROOM_FOR_GZIP).saturating_sub(held),
    }
}

/// A page that panicked half-way is begun anew by the next.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_readers_share_and_buffers_come_back() {
        let pages = Pages::new(1);
        let page = |text: &'static [u8]| pages.get(Kind::Peers, false, |press| press.put(text)).unwrap();
        let first = page(b"first");
        assert_eq!(&page(b"too early")[..], b"first");
        let later = || std::thread::sleep(std::time::Duration::from_nanos(FRESH_NS));
        later();
        let second = page(b"second");
        later();
        let third = page(b"third");
        assert_eq!((&first[..], &second[..], &third[..]), (&b"first"[..], &b"second"[..], &b"second"[..]));
        assert_eq!(&pages.get(Kind::Brief, false, |press| press.put(b"other")).unwrap()[..], b"other");
        drop((first, second, third));
        assert_eq!(lock(&pages.shelf).spare.len(), SPARE);
        assert_eq!(&page(b"fourth")[..], b"fourth");
    }

    #[test]
    fn where_there_is_no_room_an_older_page_is_shared_or_none_given() {
        let pages = Pages::new(1);
        let page = |kind, gzip, mib: usize| {
            pages.get(kind, gzip, |press| (0..mib * 64).for_each(|_| press.put(&[b'x'; 16 * 1024])))
        };
        let alone = page(Kind::Peers, false, 12).unwrap();
        assert_eq!(alone.len(), 12 << 20, "one page is served, whatever its size");
        assert!(page(Kind::Mesh, false, 1).is_none());
        drop(alone);
        let held = (page(Kind::Peers, false, 7).unwrap(), page(Kind::Brief, false, 1).unwrap());
        assert!(page(Kind::Mesh, false, 1).is_none());
        std::thread::sleep(std::time::Duration::from_nanos(FRESH_NS));
        assert_eq!(page(Kind::Peers, false, 1).unwrap().len(), 7 << 20, "the older one of its kind");
        assert!(page(Kind::Mesh, true, 1).is_some(), "there is room left for gzip");
        drop(held);
        assert!(page(Kind::Mesh, false, 7).is_some());
    }

    #[test]
    fn a_large_buffer_is_not_kept() {
        let pages = Pages::new(1);
        drop(pages.get(Kind::Peers, false, |press| (0..100).for_each(|_| press.put(&[b'x'; 10_000]))));
        assert!(lock(&pages.shelf).spare.is_empty());
    }
}
