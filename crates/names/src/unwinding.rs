//! Finds the code of a file through which a stack can be walked: the addresses for which it has unwinding tables (`.eh_frame`).

use std::ops::Range;

use addr2line::gimli::{BaseAddresses, CieOrFde, EhFrame, NativeEndian, UnwindSection};
use allocanary_process::Opened;
use allocanary_process::elf::{self, Elf};

/// The most bytes of the tables. Those of Chromium have 20 MiB.
const MOST: u64 = 64 << 20;

/// The ranges, sorted. `None` if the file has no tables, or damaged ones.
pub(crate) fn ranges(file: &Opened) -> Option<Vec<Range<u64>>> {
    let cache = elf::cache(file);
    let elf = Elf::of(&cache)?;
    let (section, bytes) = elf.bytes(".eh_frame", MOST)?;
    let mut bases = BaseAddresses::default().set_eh_frame(section.address);
    if let Some(text) = elf.section(".text") {
        bases = bases.set_text(text.address);
    }
    let frames = EhFrame::new(bytes, NativeEndian);
    let mut out = Vec::new();
    let mut entries = frames.entries(&bases);
    while let Some(entry) = entries.next().ok()? {
        if let CieOrFde::Fde(partial) = entry {
            let entry = partial.parse(|section, bases, offset| section.cie_from_offset(bases, offset)).ok()?;
            let from = entry.initial_address();
            out.push(from..from.saturating_add(entry.len()));
        }
    }
    out.sort_unstable_by_key(|range| (range.start, range.end));
    Some(out)
}
