//! A process's memory at one moment, made from the kernel's counts, the memory, and the walks. All views use this value, and it can be
//! saved to a file. Its parts add up to the resident memory.

use allocanary_process::status;
use serde::{Deserialize, Serialize};

use crate::others::{self, Area, Sight};
use crate::{
    ArenaStretch, CopyMoment, CountCheck, Mapping, MappingCount, Memory, PAGE, PageStates, Part, Parts, ProcessSubject,
    Unknown, Walk,
};
use allocanary_text::parts::in_proportion;

/// The version of saved readings. A reader refuses later versions.
pub const SCHEMA: u32 = 1;

/// About how many stretches a map has.
const STRETCHES: u64 = 1000;

/// A process's memory, divided into parts by use as far as possible. All sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The version of the reading: [`SCHEMA`].
    pub schema: u32,
    /// When it was read, in milliseconds since 1970.
    #[serde(rename = "taken_timestamp_seconds", with = "allocanary_text::seconds::millis")]
    pub taken: u64,
    /// The process.
    pub process: ProcessSubject,
    /// For how long it was stopped for the reading, in microseconds; `None` if it was not stopped.
    #[serde(
        rename = "stopped_seconds",
        with = "allocanary_text::seconds::some_micros",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub stopped: Option<u64>,
    /// The resident bytes: the sum of all heaps and areas.
    #[serde(rename = "resident_bytes")]
    pub resident: u64,
    /// The kernel's counts.
    pub kernel: KernelCounts,
    /// The heaps of `malloc`s.
    pub heaps: Vec<Heap>,
    /// The memory that is not in heaps.
    pub areas: Vec<Area>,
    /// The allocators that are in the process and have no heap in this reading, because their heaps could not be divided into parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undivided: Vec<String>,
    /// What could not be read or divided into parts, a sentence each.
    pub problems: Vec<String>,
}

/// The kernel's counts, in bytes, just after the states of the pages were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelCounts {
    /// Resident bytes.
    #[serde(rename = "resident_bytes")]
    pub resident: u64,
    /// The share of the resident bytes: of a page that N processes have, each process has one part in N. `None` if it
    /// was not read.
    #[serde(rename = "pss_bytes", default, skip_serializing_if = "Option::is_none")]
    pub share: Option<u64>,
    /// Resident bytes that have no file behind them.
    #[serde(rename = "anonymous_bytes")]
    pub anonymous: u64,
    /// Bytes that were given back lazily, and are resident until the kernel needs them. `None` if they were not read.
    #[serde(rename = "lazy_free_bytes", default, skip_serializing_if = "Option::is_none")]
    pub lazy: Option<u64>,
    /// Bytes in swap, which are not resident.
    #[serde(rename = "swap_bytes")]
    pub swapped: u64,
}

/// How certain the parts of a heap are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartsCertainty {
    /// No block was wrong, and every count is equal to the allocator's.
    Exact,
    /// The heap changed while it was read. The counts agree within the tolerance for this.
    Close,
    /// The heap is not analysed.
    NotKnown,
}

/// The heap of one `malloc`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heap {
    /// The allocator, such as `glibc`.
    pub allocator: String,
    /// The version or the layout by which it was read.
    pub version: String,
    /// How certain its parts are.
    pub sure: PartsCertainty,
    /// Resident bytes: the sum of the parts.
    #[serde(rename = "resident_bytes")]
    pub resident: u64,
    /// Its share of the resident bytes. `None` if it was not read.
    #[serde(rename = "pss_bytes", default, skip_serializing_if = "Option::is_none")]
    pub share: Option<u64>,
    /// Resident bytes by part. All of them are `unknown` if the heap is not analysed.
    #[serde(rename = "parts_bytes")]
    pub parts: Parts,
    /// Bytes of live blocks, resident or not, as the allocator's own counters count them.
    #[serde(rename = "allocated_bytes")]
    pub live: u64,
    /// The number of live blocks.
    pub blocks: u64,
    /// Its arenas that have resident memory, the largest first.
    pub arenas: Vec<ArenaParts>,
    /// A histogram: how many resident pages have no live bytes, up to a sixteenth of a page, up to two, and so on. Empty if it is not known
    /// where the live bytes lie.
    pub live_in_a_page: Vec<u64>,
    /// The bytes of a page, if they are not 4 KiB.
    #[serde(rename = "page_bytes", default = "small_page", skip_serializing_if = "is_small_page")]
    pub page: u64,
    /// The comparisons with the allocator's own counts.
    pub checks: Vec<CountCheck>,
    /// The number of places that cannot be a block.
    pub breaks: u64,
    /// The bytes that were skipped at these places, or because the sizes of the blocks there could not be read.
    #[serde(rename = "skipped_bytes")]
    pub skipped: u64,
    /// Bytes of the heap in swap, which were not read.
    #[serde(rename = "swap_bytes")]
    pub swapped: u64,
    /// Bytes of pages of the heap without the right to read, such as the guards of stacks that lie in blocks.
    #[serde(rename = "unreadable_bytes", default, skip_serializing_if = "is_none")]
    pub unreadable: u64,
    /// If it changed too fast for a walk, the copy of its structures that the figures are from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<CopyMoment>,
    /// The forecast of each remedy.
    pub remedies: Vec<RemedyForecast>,
    /// The map of its memory.
    #[serde(default, skip_serializing_if = "HeapMap::is_empty")]
    pub map: HeapMap,
}

fn small_page() -> u64 {
    PAGE
}

fn is_small_page(bytes: &u64) -> bool {
    *bytes == PAGE
}

/// For serde: leaves the field out if it is 0.
fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

/// A heap's memory in the order of its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeapMap {
    /// The bytes of addresses that one stretch covers.
    #[serde(rename = "stretch_bytes")]
    pub bytes: u64,
    /// The stretches that have resident memory.
    pub stretches: Vec<ArenaStretch>,
    /// The names of the arenas. A stretch names its arena by the index in this list.
    pub arenas: Vec<String>,
}

impl HeapMap {
    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }
}

/// An arena.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArenaParts {
    /// Its name.
    pub name: String,
    /// Its address; 0 if it has none.
    pub at: u64,
    /// Threads that allocate from it, if the allocator counts them.
    pub threads: Option<u64>,
    /// Resident bytes.
    #[serde(rename = "resident_bytes")]
    pub resident: u64,
    /// Resident bytes by part.
    #[serde(rename = "parts_bytes")]
    pub parts: Parts,
}

/// What a remedy would give back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemedyForecast {
    /// The remedy, such as `malloc_trim(0)`.
    pub name: String,
    /// Resident bytes that it would give back.
    #[serde(rename = "reclaimable_bytes")]
    pub bytes: u64,
    /// Whether `bytes` is only an upper bound.
    #[serde(rename = "bound", with = "allocanary_text::bound::at_most")]
    pub at_most: bool,
}

impl KernelCounts {
    /// Reads the counts of a process. This does not lock its address space.
    pub fn of(pid: u32) -> std::io::Result<KernelCounts> {
        let status = status(pid)?;
        Ok(KernelCounts {
            // This includes reserved huge pages, since they are in mappings too.
            resident: status.all_resident().unwrap_or(0),
            anonymous: status.anonymous.unwrap_or(0),
            swapped: status.swapped.unwrap_or(0),
            share: None,
            lazy: None,
        })
    }
}

impl Reading {
    /// Makes a reading from its parts. `taken` is in milliseconds since 1970.
    pub fn of(
        process: ProcessSubject,
        taken: u64,
        kernel: KernelCounts,
        counted: &[MappingCount],
        memory: &dyn Memory,
        walks: Vec<Result<Walk, Unknown>>,
    ) -> Reading {
        let mut claims = Claims::default();
        let (mut heaps, mut problems, mut undivided) = (Vec::new(), Vec::new(), Vec::new());
        for walk in walks {
            match walk {
                Ok(walk) => heaps.push(claims.heap(walk, counted, memory, &mut problems)),
                Err(unknown) => {
                    problems.push(unknown.to_string());
                    undivided.push(unknown.allocator.to_string());
                }
            }
        }
        heaps.retain(|heap| heap.resident > 0 || heap.live > 0);
        heaps.sort_by_key(|heap| std::cmp::Reverse(heap.resident));
        let sight = Sight { memory, executable: process.raw_file() };
        let areas = others::areas(&sight, counted, &|mapping| claims.divided(mapping, memory.pages()));
        Reading {
            schema: SCHEMA,
            taken,
            stopped: None,
            resident: heaps.iter().map(|heap| heap.resident).chain(areas.iter().map(|area| area.resident)).sum(),
            kernel: KernelCounts {
                share: counted.iter().map(|one| one.share).sum(),
                lazy: counted.iter().map(|one| one.lazy).sum(),
                ..kernel
            },
            process,
            heaps,
            areas,
            undivided,
            problems,
        }
    }

    /// The allocators of the process, and whether the heap of each is divided into parts.
    pub fn allocators(&self) -> impl Iterator<Item = (&str, bool)> {
        let heaps = self.heaps.iter().map(|heap| (heap.allocator.as_str(), heap.sure != PartsCertainty::NotKnown));
        heaps.chain(self.undivided.iter().map(|name| (name.as_str(), false)))
    }

    /// The resident bytes of all heaps by part.
    pub fn of_heaps(&self) -> Parts {
        let mut sum = Parts::default();
        self.heaps.iter().for_each(|heap| sum += heap.parts);
        sum
    }

    /// All resident bytes by part.
    pub fn parts(&self) -> Parts {
        let mut sum = self.of_heaps();
        self.areas.iter().for_each(|area| sum.add(self.part_of(area), area.resident));
        sum
    }

    /// The part that an area's bytes belong to. Memory of an unknown kind belongs to the program's own mappings, if all heaps of the
    /// process were found and divided into parts.
    pub fn part_of(&self, area: &Area) -> Part {
        let is_complete = self.is_divided() && self.problems.is_empty();
        let of_nobody = if is_complete { Part::OwnMappings } else { Part::Unknown };
        area.sort.part().unwrap_or(of_nobody)
    }

    /// Whether every heap that was found is divided into parts.
    pub fn is_divided(&self) -> bool {
        !self.heaps.is_empty() && self.heaps.iter().all(|heap| heap.sure != PartsCertainty::NotKnown)
    }
}

/// The addresses that belong to heaps, so that no page is counted twice.
#[derive(Default)]
struct Claims(Vec<(u64, u64)>);

impl Claims {
    /// The resident bytes of a mapping that belong to heaps.
    fn divided(&self, mapping: &Mapping, pages: &PageStates) -> u64 {
        let first = self.0.partition_point(|(_, to)| *to <= mapping.from);
        let within = self.0[first..].iter().take_while(|(from, _)| *from < mapping.to);
        within.map(|(from, to)| pages.resident((*from).max(mapping.from), (*to).min(mapping.to))).sum()
    }

    /// Makes a heap from its walk. If it overlaps another heap, one of the two walks is wrong, and this heap gets no
    /// memory.
    fn heap(&mut self, walk: Walk, counted: &[MappingCount], memory: &dyn Memory, problems: &mut Vec<String>) -> Heap {
        let pages = memory.pages();
        let arenas = walk.layout.parts(pages, walk.arenas.len() as u32);
        let regions: Vec<(u64, u64)> = walk.layout.regions().map(|(from, to, _)| (from, to)).collect();
        let of_another = |(from, to): &(u64, u64)| {
            let mapping = Mapping { from: *from, to: *to, ..Mapping::default() };
            self.divided(&mapping, pages)
        };
        let overlap: u64 = regions.iter().map(of_another).sum();
        let resident: u64 = arenas.iter().map(Parts::sum).sum();
        let trust = match overlap {
            0 => walk.trust(resident),
            bytes => Err(format!("{bytes} bytes of it are another heap's as well")),
        };
        let own = Claims(regions);
        let of_it = |of: fn(&MappingCount) -> Option<u64>| -> Option<u64> {
            let part = |one: &MappingCount| {
                // If the program has removed rights from pages of the heap, these are separate mappings.
                let bytes = own.divided(&one.mapping, pages);
                let is_its = bytes > 0 || one.mapping.writable && !one.mapping.shared;
                is_its.then(|| Some(in_proportion(of(one)?, bytes, one.resident.max(bytes))))
            };
            counted.iter().filter_map(part).sum()
        };
        let (share, lazy) = (of_it(|one| one.share), of_it(|one| one.lazy).unwrap_or(0));
        let mut heap = Heap {
            allocator: walk.name(),
            version: walk.version.clone(),
            sure: PartsCertainty::Close,
            resident: if overlap > 0 { 0 } else { resident },
            share: share.map(|share| if overlap > 0 { 0 } else { share }),
            parts: Parts::default(),
            live: walk.live,
            blocks: walk.blocks,
            arenas: Vec::new(),
            live_in_a_page: Vec::new(),
            page: memory.machine().page,
            checks: walk.checks.clone(),
            breaks: walk.breaks,
            skipped: walk.skipped,
            swapped: walk.swapped,
            unreadable: walk.unreadable,
            copied: walk.copied,
            remedies: Vec::new(),
            map: HeapMap::default(),
        };
        if overlap == 0 {
            self.0.extend(own.0);
            self.0.sort_unstable();
        }
        if let Err(reason) = trust {
            problems.push(format!("{} {}: heap not analysed: {reason}", walk.name(), walk.version));
            heap.parts.add(Part::Unknown, heap.resident);
            heap.sure = PartsCertainty::NotKnown;
            return heap;
        }
        if (walk.breaks, walk.skipped, walk.moved, walk.copied) == (0, 0, 0, None)
            && walk.checks.iter().all(|check| check.wanted == check.found)
        {
            heap.sure = PartsCertainty::Exact;
        }
        heap.divide(&walk, arenas, lazy, memory);
        heap
    }
}

impl Heap {
    /// Fills in the fields that need a walk of the heap.
    fn divide(&mut self, walk: &Walk, mut arenas: Vec<Parts>, lazy: u64, memory: &dyn Memory) {
        let pages = memory.pages();
        // The kernel counts lazily freed pages only for each mapping. They are whole pages, so they are among the kept
        // ones.
        let kept: u64 = arenas.iter().map(|parts| parts.of(Part::FreePages)).sum();
        for parts in &mut arenas {
            parts.pass(Part::FreePages, Part::LazyFree, in_proportion(lazy.min(kept), parts.of(Part::FreePages), kept));
            self.parts += *parts;
        }
        let named = walk.arenas.iter().zip(arenas).map(|(arena, parts)| ArenaParts {
            name: arena.name.clone(),
            at: arena.at,
            threads: arena.threads,
            resident: parts.sum(),
            parts,
        });
        self.arenas = named.filter(|arena| arena.resident > 0).collect();
        self.arenas.sort_by_key(|arena| std::cmp::Reverse(arena.resident));
        self.live_in_a_page = walk.layout.live_in_a_page(pages).map_or_else(Vec::new, Vec::from);
        let forecast =
            |one: &crate::Forecast| RemedyForecast { name: one.remedy.into(), bytes: one.bytes, at_most: one.at_most };
        self.remedies = walk.forecasts.iter().map(forecast).collect();
        let bytes = (self.resident / STRETCHES).max(memory.machine().page).next_power_of_two();
        self.map = HeapMap {
            bytes,
            stretches: walk.layout.stretches(pages, bytes),
            arenas: walk.arenas.iter().map(|arena| arena.name.clone()).collect(),
        };
    }
}

#[cfg(test)]
mod tests;
