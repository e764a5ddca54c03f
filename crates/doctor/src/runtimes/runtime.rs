//! The type of a runtime or a service, and functions that several of them need.

use allocanary_heap::Part;

use crate::identity::file_name;
use crate::process::ProcessFacts;
use crate::remedy::{PasteLine, Remedy};
use crate::subject::Subject;

/// A runtime or a service.
pub(crate) struct Runtime {
    /// Whether the process is one of these.
    pub is_here: fn(&ProcessFacts) -> bool,
    /// Adds its remedies. It may add lines to existing remedies.
    pub remedies: fn(&Subject, &mut Vec<Remedy>),
}

/// Whether the name of the program's file begins like this.
pub(super) fn is_program(process: &ProcessFacts, name: &str) -> bool {
    file_name(&process.program).starts_with(name)
}

/// Whether a library whose name begins like this is mapped.
pub(super) fn has_library(process: &ProcessFacts, name: &str) -> bool {
    process.maps.files.iter().any(|file| file_name(&file.path).starts_with(name))
}

/// Resident bytes of the area whose name begins like this; `None` if they are too few.
pub(super) fn area(subject: &Subject, name: &str) -> Option<u64> {
    let areas = subject.reading.areas.iter().filter(|area| area.name.starts_with(name));
    Some(areas.map(|area| area.resident).sum()).filter(|bytes| subject.matters(*bytes))
}

/// Bytes of free places between live blocks; `None` if they are too few.
pub(super) fn free(subject: &Subject) -> Option<u64> {
    Some(subject.reading.parts().of(Part::Fragmentation)).filter(|bytes| subject.matters(*bytes))
}

/// A limit in whole MiB: a quarter above the present size, since the program must be able to go on.
pub(super) fn limit_mebibytes(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 4).div_ceil(1 << 20)
}

/// The value of a variable, with options added to the existing ones.
pub(super) fn added(subject: &Subject, variable: &str, options: &str) -> String {
    let present = subject.process.variables.get(variable).map_or("", |text| text.trim());
    format!("{present} {options}").trim().to_string()
}

/// Adds lines to the remedy by which the allocator gives memory back now.
pub(super) fn also_now(remedies: &mut [Remedy], place: &str, text: String) {
    for one in remedies.iter_mut().filter(|one| one.id == "give-back") {
        one.lines.push(PasteLine::new(place, text.clone()));
    }
}
