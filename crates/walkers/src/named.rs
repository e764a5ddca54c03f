//! Reports an allocator whose library is mapped, but whose layout no walker knows. The report has the file and its build-id, from which its
//! release can be found.

use crate::{Memory, Unknown, build_id};

/// An error for the heap, if a library whose name contains `name` is mapped. `known` are the releases that can be read.
pub fn unknown<T>(memory: &dyn Memory, allocator: &'static str, name: &str, known: &str) -> Option<Result<T, Unknown>> {
    let file = memory.mappings().iter().find(|mapping| {
        let file = mapping.name.rsplit('/').next().unwrap_or_default();
        mapping.inode != 0 && file.starts_with("lib") && file.contains(name) && mapping.offset == 0
    })?;
    let build = build_id::of(memory, file).map_or_else(|| "without a build-id".into(), |id| format!("build-id {id}"));
    let reason = format!("layout unknown: wanted that of {known}; found {}, {build}", file.name);
    Some(Err(Unknown { allocator, reason }))
}
