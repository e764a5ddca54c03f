//! Runs every walker on a memory, several times if the process changes.

use crate::{Memory, Unknown, Walk, Walker, jemalloc, mimalloc, musl, system, tcmalloc};

/// Every walker.
pub const ALL: &[&Walker] = &[&system::WALKER, &jemalloc::WALKER, &mimalloc::WALKER, &tcmalloc::WALKER, &musl::WALKER];

/// Runs every walker, and returns the heaps that each has found.
pub fn walk_all(memory: &dyn Memory) -> Vec<Result<Walk, Unknown>> {
    ALL.iter().flat_map(|walker| (walker.walk)(memory)).collect()
}

/// Runs every walker. The allocators in `by_copy` are analysed from a short copy. They come first, because the states of the pages were
/// read just before.
fn walk_by_copy(memory: &dyn Memory, by_copy: &[&str]) -> Vec<Result<Walk, Unknown>> {
    let copying = |walker: &Walker| walker.by_copy.filter(|_| by_copy.contains(&walker.name));
    let mut all: Vec<(usize, &Walker)> = ALL.iter().copied().enumerate().collect();
    all.sort_by_key(|(_, walker)| copying(walker).is_none());
    let walk = |(at, walker): (usize, &Walker)| (at, copying(walker).unwrap_or(walker.walk)(memory));
    let mut walks: Vec<_> = all.into_iter().map(walk).collect();
    walks.sort_by_key(|(at, _)| *at);
    walks.into_iter().flat_map(|(_, walks)| walks).collect()
}

/// Opens and walks a running process, up to `tries` times, until a walk has neither a break nor a failed check. If a heap of the best walk
/// cannot be trusted, tries a short copy of its structures, where its walker can do this. Returns the best result with the memory that was
/// read. An error of the first opening is returned. A later one ends the tries.
pub fn best_of<M: Memory, E>(tries: u32, mut open: impl FnMut() -> Result<M, E>) -> Result<HeapWalks<M>, E> {
    let mut best = walked(tries, &mut open)?;
    let doubtful = best.doubtful();
    if ALL.iter().any(|walker| walker.by_copy.is_some() && doubtful.contains(&walker.name))
        && let Ok(memory) = open()
    {
        let walks = walk_by_copy(&memory, &doubtful);
        let copied = HeapWalks { memory, walks };
        if copied.doubtful().len() < doubtful.len() && copied.walks.len() >= best.walks.len() {
            best = copied;
        }
    }
    Ok(best)
}

/// The best of up to `tries` walks, without the attempt by copy.
pub fn walked<M: Memory, E>(tries: u32, mut open: impl FnMut() -> Result<M, E>) -> Result<HeapWalks<M>, E> {
    let mut walk =
        || open().map(|memory| (walk_all(&memory), memory)).map(|(walks, memory)| HeapWalks { memory, walks });
    let mut best = walk()?;
    for _ in 1..tries {
        if best.doubt() == (0, 0, 0, 0) {
            break;
        }
        let Ok(next) = walk() else { break };
        if next.doubt() < best.doubt() {
            best = next;
        }
    }
    Ok(best)
}

/// A memory, and what each walker found in it.
#[derive(Debug)]
pub struct HeapWalks<M> {
    /// The memory that these walks have read: its mappings and its states of pages fit them.
    pub memory: M,
    /// The heaps, as [`walk_all`] returns them.
    pub walks: Vec<Result<Walk, Unknown>>,
}

impl<M: Memory> HeapWalks<M> {
    /// The allocators whose heaps cannot be trusted or were not analysed. One entry for each heap.
    fn doubtful(&self) -> Vec<&'static str> {
        let name = |walk: &Result<Walk, Unknown>| match walk {
            Ok(walk) => Some(walk.allocator).filter(|_| !walk.is_trusted(self.memory.pages())),
            Err(unknown) => Some(unknown.allocator),
        };
        self.walks.iter().filter_map(name).collect()
    }
}

impl<M> HeapWalks<M> {
    /// The number of heaps that could not be analysed, then the sums of [`Walk::doubt`] over the others.
    fn doubt(&self) -> (u64, u64, u64, u64) {
        self.walks.iter().fold((0, 0, 0, 0), |sum, walk| match walk {
            Err(_) => (sum.0 + 1, sum.1, sum.2, sum.3),
            Ok(walk) => {
                let (failed, skipped, breaks) = walk.doubt();
                (sum.0, sum.1 + failed, sum.2.saturating_add(skipped), sum.3.saturating_add(breaks))
            }
        })
    }
}
