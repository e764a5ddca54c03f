//! What to do about a process's memory. In: a reading, and what the diagnosis advises. Out: sentences with a forecast each, and
//! lines to paste.

use super::{bytes, percent};
use allocanary_heap::{Heap, Part, Reading, Sure};

/// What the diagnosis advises for an allocator.
#[derive(Clone, Debug, Default)]
pub struct Paste {
    /// The allocator: `jemalloc`.
    pub allocator: String,
    /// The reasons, one sentence each.
    pub reasons: Vec<String>,
    /// The lines to paste.
    pub lines: Vec<String>,
}

/// A sentence and its lines.
pub struct Remedy {
    /// What to do, and what it gives.
    pub text: String,
    /// Lines to paste.
    pub lines: Vec<String>,
}

/// Parts below this share of all, in percent, need no remedy.
const LEAST: f64 = 5.0;

/// All that can be said, the remedies with a forecast first.
pub fn remedies(reading: &Reading, paste: &[Paste]) -> Vec<Remedy> {
    let plain = |text: String| Remedy { text, lines: Vec::new() };
    let mut all = Vec::new();
    for heap in reading.heaps.iter().filter(|heap| heap.sure != Sure::NotKnown) {
        for remedy in heap.remedies.iter().filter(|remedy| remedy.bytes > 0) {
            let at_most = if remedy.at_most { "at most " } else { "" };
            let text =
                format!("`{}` would give back {at_most}{}{}", remedy.name, bytes(remedy.bytes), how(&remedy.name));
            all.push(match percent(remedy.bytes, reading.resident) >= LEAST {
                true => {
                    let line = format!("allocanary give-back {}", reading.process.pid);
                    Remedy { text: format!("{text}. From outside, without a restart:"), lines: vec![line] }
                }
                false => plain(format!("{text}.")),
            });
        }
        all.extend(by_part(heap, reading.resident).map(plain));
    }
    for area in reading.areas.iter().filter(|area| percent(area.resident, reading.resident) >= LEAST) {
        if !area.tool.is_empty() {
            all.push(plain(format!("{}, {}: divided further by: {}.", area.name, bytes(area.resident), area.tool)));
        }
    }
    for one in paste {
        let reasons = one.reasons.join("; ");
        let text =
            format!("{}: {reasons}. Not forecast: `allocanary run` measures it. In the environment:", one.allocator);
        all.push(Remedy { text, lines: one.lines.clone() });
    }
    all
}

/// How a remedy is applied.
fn how(remedy: &str) -> &'static str {
    match remedy.split(['(', '.']).next() {
        Some("malloc_trim") => ", once: the program calls it when it is idle",
        Some("arena") => ", once: the program calls `mallctl` when it is idle; shorter decay times do it by themselves",
        Some("mi_collect") => ", once: each thread calls it when it is idle",
        _ => "",
    }
}

/// What helps against a large part that no remedy gives back.
fn by_part(heap: &Heap, all: u64) -> impl Iterator<Item = String> {
    let name = heap.allocator.clone();
    let told = move |(part, number): (Part, u64)| {
        if percent(number, all) < LEAST {
            return None;
        }
        let number = bytes(number);
        Some(match part {
            Part::Live => format!(
                "live, {number}: the program holds it; no setting of {name} changes that. `allocanary record` shows sizes and \
                 lifetimes, and two saved readings show what grows: `allocanary heap diff`."
            ),
            Part::Cached => format!("cached by threads, {number}: fewer threads, or smaller thread caches."),
            Part::Free => format!(
                "fragmentation, {number}: live blocks pin these pages. Fewer arenas or another allocator may need less: \
                 `allocanary record` and `replay` compare them."
            ),
            Part::Padding => {
                format!("huge-page padding, {number}: without transparent huge pages for the heap it is not there.")
            }
            Part::Lazy => {
                format!("lazily freed, {number}: the kernel takes it when it needs memory; until then it counts.")
            }
            Part::Structures => format!("structures, {number}: fewer arenas have fewer."),
            Part::Kept | Part::Unknown => return None,
        })
    };
    heap.parts.iter().collect::<Vec<_>>().into_iter().filter_map(told)
}
