//! An allocator that is in the process by its library's name, and whose layout no walker knows. In: a memory. Out: the file, and its
//! build-id, by which its release is found.

use crate::{Memory, Unknown, build_id};

/// Says that the heap could not be divided, if a library with that name is mapped.
pub fn unknown<T>(memory: &dyn Memory, allocator: &'static str, name: &str, known: &str) -> Option<Result<T, Unknown>> {
    let file = memory.mappings().iter().find(|mapping| {
        let file = mapping.name.rsplit('/').next().unwrap_or_default();
        mapping.inode != 0 && file.starts_with("lib") && file.contains(name) && mapping.offset == 0
    })?;
    let build = build_id::of(memory, file).map_or_else(|| "without a build-id".into(), |id| format!("build-id {id}"));
    let reason = format!("layout unknown: wanted that of {known}; found {}, {build}", file.name);
    Some(Err(Unknown { allocator, reason }))
}
