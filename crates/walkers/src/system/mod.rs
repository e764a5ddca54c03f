//! Walks glibc's malloc. In: the memory of a process. Out: its heap. No symbol is needed: the main arena
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
mod divide;
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
mod share;
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

use crate::known::AllocatorMark;
use crate::{BlockKind, Forecast, Memory, PageState, Unknown, Walk, Walker};

/// The walker.
pub const WALKER: Walker = Walker {
    name: NAME,
    about: "2.27 to 2.43; static programs too",
    walk: |memory| read_all(memory).into_iter().map(|heap| heap.map(|heap| heap.walk)).collect(),
    by_copy: None,
};

/// How glibc's malloc is recognised if its heap was not walked. There is no text to search for, because every statically linked program
/// contains glibc's texts.
pub(super) const KNOWN: AllocatorMark =
    AllocatorMark { name: NAME, libraries: &["libc.so.6", "libc-2."], text: None, is_below_others: true };

const NAME: &str = "glibc";

/// A heap, with the figures that glibc's own functions would report of it.
#[derive(Debug)]
pub struct GlibcHeap {
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

/// Finds and walks the program's own heap. `None` if there is no glibc whose malloc was used.
pub fn read(memory: &dyn Memory) -> Option<Result<GlibcHeap, Unknown>> {
    read_all(memory).into_iter().next()
}

/// The number of name spaces in glibc's loader (`DL_NNS`). If more places look like a C library, only this many are read.
const MOST_LIBRARIES: usize = 16;

/// Finds and walks the heap of every C library of the process, the program's own first. The others are in other name spaces.
pub fn read_all(memory: &dyn Memory) -> Vec<Result<GlibcHeap, Unknown>> {
    let arenas = arenas::find(memory);
    let has_memory = |one: &Arenas| Arena::read(memory, one.all[0], one.bins).is_some_and(|main| main.system > 0);
    // Other memory may look like an arena, but such an arena has no memory.
    let is_one = |one: &Arenas, found: &Result<_, String>| found.is_ok() || arenas.len() == 1 || has_memory(one);
    let known = arenas.iter().map(|one| (one, known(memory, one))).filter(|(one, found)| is_one(one, found));
    let mut known: Vec<_> = known.map(|(_, found)| found).collect();
    // Only the program's own malloc begins in the data segment, even if the segment could not grow later.
    let has_begin = |found: &Structures| memory.mapping(found.params.base).is_some_and(|one| one.name == "[heap]");
    known.sort_by_key(|one| !one.as_ref().is_ok_and(|(found, _)| has_begin(found)));
    known.truncate(MOST_LIBRARIES);
    let structures: Vec<_> = known.iter().map(|one| one.as_ref().ok().map(|(found, _)| found)).collect();
    let memories = divide::divide(memory, &structures);
    let several = known.len() > 1;
    let heap = |(index, (known, memories)): (usize, (Result<_, String>, Option<Memories>))| {
        let (mut found, version): (Structures, String) = match known {
            Ok(found) => found,
            Err(reason) => return Some(Err(Unknown { allocator: NAME, reason })),
        };
        let memories = memories?;
        if several {
            found.caches = caches::find(memory, found.release, &|at| memories.has(at));
        }
        // A C library of another name space that nobody uses has no heap.
        let is_used = index == 0 || memories.ranges().next().is_some() || found.system() > 0;
        is_used.then(|| Ok(walk(memory, &found, &memories, version, index as u32 + 1)))
    };
    known.into_iter().zip(memories).enumerate().filter_map(heap).collect()
}

/// Reads the structures by the layout of the release that the program names. A static program names none. Then the release is used that
/// causes the least doubt about its structures. Returns the structures and the version.
fn known(memory: &dyn Memory, arenas: &Arenas) -> Result<(Structures, String), String> {
    let minor = version::minor(memory, arenas.data.0);
    let mut reason = match minor {
        Some(minor) => format!("2.{minor}: layout unknown. Known are 2.27 to 2.43"),
        None => "its release is not known, and its structures are of none from 2.27 to 2.43".to_string(),
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
    Ok((found, version))
}

fn walk(memory: &dyn Memory, found: &Structures, memories: &Memories, version: String, copy: u32) -> GlibcHeap {
    let mut chunks = Chunks::new(memory, found);
    let mut free = vec![Free::default(); found.arenas.len()];
    let mut breaks = found.caches.listed.broken + found.fast.broken + memories.breaks;
    let mut walked = vec![0; found.arenas.len()];
    for (index, arena) in found.arenas.iter().enumerate() {
        let mut links = Closure::of_bins(memory, arena.at + found.release.bins);
        let unread = chunks.sums.unread;
        for piece in &memories.pieces[index] {
            chunks.layout.region(memory.pages(), piece.from, piece.blocks.to, index as u32);
            chunks.layout.block(piece.from, piece.blocks.from - piece.from, BlockKind::Structure);
            walked[index] += piece.blocks.from - piece.from;
            walked[index] += chunks.walk(&piece.blocks, &mut free[index], &mut links);
        }
        // If blocks could not be read, the walk may have missed free blocks that are in the bins. So the links are not compared then.
        let is_read = chunks.sums.unread == unread;
        breaks += u64::from(arena.has_memory(found.release) && is_read && !links.closes());
    }
    for &(at, bytes) in &memories.mmapped {
        own_pages(memory, &mut chunks, at, bytes, found.arenas.len() as u32);
    }
    let moved = mappings::gone(memory, &memories.mmapped, found.release);
    let after = found.params.again(memory, found.release).unwrap_or(found.params);
    let checks = checks::all(memory, found, &after, memories, &Walked { arenas: walked, cached: chunks.sums.cached });
    let Chunks { layout, trim, sums, .. } = chunks;
    let trim = Forecast { remedy: "malloc_trim(0)", bytes: trim.bytes, at_most: false };
    let walk = Walk {
        allocator: NAME,
        copy,
        version,
        arenas: names(&found.arenas),
        live: sums.live,
        blocks: sums.blocks,
        cached: sums.cached,
        breaks: breaks + sums.breaks,
        skipped: sums.skipped,
        // A block that the program replaces during the walk may be counted in two places. When a block with its own pages is freed, glibc
        // raises the size from which blocks get their own pages to the size of this block. So the next block of this size is in an arena.
        moved,
        swapped: layout.regions().map(|(from, to, _)| swapped(memory, from, to)).sum(),
        unreadable: layout.regions().map(|(from, to, _)| memory.unreadable(from, to)).sum(),
        checks,
        // A call by name reaches only the program's own `malloc_trim`.
        forecasts: if copy == 1 { vec![trim] } else { Vec::new() },
        layout,
        copied: None,
        late: None,
    };
    GlibcHeap {
        walk,
        free,
        system: found.arenas.iter().map(|arena| arena.system).collect(),
        mmapped: memories.mmapped.len() as u64,
        mmapped_bytes: memories.mmapped_bytes,
    }
}

fn swapped(memory: &dyn Memory, from: u64, to: u64) -> u64 {
    let runs = memory.pages().within(from, to).filter(|run| run.state == PageState::Swapped);
    runs.map(|run| run.to - run.from).sum()
}

/// Puts a block that has its own pages on the layout.
fn own_pages(memory: &dyn Memory, chunks: &mut Chunks, at: u64, bytes: u64, arena: u32) {
    chunks.sums.live += bytes;
    chunks.sums.blocks += 1;
    chunks.layout.region(memory.pages(), at, at + bytes, arena);
    chunks.layout.block(at, bytes, BlockKind::Live);
    chunks.layout.list(at + 16, bytes.saturating_sub(16), 1);
}

/// The arenas in the form for reports, with the mmapped blocks as the last one.
fn names(arenas: &[Arena]) -> Vec<crate::HeapArena> {
    let named = arenas.iter().enumerate().map(|(index, arena)| crate::HeapArena {
        name: checks::name(index),
        at: arena.at,
        threads: Some(arena.threads),
    });
    named.chain([crate::HeapArena { name: "mmapped".into(), at: 0, threads: None }]).collect()
}
