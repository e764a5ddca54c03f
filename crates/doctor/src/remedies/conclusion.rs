//! Writes the conclusion as one sentence: what can go back, or why nothing can.

use allocanary_heap::{Heap, Part, PartsCertainty, Reading, Sort};
use allocanary_text::units::OneDecimal;

use crate::call_check::CallCheck;
use crate::remedy::{Gives, Remedy, Who};

/// Free pages that no call reaches are mentioned if they have at least 1 / `LEAST` of the resident bytes.
const LEAST: u64 = 20;

/// What to do first. If the allocator has nothing to give back, says so and why.
pub fn conclusion(reading: &Reading, remedies: &[Remedy]) -> String {
    let first = remedies.first().filter(|first| first.refused().is_none());
    let Some((first, bytes)) = first.and_then(|first| Some((first, first.gives.bytes()?))) else {
        return nothing(reading, remedies);
    };
    let (size, call) = (OneDecimal(bytes), call_of(reading, first));
    match (&first.gives, first.who, &first.check) {
        (_, Who::OperatorNow, Some(CallCheck::NotTried(why))) => {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            format!("{}{size} can go back, with {call}; this was not tried{why}.", up_to(first))
        }
        (Gives::Exact { .. }, Who::OperatorNow, Some(_)) => {
            format!("{size} can go back now, with {call}{}.", left(reading, bytes))
        }
        (_, Who::OperatorNow, Some(_)) => {
            format!("Up to {size} can go back now, with {call}; a part of it may stay{}.", left(reading, bytes))
        }
        // A call that cannot be checked before is not promised for now.
        (_, Who::OperatorNow, None) => format!("{}{size} can go back, with {call}.", up_to(first)),
        (_, who, _) => format!("{}{size} less {}: {}.", up_to(first), who.text().to_lowercase(), first.what),
    }
}

fn up_to(remedy: &Remedy) -> &'static str {
    if matches!(remedy.gives, Gives::Exact { .. }) { "" } else { "Up to " }
}

/// The heap that a remedy is about, found by the bytes that its call gives.
fn heap_of<'a>(reading: &'a Reading, remedy: &Remedy) -> Option<&'a Heap> {
    let gives = |heap: &&Heap| heap.remedies.first().map(|forecast| forecast.bytes) == remedy.gives.bytes();
    reading.heaps.iter().filter(|_| remedy.check.is_some()).find(gives)
}

/// The call that a remedy makes, as code.
fn call_of(reading: &Reading, remedy: &Remedy) -> String {
    let of_heap =
        heap_of(reading, remedy).and_then(|heap| heap.remedies.first()).map(|forecast| forecast.name.as_str());
    match of_heap.or_else(|| remedy.first_lines().next()) {
        Some(call) => format!("`{call}`"),
        None => remedy.what.clone(),
    }
}

/// The free pages that stay, if they are many.
fn left(reading: &Reading, bytes: u64) -> String {
    let free = reading.of_heaps().of(Part::FreePages);
    let rest = free.saturating_sub(bytes);
    // The walker of glibc leaves the free ends of arenas out: `malloc_trim` does not reach them.
    let is_glibc = reading.heaps.iter().all(|heap| heap.allocator == allocanary_facts::system::HEAP);
    let place = if is_glibc { ", at the free ends of threads' arenas" } else { "" };
    match rest.saturating_mul(LEAST) >= reading.resident && rest > 0 {
        true => format!("; this does not reach the other {} of free pages{place}", OneDecimal(rest)),
        false => String::new(),
    }
}

/// A sentence that says that no call helps, and why.
fn nothing(reading: &Reading, remedies: &[Remedy]) -> String {
    if let Some((bytes, why)) = remedies.iter().find_map(|one| Some((one.gives.bytes()?, one.refused()?))) {
        return format!("No call can give back the {} of free pages: {why}.", OneDecimal(bytes));
    }
    let parts = reading.parts();
    let unknown = parts.of(Part::Unknown);
    let largest = parts.iter().map(|(_, bytes)| bytes).max().unwrap_or(0);
    // If the use of most of the memory is unknown, nothing can be said about the allocator.
    if unknown > 0 && unknown == largest {
        return format!("What can go back is not known: {} {}.", OneDecimal(unknown), why_unknown(reading));
    }
    let of_all = |bytes: u64| format!("{:.0} %", bytes as f64 * 100.0 / reading.resident.max(1) as f64);
    let (live, fragmentation) = (parts.of(Part::Live), parts.of(Part::Fragmentation));
    let has_much = |bytes: u64| bytes.saturating_mul(LEAST) >= reading.resident;
    if has_much(fragmentation) && has_much(live) {
        return format!(
            "No call can give memory back: the program holds {} of the memory, and its blocks pin the {} of fragmentation.",
            of_all(live),
            OneDecimal(fragmentation)
        );
    }
    let reasons = [
        (live, "the program itself holds"),
        (parts.of(Part::OwnMappings), "the program's own mappings are"),
        (parts.of(Part::Stacks), "stacks of threads are"),
        (parts.of(Part::Files), "the program, its libraries and mapped files are"),
        (parts.of(Part::Shared), "shared memory is"),
        (parts.of(Part::Cached), "caches of threads are"),
        (parts.of(Part::LazyFree), "freed pages that the kernel takes when it needs memory are"),
        (parts.of(Part::Padding), "the rest of huge pages is"),
        (parts.of(Part::Metadata), "the allocator's own tables are"),
        (parts.of(Part::FreePages), "free pages, for which the allocator has no call, are"),
    ];
    let runtimes = reading.areas.iter().filter(|area| area.sort == Sort::Runtime);
    let runtimes: Vec<(u64, String)> = runtimes
        .map(|area| (area.resident, format!("{} {}", area.name, if area.name.ends_with('s') { "are" } else { "is" })))
        .collect();
    let all = reasons.into_iter().map(|(bytes, text)| (bytes, text.to_string())).chain(runtimes);
    match all.max_by_key(|(bytes, _)| *bytes) {
        Some((bytes, text)) if bytes > 0 => {
            format!("No call can give memory back: {text} {} of the memory.", of_all(bytes))
        }
        _ => "There is nothing to give back.".into(),
    }
}

/// Why memory is not known.
fn why_unknown(reading: &Reading) -> &'static str {
    if reading.heaps.iter().any(|heap| heap.copied.is_some()) {
        return "are free or cached in a heap that changes too fast to be walked; `--freeze` analyses it";
    }
    let undivided =
        reading.heaps.iter().any(|heap| heap.sure == PartsCertainty::NotKnown) || !reading.undivided.is_empty();
    if undivided { "are in a heap that could not be analysed" } else { "belong to no allocator that is known here" }
}
