//! glibc's malloc, on x86-64. In: the memory of a process. Out: its heap. Nothing needs a symbol: the main arena proves itself by its bins
//! (`arenas`), the parameters by their neighbours (`params`), and one table has what differs between releases (`release`).
//!
//! Live bytes are the sizes of blocks with their headers, as glibc's `mallinfo2` counts them.

mod arenas;
mod caches;
mod checks;
mod chunks;
mod fast;
mod heaps;
#[cfg(test)]
mod image;
mod links;
mod lists;
mod mappings;
mod marks;
mod params;
mod release;
#[cfg(test)]
mod tests;
mod trim;
mod version;

use arenas::{Arena, Arenas};
use chunks::Chunks;
pub use chunks::Free;
use heaps::Piece;
use links::Closure;
use lists::Listed;
use mappings::Wanted;
use params::Params;
use release::Release;

use crate::{Forecast, Kind, Memory, State, Unknown, Walk, Walker};

/// The walker.
pub const WALKER: Walker = Walker {
    name: NAME,
    about: "x86-64, 2.27 to 2.43; run on 2.31, 2.36, 2.41 and 2.43; static programs too",
    walk: |memory| read(memory).map(|heap| heap.map(|heap| heap.walk)),
};

const NAME: &str = "glibc";
/// An mmapped block larger than this has only its resident pages on the layout, since much of it can be untouched.
const LARGE: u64 = 64 << 20;

/// A heap, with what glibc's own functions would report of it.
#[derive(Debug)]
pub struct Heap {
    /// The heap, as every walker returns it.
    pub walk: Walk,
    /// The free blocks of each arena, in the order of the walk's arenas, without the mmapped blocks.
    pub free: Vec<Free>,
    /// Bytes that each of these arenas has from the kernel, by its own count.
    pub system: Vec<u64>,
    /// Blocks that have their own pages.
    pub mmapped: u64,
    /// Bytes of them.
    pub mmapped_bytes: u64,
}

/// Finds and walks the heap. `None` if there is no glibc whose malloc was used.
pub fn read(memory: &dyn Memory) -> Option<Result<Heap, Unknown>> {
    // Of several C libraries in name spaces of their own, the program's is the one with the most memory.
    let system = |one: &Arenas| Arena::read(memory, one.all[0], one.bins).map_or(0, |main| main.system);
    let arenas = arenas::find(memory).into_iter().max_by_key(system)?;
    Some(read_known(memory, &arenas).map_err(|reason| Unknown { allocator: NAME, reason }))
}

fn read_known(memory: &dyn Memory, arenas: &Arenas) -> Result<Heap, String> {
    let minor = version::minor(memory, arenas.data.0);
    let mut best: Result<Heap, String> = Err(match minor {
        Some(minor) => format!("2.{minor}: layout unknown. Known are 2.27 to 2.43 on x86-64"),
        None => "its release is not known, and its structures are of none from 2.27 to 2.43 on x86-64".to_string(),
    });
    // A static program does not tell its release. The one by which most checks close is taken.
    for release in release::candidates(arenas.bins, minor) {
        let version = minor.map_or(release.name.to_string(), |minor| format!("2.{minor}"));
        match (read_as(memory, arenas, release, version), &best) {
            (Ok(heap), Ok(other)) if heap.walk.doubt() >= other.walk.doubt() => {}
            (Ok(heap), _) => best = Ok(heap),
            (Err(reason), Err(_)) if minor.is_some() => best = Err(reason),
            (Err(_), _) => {}
        }
        if best.as_ref().is_ok_and(|heap| heap.walk.doubt() == (0, 0, 0)) {
            break;
        }
    }
    best
}

fn read_as(memory: &dyn Memory, found: &Arenas, release: &Release, version: String) -> Result<Heap, String> {
    let params = Params::find(memory, found.data, release)
        .ok_or_else(|| format!("{version}: the parameters (mp_) were not found near the main arena"))?;
    let states = |at: &u64| Arena::read(memory, *at, release.bins);
    let arenas: Vec<Arena> = found.all.iter().filter_map(states).collect();
    if arenas.len() != found.all.len() {
        return Err(format!("{version}: an arena could not be read: the process changes or has ended"));
    }
    let caches = caches::find(memory, release);
    let mut fast = Listed::default();
    arenas.iter().for_each(|arena| fast::find(memory, arena.at, release, &mut fast));

    // The pieces of each arena, and then what lies between them.
    let mut pieces: Vec<Vec<Piece>> = vec![Vec::new(); arenas.len()];
    let mut breaks = caches.listed.broken + fast.broken;
    for (index, arena) in arenas.iter().enumerate().skip(1) {
        match heaps::of_thread(memory, arena, index as u32, release) {
            Some(heaps) => pieces[index] = heaps,
            None => breaks += 1,
        }
    }
    let main = &arenas[0];
    let unused = main.top == main.at + release.bins - 16 || main.top == 0;
    if main.contiguous && !unused {
        match heaps::of_main(memory, main, params.base) {
            Some(piece) => pieces[0].push(piece),
            None => breaks += 1,
        }
    }
    let mut taken: Vec<_> = pieces.iter().flatten().map(|piece| (piece.from, piece.blocks.to)).collect();
    taken.sort_unstable();
    let wanted = Wanted {
        release,
        mmapped: params.mmapped,
        mmapped_bytes: params.mmapped_bytes,
        main: Some(main).filter(|main| !main.contiguous && !unused),
        base: params.base,
    };
    let mut between = mappings::find(memory, wanted, &taken);
    pieces[0].append(&mut between.pieces);

    let mut chunks = Chunks::new(memory, &caches, &fast);
    let mut free = vec![Free::default(); arenas.len()];
    for (index, arena) in arenas.iter().enumerate() {
        let mut links = Closure::of_bins(memory, arena.at + release.bins);
        for piece in &pieces[index] {
            chunks.layout.region(piece.from, piece.blocks.to, index as u32);
            chunks.layout.block(piece.from, piece.blocks.from - piece.from, Kind::Structure);
            chunks.walk(&piece.blocks, &mut free[index], &mut links);
        }
        breaks += u64::from(!unused && !links.closes());
    }
    for &(at, bytes) in &between.mmapped {
        own_pages(memory, &mut chunks, at, bytes, arenas.len() as u32);
    }

    let swapped = |(from, to, _)| {
        let runs = memory.pages().within(from, to).filter(|run| run.state == State::Swapped);
        runs.map(|run| run.to - run.from).sum::<u64>()
    };
    let mut checks = checks::of_arenas(memory, &arenas, release, &pieces);
    checks.extend(checks::of_mmapped(memory, release, &params, &arenas, &between));
    checks.extend(checks::of_caches(&caches, chunks.sums.cached, &arenas));
    let sums = chunks.sums;
    let walk = Walk {
        allocator: NAME,
        version,
        arenas: names(&arenas),
        live: sums.live,
        blocks: sums.blocks,
        cached: sums.cached,
        breaks: breaks + sums.breaks,
        skipped: sums.skipped,
        swapped: chunks.layout.regions().map(swapped).sum(),
        checks,
        forecasts: vec![Forecast { remedy: "malloc_trim(0)", bytes: chunks.trim.bytes, at_most: false }],
        layout: chunks.layout,
    };
    Ok(Heap {
        walk,
        free,
        system: arenas.iter().map(|arena| arena.system).collect(),
        mmapped: between.mmapped.len() as u64,
        mmapped_bytes: between.mmapped_bytes,
    })
}

/// Puts a block that has its own pages on the layout.
fn own_pages(memory: &dyn Memory, chunks: &mut Chunks, at: u64, bytes: u64, arena: u32) {
    chunks.sums.live += bytes;
    chunks.sums.blocks += 1;
    let mut put = |from: u64, to: u64| {
        chunks.layout.region(from, to, arena);
        chunks.layout.block(from, to - from, Kind::Live);
    };
    if bytes <= LARGE {
        put(at, at + bytes);
    } else {
        memory.pages().within(at, at + bytes).for_each(|run| put(run.from, run.to));
    }
}

/// The arenas as reports have them, with the mmapped blocks as the last one.
fn names(arenas: &[Arena]) -> Vec<crate::Arena> {
    let named = arenas.iter().enumerate().map(|(index, arena)| crate::Arena {
        name: checks::name(index),
        at: arena.at,
        threads: Some(arena.threads),
    });
    named.chain([crate::Arena { name: "mmapped".into(), at: 0, threads: None }]).collect()
}
