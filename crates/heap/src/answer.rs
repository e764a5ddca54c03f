//! The answer in a sentence. In: a reading. Out: how much is resident, what most of it is, and what would give a part
//! of it back.

use allocanary_text::units::{Bytes, Unit};

use crate::rows::rows;
use crate::{Heap, Part, PartsCertainty, Reading};

/// A part has its own clause if it has at least one part in this many of the resident bytes.
const LEAST: u64 = 25;
/// The most clauses of a sentence.
const MOST: usize = 6;
/// The maximum number of differing counts that the sentence names.
const CHECKS: usize = 4;

/// The sentence: `1.9 GiB resident: 0.4 live, 1.3 free pages that glibc keeps in 64 arenas: ...`
pub fn answer(reading: &Reading) -> String {
    let unit = Scale::of(reading.resident);
    let mut rows = rows(reading);
    rows.retain(|row| row.resident.saturating_mul(LEAST) >= reading.resident && unit.has(row.resident));
    rows.sort_by_key(|row| (row.part != Part::Live, std::cmp::Reverse(row.resident)));
    rows.truncate(MOST);
    let heap = |name: &Option<String>| reading.heaps.iter().find(|heap| Some(&heap.allocator) == name.as_ref());
    let several = reading.heaps.len() > 1;
    let mut text = format!("{} {} resident", unit.number(reading.resident), unit.name);
    let mut separator = ": ";
    let mut told = 0;
    for row in &rows {
        let clause = match heap(&row.allocator) {
            Some(heap) => of_part(row.part, heap, several, &unit),
            None if row.part == Part::Unknown && !reading.undivided.is_empty() => {
                format!("{}: {} is in the process, not divided", row.name, reading.undivided.join(" and "))
            }
            None => row.name.clone(),
        };
        text.push_str(&format!("{separator}{} {clause}", unit.number(row.resident)));
        separator = if clause.contains(": ") { "; " } else { ", " };
        told += row.resident;
    }
    let rest = reading.resident.saturating_sub(told);
    if unit.has(rest) && !rows.is_empty() {
        text.push_str(&format!("{separator}{} rest", unit.number(rest)));
    }
    text
}

/// The clause for a part of a heap.
fn of_part(part: Part, heap: &Heap, several: bool, unit: &Scale) -> String {
    let name = &heap.allocator;
    let of_it = if several { format!(" ({name})") } else { String::new() };
    match part {
        Part::Live => format!("live{of_it}"),
        Part::FreePages => {
            let count = heap.arenas.iter().filter(|arena| arena.parts.of(Part::FreePages) > 0).count();
            let arenas = if count == 1 { "one arena".to_string() } else { format!("{count} arenas") };
            format!("free pages that {name} keeps in {arenas}{}", would_give(heap, unit))
        }
        Part::Fragmentation => format!("fragmentation{of_it}"),
        Part::Unknown if heap.sure == PartsCertainty::NotKnown => format!("heap of {name}, not divided"),
        part => format!("{}{of_it}", part.name()),
    }
}

/// The text `: malloc_trim(0) would give back 1.1`.
fn would_give(heap: &Heap, unit: &Scale) -> String {
    let Some(best) = heap.remedies.iter().filter(|remedy| remedy.bytes > 0).max_by_key(|remedy| remedy.bytes) else {
        return String::new();
    };
    let at_most = if best.at_most { "at most " } else { "" };
    let bytes = match unit.has(best.bytes) {
        true => unit.number(best.bytes),
        false => Bytes(best.bytes).to_string(),
    };
    format!(": `{}` would give back {at_most}{bytes}", best.name)
}

/// One unit for all numbers of a sentence, so that they can be added up.
struct Scale {
    name: &'static str,
    shift: u32,
}

impl Scale {
    fn of(most: u64) -> Scale {
        let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let (name, shift) = units.into_iter().find(|(_, shift)| most >> shift > 0).unwrap_or(("B", 0));
        Scale { name, shift }
    }

    /// Whether this is at least a twentieth of the unit, which rounds to 0.1.
    fn has(&self, bytes: u64) -> bool {
        bytes.saturating_mul(20) >= 1 << self.shift
    }

    fn number(&self, bytes: u64) -> String {
        format!("{:.1}", bytes as f64 / (1_u64 << self.shift) as f64)
    }
}

/// How reliable the division of a heap is, in a sentence.
pub fn how_sure(heap: &Heap) -> String {
    let equal = heap.checks.iter().filter(|check| check.wanted == check.found).count();
    let counts = match (equal, heap.checks.len()) {
        (_, 0) => "the allocator has no counts to compare with".to_string(),
        (equal, all) if equal == all => format!("all of {all} counts agree with the allocator's own"),
        (equal, all) => format!("{equal} of {all} counts agree with the allocator's own"),
    };
    let others: Vec<String> = heap
        .checks
        .iter()
        .filter(|check| check.wanted != check.found)
        .take(CHECKS)
        .map(|check| format!("; {} {}, and the allocator counts {}", check.what, check.found, check.wanted))
        .collect();
    let broken = match (heap.breaks, heap.skipped) {
        (0, 0) => "no block was wrong".to_string(),
        (0, skipped) => {
            format!("no block was wrong; {} could not be read, and what is there is not known", Bytes(skipped))
        }
        (count, skipped) => format!(
            "it changed while it was read: in {} places a block was wrong, and {} were skipped",
            Unit::Count.show(count as f64),
            Bytes(skipped)
        ),
    };
    let closed = match heap.unreadable {
        0 => String::new(),
        bytes => format!("; the program itself may not read {} of it (guards of stacks, or mprotect)", Bytes(bytes)),
    };
    let sure = match heap.sure {
        PartsCertainty::Exact => "exact",
        PartsCertainty::Close => "close",
        PartsCertainty::NotKnown => "not divided",
    };
    format!("heap of {} {}: {sure}. {broken}{closed}; {counts}{}", heap.allocator, heap.version, others.concat())
}
