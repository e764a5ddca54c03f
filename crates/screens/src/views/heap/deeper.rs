//! What the parts of a process's memory mean, and how to look deeper. In: a reading. Out: sentences.

use super::{bytes, percent};
use allocanary_heap::{Area, Heap, Part, PartsCertainty, Reading};

/// Parts that are a smaller share of all memory, in percent, are not explained.
const LEAST: f64 = 5.0;
/// The most holders of mappings that are named.
const HOLDERS: usize = 3;

/// A sentence for each large part that no call gives back.
pub fn deeper(reading: &Reading) -> Vec<String> {
    let divided = reading.heaps.iter().filter(|heap| heap.sure != PartsCertainty::NotKnown);
    let mut all: Vec<String> = divided.flat_map(|heap| by_part(heap, reading)).collect();
    for area in reading.areas.iter().filter(|area| percent(area.resident, reading.resident) >= LEAST) {
        if !area.tool.is_empty() {
            all.push(format!("{}, {}: its parts are shown by: {}.", area.name, bytes(area.resident), area.tool));
        }
        if let Some(largest) = area.largest.iter().max_by_key(|one| one.bytes) {
            all.push(own_mappings(reading, area, largest.bytes));
        }
    }
    all
}

/// How many mappings the program itself has made, how large they are, and what points into them.
fn own_mappings(reading: &Reading, area: &Area, largest: u64) -> String {
    let name = if reading.part_of(area) == Part::OwnMappings { Part::OwnMappings.name() } else { &area.name };
    let mappings = match area.mappings {
        1 => format!("one mapping of {}", bytes(largest)),
        count => format!("{count} mappings, the largest of {}", bytes(largest)),
    };
    let holders = area.holders();
    let held: Vec<String> =
        holders.iter().take(HOLDERS).map(|(holder, size)| format!("{} by {holder}", bytes(*size))).collect();
    let held = if held.is_empty() { String::new() } else { format!("; held: {}", held.join(", ")) };
    format!("{name}, {}: {mappings}{held}.", bytes(area.resident))
}

/// What a large part means.
fn by_part(heap: &Heap, reading: &Reading) -> impl Iterator<Item = String> {
    let (name, all, pid) = (heap.allocator.clone(), reading.resident, reading.process.pid);
    let told = move |(part, number): (Part, u64)| {
        if percent(number, all) < LEAST {
            return None;
        }
        let number = bytes(number);
        Some(match part {
            Part::Live => format!(
                "live, {number}: the program holds it; no setting of {name} changes that. `allocanary heap {pid} --contents` says \
                 what it is and who holds it, and `allocanary heap diff` what grows between two saved readings."
            ),
            Part::Cached => format!("cached by threads, {number}: fewer threads, or smaller thread caches."),
            Part::Fragmentation => format!("fragmentation, {number}: live blocks pin these pages."),
            Part::Padding => {
                format!("huge-page padding, {number}: without transparent huge pages for the heap it is not there.")
            }
            Part::LazyFree => {
                format!("lazily freed, {number}: the kernel takes it when it needs memory; until then it counts.")
            }
            Part::Metadata => format!("metadata, {number}: fewer arenas have less."),
            _ => return None,
        })
    };
    heap.parts.iter().collect::<Vec<_>>().into_iter().filter_map(told)
}
