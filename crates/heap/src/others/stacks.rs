//! Recognises the stacks of threads.
//!
//! A guard page below is not enough: stacks of coroutines and pages of allocators have one too.

use crate::live::robust_list;
use crate::{Mapping, Memory, PAGE, PageState, Processor};

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

/// The bytes at the end of a stack in which aarch64 has the structure of its thread: below the thread pointer, above which the variables are.
const ABOVE: u64 = 4 * PAGE;

/// The structure of a thread at the end of a stack that glibc keeps after the thread's end. It proves itself: on x86-64 it points to itself
/// twice, and on aarch64 it has a list of robust locks. Only resident pages are read.
pub fn thread_structure(memory: &dyn Memory, mapping: &Mapping) -> Option<u64> {
    const FIELDS: u64 = 64;
    let processor = memory.machine().processor;
    let bytes = if processor == Processor::X86_64 { PAGE } else { ABOVE };
    let from = mapping.to.checked_sub(bytes).filter(|from| *from >= mapping.from + 3 * PAGE)?;
    if !mapping.is_heap_like() || memory.pages().resident(from, mapping.to) == 0 {
        return None;
    }
    if processor == Processor::Aarch64 {
        let mut bytes = vec![0; (mapping.to - from) as usize];
        return memory.read(from, &mut bytes).then(|| robust_list(&bytes))?.map(|at| from + at);
    }
    let itself = |at: &u64| memory.word(*at) == Some(*at) && memory.word(*at + 16) == Some(*at);
    (from..mapping.to - FIELDS).step_by(64).find(itself)
}
