//! Recognises Go's heap. It is in arenas of 64 MiB, at multiples of 64 MiB. The unused part of an arena is mapped without access.

use super::{RuntimeHeap, Sight};
use crate::{Mapping, PAGE};

/// Go's heap.
pub const HEAP: RuntimeHeap = RuntimeHeap {
    name: "Go's heap",
    how: "arenas at multiples of 64 MiB, and Go's mark in the program",
    tool: "pprof: net/http/pprof, /debug/pprof/heap",
    is_here,
    owns,
};

/// The bytes of an arena.
const ARENA: u64 = 64 << 20;
/// The linker writes this text at the begin of the program's data, at a multiple of 16. It is reversed here, so that
/// this program does not contain it.
const MARK: &[u8] = b":fnidliub oG \xff";

fn is_here(sight: &Sight) -> bool {
    let data = sight.memory.mappings().iter().filter(|one| one.inode != 0 && one.writable);
    let mark: Vec<u8> = MARK.iter().rev().copied().collect();
    { data }.filter(|one| super::file(one) == sight.executable).any(|one| {
        // The section is near the begin of the data.
        let mut bytes = vec![0; one.bytes().min(16 * PAGE) as usize];
        sight.memory.read(one.from, &mut bytes) && bytes.chunks(16).any(|line| line.starts_with(&mark))
    })
}

/// Whether the mapping and its inaccessible neighbours are whole arenas together.
fn owns(sight: &Sight, mapping: &Mapping) -> bool {
    if mapping.name.starts_with("[anon: Go: heap") {
        return true;
    }
    let all = sight.memory.mappings();
    let at = all.partition_point(|one| one.from < mapping.from);
    let is_arena = |one: &Mapping| one.inode == 0 && one.name.is_empty() && !one.shared;
    let (mut from, mut to) = (mapping.from, mapping.to);
    for one in all[..at].iter().rev().take_while(|one| is_arena(one)) {
        if one.to != from || from.is_multiple_of(ARENA) {
            break;
        }
        from = one.from;
    }
    for one in all.iter().skip(at + 1).take_while(|one| is_arena(one)) {
        if one.from != to || to.is_multiple_of(ARENA) {
            break;
        }
        to = one.to;
    }
    mapping.name.is_empty() && from.is_multiple_of(ARENA) && to.is_multiple_of(ARENA)
}
