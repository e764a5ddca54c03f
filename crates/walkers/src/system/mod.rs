//! Walks glibc's malloc on x86-64. In: the memory of a process. Out: its heap. No symbol is needed: the main arena
//! proves itself by its bins (`arenas`), the parameters by the words around them (`params`). One table has the
//! differences between releases (`release`).
//!
//! Live bytes are the sizes of blocks with their headers, as glibc's `mallinfo2` counts them.

mod arenas;
mod caches;
mod checks;
mod choose;
mod chunks;
pub(crate) mod counters;
mod fast;
mod heaps;
#[cfg(test)]
mod image;
mod links;
mod lists;
mod mappings;
mod marks;
mod memories;
mod params;
mod release;
mod structures;
#[cfg(test)]
mod tests;
mod trim;
mod version;

use arenas::{Arena, Arenas};
use checks::Walked;
use chunks::Chunks;
pub use chunks::Free;
use links::Closure;
use memories::Memories;
use structures::Structures;
pub(crate) use version::of_file as release_of_file;

use crate::known::Known;
use crate::{Forecast, Kind, Memory, State, Unknown, Walk, Walker};

/// The walker.
pub const WALKER: Walker = Walker {
    name: NAME,
    about: "x86-64, 2.27 to 2.43; static programs too",
    walk: |memory| read(memory).map(|heap| heap.map(|heap| heap.walk)),
};

/// How it is named if it was not walked. Its text is not searched, because it is in every statically linked program.
pub(super) const KNOWN: Known =
    Known { name: NAME, libraries: &["libc.so.6", "libc-2."], text: None, is_below_others: true };

const NAME: &str = "glibc";

/// A heap, with what glibc's own functions would report of it.
#[derive(Debug)]
pub struct Heap {
    /// The heap, in the form that every walker returns.
    pub walk: Walk,
    /// The free blocks of each arena, in the order of the walk's arenas, without the mmapped blocks.
    pub free: Vec<Free>,
    /// The bytes that each of these arenas has from the kernel, by its own count.
    pub system: Vec<u64>,
    /// The number of blocks that have their own pages.
    pub mmapped: u64,
    /// The bytes of these blocks.
    pub mmapped_bytes: u64,
}

/// Finds and walks the heap. `None` if there is no glibc whose malloc was used.
pub fn read(memory: &dyn Memory) -> Option<Result<Heap, Unknown>> {
    // If there are several C libraries in different name spaces, the program's is the one with the most memory.
    let system = |one: &Arenas| Arena::read(memory, one.all[0], one.bins).map_or(0, |main| main.system);
    let arenas = arenas::find(memory).into_iter().max_by_key(system)?;
    Some(read_known(memory, &arenas).map_err(|reason| Unknown { allocator: NAME, reason }))
}

/// Uses the release that the program names. A static program names none: then the release whose structures are least in
/// doubt is used.
fn read_known(memory: &dyn Memory, arenas: &Arenas) -> Result<Heap, String> {
    let minor = version::minor(memory, arenas.data.0);
    let mut reason = match minor {
        Some(minor) => format!("2.{minor}: layout unknown. Known are 2.27 to 2.43 on x86-64"),
        None => "its release is not known, and its structures are of none from 2.27 to 2.43 on x86-64".to_string(),
    };
    let mut best: Option<Structures> = None;
    for release in release::candidates(arenas.bins, minor) {
        match Structures::find(memory, arenas, release) {
            Ok(found) if best.as_ref().is_none_or(|best| found.doubt() < best.doubt()) => best = Some(found),
            Ok(_) => {}
            Err(why) if minor.is_some() => reason = format!("{}: {why}", release.name),
            Err(_) => {}
        }
    }
    let found = best.ok_or(reason)?;
    let version = minor.map_or(found.release.name.to_string(), |minor| format!("2.{minor}"));
    Ok(walk(memory, &found, version))
}

fn walk(memory: &dyn Memory, found: &Structures, version: String) -> Heap {
    let memories = Memories::find(memory, found);
    let mut chunks = Chunks::new(memory, found);
    let mut free = vec![Free::default(); found.arenas.len()];
    let mut breaks = found.caches.listed.broken + found.fast.broken + memories.breaks;
    let mut walked = vec![0; found.arenas.len()];
    for (index, arena) in found.arenas.iter().enumerate() {
        let mut links = Closure::of_bins(memory, arena.at + found.release.bins);
        let unread = chunks.sums.unread;
        for piece in &memories.pieces[index] {
            chunks.layout.region(memory.pages(), piece.from, piece.blocks.to, index as u32);
            chunks.layout.block(piece.from, piece.blocks.from - piece.from, Kind::Structure);
            walked[index] += piece.blocks.from - piece.from;
            walked[index] += chunks.walk(&piece.blocks, &mut free[index], &mut links);
        }
        // A free block that could not be read is in the bins, and was not met.
        let is_read = chunks.sums.unread == unread;
        breaks += u64::from(arena.has_memory(found.release) && is_read && !links.closes());
    }
    for &(at, bytes) in &memories.mmapped {
        own_pages(memory, &mut chunks, at, bytes, found.arenas.len() as u32);
    }
    let moved = mappings::gone(memory, &memories.mmapped, found.release);
    let after = found.params.again(memory, found.release).unwrap_or(found.params);
    let checks = checks::all(memory, found, &after, &memories, &Walked { arenas: walked, cached: chunks.sums.cached });
    let Chunks { layout, trim, sums, .. } = chunks;
    let walk = Walk {
        allocator: NAME,
        version,
        arenas: names(&found.arenas),
        live: sums.live,
        blocks: sums.blocks,
        cached: sums.cached,
        breaks: breaks + sums.breaks,
        skipped: sums.skipped,
        // The largest block with its own pages that was ever freed is the size from which blocks get their own. So the next block of this
        // size is in an arena: one that a program replaces during the walk may be counted in both places.
        moved,
        swapped: layout.regions().map(|(from, to, _)| swapped(memory, from, to)).sum(),
        unreadable: layout.regions().map(|(from, to, _)| memory.unreadable(from, to)).sum(),
        checks,
        forecasts: vec![Forecast { remedy: "malloc_trim(0)", bytes: trim.bytes, at_most: false }],
        layout,
        late: None,
    };
    Heap {
        walk,
        free,
        system: found.arenas.iter().map(|arena| arena.system).collect(),
        mmapped: memories.mmapped.len() as u64,
        mmapped_bytes: memories.mmapped_bytes,
    }
}

fn swapped(memory: &dyn Memory, from: u64, to: u64) -> u64 {
    let runs = memory.pages().within(from, to).filter(|run| run.state == State::Swapped);
    runs.map(|run| run.to - run.from).sum()
}

/// Puts a block that has its own pages on the layout.
fn own_pages(memory: &dyn Memory, chunks: &mut Chunks, at: u64, bytes: u64, arena: u32) {
    chunks.sums.live += bytes;
    chunks.sums.blocks += 1;
    chunks.layout.region(memory.pages(), at, at + bytes, arena);
    chunks.layout.block(at, bytes, Kind::Live);
    chunks.layout.list(at + 16, bytes.saturating_sub(16), 1);
}

/// The arenas in the form for reports, with the mmapped blocks as the last one.
fn names(arenas: &[Arena]) -> Vec<crate::Arena> {
    let named = arenas.iter().enumerate().map(|(index, arena)| crate::Arena {
        name: checks::name(index),
        at: arena.at,
        threads: Some(arena.threads),
    });
    named.chain([crate::Arena { name: "mmapped".into(), at: 0, threads: None }]).collect()
}
