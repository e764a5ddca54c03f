//! Finds the code of a file through which a stack can be walked. In: a file. Out: the addresses for which it has unwinding tables
//! (`.eh_frame`).

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use addr2line::gimli::{BaseAddresses, CieOrFde, EhFrame, NativeEndian, UnwindSection};
use object::{Object, ObjectSection, ReadCache};

/// The ranges, sorted. `None` if the file has no readable tables.
pub(super) fn ranges(file: &Path) -> Option<Vec<Range<u64>>> {
    let cache = ReadCache::new(File::open(file).ok()?);
    let object = object::File::parse(&cache).ok()?;
    let section = object.section_by_name(".eh_frame")?;
    let bytes = section.uncompressed_data().ok()?;
    let mut bases = BaseAddresses::default().set_eh_frame(section.address());
    if let Some(text) = object.section_by_name(".text") {
        bases = bases.set_text(text.address());
    }
    let frames = EhFrame::new(&bytes, NativeEndian);
    let mut out = Vec::new();
    let mut entries = frames.entries(&bases);
    // Reading ends at damage.
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
