//! One sentence about what to do first. In: a reading and its remedies. Out: the sentence.

use allocanary_heap::{Part, Reading, Sort};
use allocanary_text::units::Bytes;

use crate::remedy::{Gives, Remedy};

/// What to do first. If the allocator has nothing to give back: that, and why.
pub fn conclusion(reading: &Reading, remedies: &[Remedy]) -> String {
    match remedies.first() {
        Some(Remedy { gives: Gives::Exact { bytes }, who, what, .. }) => {
            format!("{} of {} can go: {}, {what}.", Bytes(*bytes), Bytes(reading.resident), lower(who.text()))
        }
        Some(Remedy { gives: Gives::Bound { bytes }, who, what, .. }) => format!(
            "At most {} of {} can go: {}, {what}. Try it on one replica.",
            Bytes(*bytes),
            Bytes(reading.resident),
            lower(who.text())
        ),
        _ => nothing(reading),
    }
}

/// A sentence that says that no change of the allocator is known to help, and what most of the memory is.
fn nothing(reading: &Reading) -> String {
    let all = Bytes(reading.resident);
    let parts = reading.parts();
    let of = |part: Part, text: &str| (parts.of(part), text.to_string());
    let mut kinds = vec![
        of(Part::Live, "is live: the program holds it"),
        of(Part::Fragmentation, "lies free between live blocks, and the program uses it again when it grows"),
        of(Part::Cached, "lies in caches of threads"),
        of(Part::FreePages, "is free pages that the allocator keeps for soon"),
        of(Part::LazyFree, "is freed, and the kernel takes it when it needs memory"),
        of(Part::Padding, "is the rest of huge pages"),
        of(Part::Metadata, "is the allocator's own tables"),
        of(Part::OwnMappings, "was mapped by the program itself, without an allocator"),
        of(Part::Stacks, "is stacks of threads"),
        of(Part::Files, "is the program, its libraries and mapped files"),
        of(Part::Shared, "is shared memory"),
    ];
    kinds.extend(
        { reading.areas.iter() }
            .filter(|area| area.sort == Sort::Runtime)
            .map(|area| (area.resident, format!("is {}, which the runtime manages", area.name))),
    );
    let known = kinds.into_iter().max_by_key(|(bytes, _)| *bytes).unwrap_or_default();
    let unknown = parts.of(Part::Unknown);
    // If the use of most of the memory is unknown, nothing can be said about the allocator.
    match unknown > known.0 {
        true => {
            format!("What the allocator could give back is not known: {} of {all} is not divided here.", Bytes(unknown))
        }
        false => format!("Nothing of the allocator's gives memory back here: {} of {all} {}.", Bytes(known.0), known.1),
    }
}

fn lower(text: &str) -> String {
    text.to_lowercase()
}
