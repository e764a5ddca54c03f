//! An arena for many threads, which can be found by its id. In: an [`Arena`]. Out: handles that share it.
//!
//! The pieces exist as long as any handle: each piece borrows the handle that it came from, and the last handle frees
//! the chunks. So no piece outlives its memory, even after a release by another handle.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::{Arena, ArenaError, Result, Sizes};

/// The arenas that can be found by their id.
static REGISTRY: Mutex<BTreeMap<u64, Weak<Shared>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(1);

/// An arena for many threads. A clone is another handle of the same arena.
#[derive(Clone, Debug)]
pub struct SharedArena(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    id: u64,
    arena: Mutex<Arena>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        registry().remove(&self.id);
    }
}

fn registry() -> MutexGuard<'static, BTreeMap<u64, Weak<Shared>>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedArena {
    /// Shares `arena` under a new id. It can be found by the id unless it is already released.
    pub fn new(arena: Arena) -> Self {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let released = arena.released;
        let shared = Arc::new(Shared { id, arena: Mutex::new(arena) });
        if !released {
            registry().insert(id, Arc::downgrade(&shared));
        }
        SharedArena(shared)
    }

    /// The arena with this id, while it exists and is not released.
    pub fn from_id(id: u64) -> Option<Self> {
        registry().get(&id)?.upgrade().map(SharedArena)
    }

    /// Its id: unique in this process, and never reused.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    fn arena(&self) -> MutexGuard<'_, Arena> {
        self.0.arena.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The arena if it is not released. A released arena may still have its chunks, for the pieces of other handles.
    fn unreleased(&self) -> Result<MutexGuard<'_, Arena>> {
        let arena = self.arena();
        if arena.released { Err(ArenaError::Released) } else { Ok(arena) }
    }

    /// Like [`Arena::alloc`], under the lock.
    #[allow(clippy::mut_from_ref)] // every call returns another piece
    pub fn alloc<T>(&self, value: T) -> Result<&mut T> {
        let arena = self.unreleased()?;
        let piece: *mut T = arena.alloc(value)?;
        // SAFETY: nobody else has this piece. A chunk neither moves nor is freed before the last handle is dropped, and
        // this borrow keeps our handle: `reset`, `trim_to` and `release` need `&mut` of the handle, and free chunks
        // only if it is the only one.
        Ok(unsafe { &mut *piece })
    }

    /// Like [`Arena::copy`], under the lock.
    #[allow(clippy::mut_from_ref)] // every call returns another piece
    pub fn copy(&self, bytes: &[u8]) -> Result<&mut [u8]> {
        let arena = self.unreleased()?;
        let piece: *mut [u8] = arena.copy(bytes)?;
        // SAFETY: as in `alloc`.
        Ok(unsafe { &mut *piece })
    }

    /// The sizes of the arena.
    pub fn sizes(&self) -> Sizes {
        self.arena().sizes()
    }

    /// Like [`Arena::reset`]; an error while another handle exists.
    pub fn reset(&mut self) -> Result<()> {
        self.alone(Arena::reset)
    }

    /// Like [`Arena::trim_to`]; an error while another handle exists.
    pub fn trim_to(&mut self, bytes: usize) -> Result<()> {
        self.alone(|arena| arena.trim_to(bytes))
    }

    fn alone(&mut self, change: impl FnOnce(&mut Arena)) -> Result<()> {
        let mut registry = registry();
        // The registry's weak handle is dropped here, because `Arc::get_mut` would count it as another handle. The lock
        // keeps other threads from finding the arena meanwhile.
        let weak = registry.remove(&self.0.id);
        let others = Arc::strong_count(&self.0) - 1;
        let id = self.0.id;
        let was_found = weak.is_some();
        drop(weak);
        let changed = match Arc::get_mut(&mut self.0) {
            Some(shared) => {
                change(shared.arena.get_mut().unwrap_or_else(PoisonError::into_inner));
                Ok(())
            }
            None => Err(ArenaError::Shared { id, others }),
        };
        if was_found {
            registry.insert(id, Arc::downgrade(&self.0));
        }
        changed
    }

    /// Removes the arena from the registry. All its handles refuse requests from then on. Its memory is freed at once
    /// if this is the only handle, otherwise with the last handle. A second release does nothing.
    pub fn release(&mut self) {
        registry().remove(&self.0.id);
        match Arc::get_mut(&mut self.0) {
            Some(shared) => shared.arena.get_mut().unwrap_or_else(PoisonError::into_inner).release(),
            None => self.arena().released = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::Layout;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn an_arena_is_found_by_its_id_while_it_lives() {
        let arena = Arena::new().share();
        let id = arena.id();
        let found = Arena::from_id(id).unwrap();
        let text = found.copy(b"from the other handle").unwrap();
        assert_eq!(arena.sizes().used, 21);
        drop(arena);
        assert_eq!(text, b"from the other handle");
        assert!(Arena::from_id(id).is_some());
        drop(found);
        assert!(Arena::from_id(id).is_none());
        assert!(Arena::from_id(0).is_none());
    }

    #[test]
    fn a_second_release_is_harmless_and_pieces_stay_readable() {
        let mut arena = Arena::new().share();
        let other = arena.clone();
        let piece = other.alloc(7_u64).unwrap();
        arena.release();
        arena.release();
        assert!(Arena::from_id(arena.id()).is_none());
        assert_eq!(other.alloc(1_u64).unwrap_err(), ArenaError::Released);
        assert_eq!(arena.copy(b"1").unwrap_err(), ArenaError::Released);
        assert_eq!(*piece, 7);
        drop(other);
        arena.release();
        assert_eq!(arena.sizes(), Sizes::default());
    }

    #[test]
    fn a_reset_wants_the_only_handle() {
        let mut arena = Arena::new().share();
        let id = arena.id();
        arena.copy(&[1; 100]).unwrap();
        let other = Arena::from_id(id).unwrap();
        assert_eq!(arena.reset(), Err(ArenaError::Shared { id, others: 1 }));
        assert_eq!(arena.trim_to(0), Err(ArenaError::Shared { id, others: 1 }));
        drop(other);
        assert_eq!(arena.reset(), Ok(()));
        assert_eq!(arena.sizes().used, 0);
        assert_eq!(arena.trim_to(0), Ok(()));
        assert_eq!(arena.sizes().reserved, 0);
        assert!(Arena::from_id(id).is_some(), "a reset arena is still found");
    }

    /// Six threads request pieces at the same time, until their sum exceeds the limit many times.
    fn six_threads(limit: usize, piece: usize, rounds: usize) -> (usize, Vec<usize>) {
        let arena = Arena::new().limited(limit).share();
        let start = Barrier::new(6);
        let places = std::thread::scope(|scope| {
            let ask = || {
                start.wait();
                let mut places = Vec::new();
                for _ in 0..rounds {
                    match arena.arena().alloc_layout(Layout::from_size_align(piece, 16).unwrap()) {
                        Ok(place) => places.push(place.addr().get()),
                        Err(ArenaError::Limit { wanted, held, limit: said }) => {
                            assert!(wanted == piece && held <= limit && said == limit);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
                places
            };
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let sizes = arena.sizes();
        assert!(sizes.reserved <= limit, "{sizes:?}");
        (sizes.used, places)
    }

    #[test]
    fn no_overflow_where_six_threads_ask_for_1_gib_each() {
        assert_eq!(six_threads((1 << 30) - 1, 1 << 30, 50), (0, vec![]));
    }

    #[test]
    fn no_overflow_where_six_threads_fill_an_arena_to_its_limit() {
        let piece = 4096;
        let (used, mut places) = six_threads(1 << 20, piece, 100);
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[0] + piece <= pair[1]), "no piece lies in another");
        assert_eq!(used, places.len() * piece);
        assert!(places.len() >= 128, "{} pieces of 256", places.len());
    }
}
