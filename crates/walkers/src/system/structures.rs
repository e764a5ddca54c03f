//! The allocator's structures in a process, for one release.

use super::arenas::{Arena, Arenas};
use super::caches::{self, Caches};
use super::fast;
use super::lists::Listed;
use super::params::Params;
use super::release::Release;
use crate::Memory;

/// The structures.
#[derive(Debug)]
pub(super) struct Structures {
    pub release: &'static Release,
    pub params: Params,
    /// The main arena, then the thread arenas.
    pub arenas: Vec<Arena>,
    pub caches: Caches,
    /// The blocks in fast bins.
    pub fast: Listed,
}

impl Structures {
    /// Reads all structures. The error says which one was not found.
    pub fn find(memory: &dyn Memory, found: &Arenas, release: &'static Release) -> Result<Structures, &'static str> {
        let arenas: Option<Vec<Arena>> = found.all.iter().map(|at| Arena::read(memory, *at, release.bins)).collect();
        let arenas = arenas.ok_or("an arena could not be read: the process changes or has ended")?;
        let has_memory = arenas[0].has_memory(release);
        let params = Params::find(memory, found.data, release, has_memory);
        let params = params.ok_or("the parameters (mp_) were not found in the data of the main arena")?;
        let caches = caches::find(memory, release, &|_| true);
        let mut fast = Listed::default();
        arenas.iter().for_each(|arena| fast::find(memory, arena.at, release, &mut fast));
        Ok(Structures { release, params, arenas, caches, fast })
    }

    /// The number of thread caches that were not found, and of broken lists. It is 0 if the release is the right one.
    pub fn doubt(&self) -> u64 {
        self.caches.wanted.abs_diff(self.caches.found) + self.caches.listed.broken + self.fast.broken
    }

    /// The bytes that all arenas have from the kernel, by their own counts.
    pub fn system(&self) -> u64 {
        self.arenas.iter().fold(0, |sum: u64, arena| sum.saturating_add(arena.system))
    }
}
