//! Recognises the stacks of threads.
//!
//! A guard page below is not enough: stacks of coroutines and pages of allocators have one too.

use crate::{Mapping, Memory, PAGE, PageState};

/// The longest guard: the size of the largest page.
const MOST_GUARD: u64 = 64 << 10;

/// Whether a mapping is the stack of a thread, or one that the C library keeps for the next thread.
pub fn is_stack(memory: &dyn Memory, mapping: &Mapping, below: Option<&Mapping>) -> bool {
    if mapping.name.starts_with("[stack") {
        return true;
    }
    let is_guard = |below: &Mapping| !below.readable && !below.writable && below.bytes() <= MOST_GUARD;
    // Since Linux 6.13 a guard can be pages of the mapping itself.
    if !below.is_some_and(is_guard) && memory.pages().state(mapping.from) != Some(PageState::Guard) {
        return false;
    }
    let pointers = || memory.threads().iter().filter_map(|thread| thread.pointer);
    let has_thread = pointers().any(|pointer| (mapping.from..mapping.to).contains(&pointer));
    has_thread || thread_structure(memory, mapping).is_some()
}

/// The address of a thread's structure, in the last page of a stack that glibc keeps after the thread's end. It is recognised because it
/// contains its own address twice. Only a resident page is read.
pub fn thread_structure(memory: &dyn Memory, mapping: &Mapping) -> Option<u64> {
    const FIELDS: u64 = 64;
    let from = mapping.to.checked_sub(PAGE).filter(|from| *from >= mapping.from + 3 * PAGE)?;
    if !mapping.is_heap_like() || memory.pages().resident(from, mapping.to) == 0 {
        return None;
    }
    let itself = |at: &u64| memory.word(*at) == Some(*at) && memory.word(*at + 16) == Some(*at);
    (from..mapping.to - FIELDS).step_by(64).find(itself)
}
