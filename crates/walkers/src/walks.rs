//! Walks with every walker. In: a memory, or what opens one. Out: what each walker has found.

use crate::{Memory, Unknown, Walk, Walker, jemalloc, mimalloc, musl, system, tcmalloc};

/// Every walker.
pub const ALL: &[&Walker] = &[&system::WALKER, &jemalloc::WALKER, &mimalloc::WALKER, &tcmalloc::WALKER, &musl::WALKER];

/// Walks with every walker, and returns what each has found.
pub fn walk_all(memory: &dyn Memory) -> Vec<Result<Walk, Unknown>> {
    ALL.iter().flat_map(|walker| (walker.walk)(memory)).collect()
}

/// Opens and walks a process that runs, up to `tries` times, until a walk has neither a break nor a check that fails. Returns the best
/// one with the memory that it read. An error of the first opening is returned; a later one ends the tries.
pub fn best_of<M: Memory, E>(tries: u32, mut open: impl FnMut() -> Result<M, E>) -> Result<HeapWalks<M>, E> {
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
    /// What was read: the mappings and the states of the pages belong to these walks.
    pub memory: M,
    /// The heaps, as [`walk_all`] returns them.
    pub walks: Vec<Result<Walk, Unknown>>,
}

impl<M> HeapWalks<M> {
    /// The heaps that could not be divided, and the doubts of the others together.
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
