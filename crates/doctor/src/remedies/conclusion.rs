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
    let heap = |part: Part, text: &str| (parts.of(part), text.to_string());
    let of = |sorts: &[Sort]| -> u64 {
        reading.areas.iter().filter(|area| sorts.contains(&area.sort)).map(|area| area.resident).sum()
    };
    let mut kinds = vec![
        heap(Part::Live, "is live: the program holds it"),
        heap(Part::Free, "lies free between live blocks, and the program uses it again when it grows"),
        heap(Part::Cached, "lies in caches of threads"),
        heap(Part::Kept, "is free pages that the allocator keeps for soon"),
        heap(Part::Lazy, "is freed, and the kernel takes it when it needs memory"),
        heap(Part::Padding, "is the rest of huge pages"),
        heap(Part::Structures, "is the allocator's own structures"),
        (of(&[Sort::Stacks]), "is stacks of threads".into()),
        (of(&[Sort::Program, Sort::Files]), "is the program, its libraries and mapped files".into()),
        (of(&[Sort::Shared]), "is shared memory".into()),
    ];
    kinds.extend(
        { reading.areas.iter() }
            .filter(|area| area.sort == Sort::Runtime)
            .map(|area| (area.resident, format!("is {}, which the runtime manages", area.name))),
    );
    let known = kinds.into_iter().max_by_key(|(bytes, _)| *bytes).unwrap_or_default();
    let unknown = of(&[Sort::Unknown]) + parts.of(Part::Unknown);
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
