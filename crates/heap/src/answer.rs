//! Writes a reading as one sentence: how much is resident, and which parts are most of it. What can be given back is for the crate `doctor`
//! to say.

use std::time::Duration;

use allocanary_text::units::{Bytes, OneDecimal, OneUnit, Unit, show_duration};

use crate::rows::{PartRow, rows};
use crate::{CopyMoment, Heap, Part, PartsCertainty, Reading};

/// A part has its own clause if it has at least 1 / `LEAST` of the resident bytes.
const LEAST: u64 = 25;
/// The most clauses of a sentence.
const MOST: usize = 6;
/// The most names of parts that the sentence lists for the rest.
const NAMED: usize = 3;
/// If one part has at least this many percent of the resident bytes, the sentence says "nearly all".
const NEARLY_ALL: u64 = 98;
/// The maximum number of differing counts that the sentence names.
const CHECKS: usize = 4;

/// The sentence, without its period: `65.9 MiB resident: 43.7 MiB free pages, 16.3 MiB fragmentation, 4.5 MiB live, 1.4 MiB rest (program)`.
pub fn answer(reading: &Reading) -> String {
    let scale = OneUnit::of(reading.resident);
    let size = |tenths: u64| scale.text(tenths);
    let all = scale.tenths(reading.resident);
    let mut rows = joined(reading);
    rows.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let text = format!("{} resident", size(all));
    let is_shown =
        |(_, bytes): &&(String, u64)| bytes.saturating_mul(LEAST) >= reading.resident && scale.tenths(*bytes) > 0;
    let shown: Vec<&(String, u64)> = rows.iter().take_while(is_shown).take(MOST).collect();
    match shown.as_slice() {
        [] => return text,
        [(name, bytes), ..] if u128::from(*bytes) * 100 >= u128::from(reading.resident) * u128::from(NEARLY_ALL) => {
            return format!("{text}, nearly all {name}");
        }
        _ => {}
    }
    let mut tenths: Vec<u64> = shown.iter().map(|(_, bytes)| scale.tenths(*bytes)).collect();
    // The rest is computed from the shown numbers, so that the sentence adds up. If their sum is too high by rounding, those that were
    // rounded up most become smaller.
    let mut told: u64 = tenths.iter().sum();
    while told > all {
        let rounded = |at: &usize| i128::from(scale.bytes(tenths[*at])) - i128::from(shown[*at].1);
        let Some(most) = (0..tenths.len()).filter(|at| tenths[*at] > 0).max_by_key(rounded) else { break };
        tenths[most] -= 1;
        told -= 1;
    }
    let mut clauses: Vec<String> =
        shown.iter().zip(tenths).map(|((name, _), tenths)| format!("{} {name}", size(tenths))).collect();
    if let rest @ 1.. = all.saturating_sub(told) {
        let left: Vec<&str> = rows[shown.len()..].iter().take(NAMED).map(|(name, _)| name.as_str()).collect();
        let names = if left.is_empty() { String::new() } else { format!(" ({})", left.join(", ")) };
        clauses.push(format!("{} rest{names}", size(rest)));
    }
    format!("{text}: {}", clauses.join(", "))
}

/// The parts with their names. Parts with the same name are added up.
fn joined(reading: &Reading) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = Vec::new();
    for row in rows(reading) {
        let name = clause(reading, &row);
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, bytes)) => *bytes += row.resident,
            None => all.push((name, row.resident)),
        }
    }
    all
}

/// The name of a part. It includes the allocator if there are several heaps.
fn clause(reading: &Reading, row: &PartRow) -> String {
    let heap = reading.heaps.iter().find(|heap| Some(&heap.allocator) == row.allocator.as_ref());
    match heap {
        Some(heap) if row.part == Part::Unknown && heap.sure == PartsCertainty::NotKnown => {
            format!("heap of {}, not analysed", heap.allocator)
        }
        Some(heap) => {
            let of_it = if reading.heaps.len() > 1 { format!(" ({})", heap.allocator) } else { String::new() };
            match (row.part, &heap.copied) {
                (Part::Live, Some(copied)) => format!("live{of_it} (± {})", OneDecimal(copied.within)),
                (Part::Unknown, Some(_)) => format!("free or cached in pages of {}", heap.allocator),
                (part, _) => format!("{}{of_it}", part.name()),
            }
        }
        None if row.part == Part::Unknown && !reading.undivided.is_empty() => {
            format!("{} ({} is in the process, not analysed)", row.name, reading.undivided.join(" and "))
        }
        None if row.part == Part::OwnMappings => format!("{}{}", row.name, held(reading)),
        None => row.name.clone(),
    }
}

/// What holds the program's own mappings, if it holds at least half of the area's resident bytes.
fn held(reading: &Reading) -> String {
    let own = reading.areas.iter().filter(|area| reading.part_of(area) == Part::OwnMappings);
    let most =
        own.filter_map(|area| Some((*area.holders().first()?, area.resident))).max_by_key(|((_, bytes), _)| *bytes);
    match most {
        Some(((holder, bytes), all)) if bytes * 20 >= all * 19 => format!(" (held by {holder})"),
        Some(((holder, bytes), all)) if bytes * 2 >= all => format!(" ({} of it held by {holder})", OneDecimal(bytes)),
        _ => String::new(),
    }
}

/// The text about a heap that was read from a copy. `is_spread`: whether the places of its live blocks are unknown.
fn of_copy(copied: &CopyMoment, is_spread: bool) -> String {
    let took = show_duration(Duration::from_micros(copied.took));
    let places = match is_spread {
        true => "Where its free blocks lie is not known, and so not what is fragmentation. ",
        false => "",
    };
    format!(
        "It changes too fast to be walked. Its live bytes are from one copy of its structures, which took {took}, and they are right within \
         {}. {places}--freeze stops the process and analyses the heap exactly",
        Bytes(copied.within)
    )
}

/// A sentence that says how reliable the parts of a heap are.
pub fn how_sure(heap: &Heap) -> String {
    let equal = heap.checks.iter().filter(|check| check.wanted == check.found).count();
    let counts = match (equal, heap.checks.len()) {
        (_, 0) => "the allocator has no counts to compare with".to_string(),
        (1, 1) => "its one count agrees with the allocator's own".to_string(),
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
    let copied = heap.copied.as_ref().map(|copied| of_copy(copied, heap.live_in_a_page.is_empty()));
    let broken = match (heap.breaks, heap.skipped) {
        _ if copied.is_some() => copied.unwrap_or_default(),
        (0, 0) => "No block was wrong".to_string(),
        (0, skipped) => {
            format!("No block was wrong; {} could not be read, and what is there is not known", Bytes(skipped))
        }
        (count, skipped) => format!(
            "It changed while it was read: in {} places a block was wrong, and {} were skipped",
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
        PartsCertainty::NotKnown => "not analysed",
    };
    format!("heap of {} {}: {sure}. {broken}{closed}; {counts}{}", heap.allocator, heap.version, others.concat())
}
