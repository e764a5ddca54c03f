//! The remedy against free places between live blocks, whose gain must be measured. No call gives these places back, but another allocator,
//! fewer arenas or another order of allocations may.

use allocanary_heap::{Part, Reading};
use allocanary_text::units::OneDecimal;

use crate::process::ProcessFacts;
use crate::remedy::{Gives, PasteLine, Remedy, Who};
use crate::subject::{Subject, matters};

/// The remedy, if free places are a large enough part.
pub(super) fn remedy(reading: &Reading, process: Option<&ProcessFacts>) -> Option<Remedy> {
    let free = reading.of_heaps().of(Part::Fragmentation);
    if !matters(reading, free) {
        return None;
    }
    // Nothing can be loaded into a program without a loader, and `record` refuses it.
    let is_static = process.is_some_and(|process| !Subject { reading, process }.is_dynamic());
    let (find_out, lines) = match is_static {
        false => {
            let line = PasteLine::new("shell", "allocanary record --stack-sample all -- COMMAND");
            ("record the program once, then `allocanary who` and `allocanary replay`", vec![line])
        }
        true => {
            ("the program is linked statically: link it with its C library's shared file, and record that", Vec::new())
        }
    };
    Some(Remedy {
        check: None,
        id: "record".into(),
        what: "find the call sites whose few live blocks pin the pages, and compare allocators".into(),
        who: Who::Developer,
        gives: Gives::Unknown { find_out: find_out.into() },
        evidence: format!(
            "{} lie free between live blocks, in pages that no call gives back. The program uses them again when it grows.",
            OneDecimal(free)
        ),
        cost: String::new(),
        lines,
    })
}
