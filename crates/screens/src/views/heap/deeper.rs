//! What the parts of a process's memory mean, and how to look deeper. In: a reading. Out: sentences.

use super::{bytes, percent};
use allocanary_heap::{Heap, Part, PartsCertainty, Reading};

/// Parts below this share of all, in percent, are not explained.
const LEAST: f64 = 5.0;

/// A sentence for each large part that no call gives back.
pub fn deeper(reading: &Reading) -> Vec<String> {
    let divided = reading.heaps.iter().filter(|heap| heap.sure != PartsCertainty::NotKnown);
    let mut all: Vec<String> = divided.flat_map(|heap| by_part(heap, reading)).collect();
    for area in reading.areas.iter().filter(|area| percent(area.resident, reading.resident) >= LEAST) {
        if !area.tool.is_empty() {
            all.push(format!("{}, {}: divided further by: {}.", area.name, bytes(area.resident), area.tool));
        }
    }
    all
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
