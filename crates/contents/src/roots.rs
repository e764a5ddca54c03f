//! Finds the roots: memory outside of blocks that can have pointers to blocks. Each root is a range of addresses, or a word.
//!
//! Memory that the program has written still counts after it made the memory read-only, executable or inaccessible: it can change this
//! back.
//!
//! Memory that the program took with `sbrk`, in the middle of the C library's heap, is a root too.
//!
//! An allocator's own structures are no roots: a list of free blocks can point into a live block next to them, and a thread cache still has
//! pointers to blocks that it gave away.

use std::ops::Range;

use allocanary_heap::{Machine, Mapping, Memory, PAGE, PageState, Processor, Walk, thread_structure};

use crate::modules::ModuleList;
use crate::threads::ThreadSnapshot;

/// The kind of a root. Paths are searched from these kinds in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RootKind {
    /// A variable of a Python module, by its index.
    Python(u32),
    /// Global variables of a program or a library, by the index of the module.
    Global(u32),
    /// A thread's own variables, by the index of the thread.
    ThreadLocal(u32),
    /// A thread's stack.
    Stack(u32),
    /// A thread's registers.
    Registers(u32),
    /// A word that only the kernel has.
    Kernel(KernelHolder),
    /// Any other memory that was written, by the index of the mapping.
    Mapping(u32),
}

/// The kernel's object that contains a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelHolder {
    /// The data of a descriptor that epoll watches.
    Epoll,
    /// The value of a timer.
    Timer,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The kind of the root.
    pub place: RootKind,
    /// Its first address.
    pub from: u64,
    /// The first address after it.
    pub to: u64,
    /// A word that is in no memory range, such as that of a register.
    pub word: Option<u64>,
}

impl Root {
    /// A root that is a single word.
    pub fn of_word(place: RootKind, word: u64) -> Root {
        Root { place, from: 0, to: 0, word: Some(word) }
    }
}

/// The bytes of `malloc_state` of the main arena, which is in the C library's data, in all releases from 2.27 on. The program's standard
/// streams are in the data behind it.
const MAIN_ARENA: u64 = 2200;
/// The bytes that a function may use below its stack pointer.
const RED_ZONE: u64 = 128;
/// From the thread pointer to the end of the thread's structure, at most. On aarch64 the structure is below the pointer, and as long.
const STRUCTURE: u64 = PAGE;

/// All roots, in the order in which paths are searched. `taken` are the allocators' ranges, in the order of their addresses.
pub fn of(memory: &dyn Memory, threads: &[ThreadSnapshot], modules: &ModuleList, taken: &[Range<u64>]) -> Vec<Root> {
    let mut roots = Vec::new();
    let mut push = |place: RootKind, range: Range<u64>| {
        roots.extend(gaps(range, taken).into_iter().map(|range| Root {
            place,
            from: range.start,
            to: range.end,
            word: None,
        }));
    };
    let tls = modules.tls();
    for (index, mapping) in memory.mappings().iter().enumerate() {
        if !is_written(mapping) {
            continue;
        }
        let whole = mapping.from..mapping.to;
        if !mapping.shared
            && let Some(module) = modules.find(mapping.from).filter(|_| !mapping.name.starts_with('['))
        {
            // Memory directly behind the module is not the module's.
            let end = modules.get(module).range().end.min(mapping.to);
            push(RootKind::Global(module), mapping.from..end);
            push(RootKind::Mapping(index as u32), end..mapping.to);
            continue;
        }
        let mut parts = parts(mapping, threads, tls, memory.machine());
        if parts.is_empty()
            && let Some(ended) = ended(memory, mapping, threads)
        {
            parts.push((None, ended));
        }
        if parts.is_empty() {
            parts.push((None, whole));
        }
        for (place, range) in parts {
            push(place.unwrap_or(RootKind::Mapping(index as u32)), range);
        }
    }
    roots.sort_by_key(|root| (root.place, root.from));
    roots
}

/// Whether the program can have written to this memory: now, or before it made the memory read-only, inaccessible or executable. Shared
/// memory can have been written at another address. Of a private file mapping, only changed pages are copied later.
pub fn is_written(mapping: &Mapping) -> bool {
    if mapping.name.starts_with("[v") {
        return false;
    }
    mapping.readable && mapping.writable || !mapping.shared || mapping.readable && mapping.is_memory_file()
}

/// Whether the process itself may have written a page with this state. In a private file mapping that it cannot write to now, these are
/// only pages that differ from the file.
pub fn is_own(mapping: &Mapping, state: PageState) -> bool {
    if mapping.inode == 0 || mapping.writable { state.is_resident() } else { state == PageState::Resident }
}

/// The parts of a range that are in no range of `taken`.
pub fn gaps(range: Range<u64>, taken: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut gaps = Vec::new();
    let mut at = range.start;
    let first = taken.partition_point(|one| one.end <= range.start);
    for one in taken[first..].iter().take_while(|one| one.start < range.end) {
        if at < one.start {
            gaps.push(at..one.start);
        }
        at = at.max(one.end);
    }
    if at < range.end {
        gaps.push(at..range.end);
    }
    gaps
}

/// The memory that the allocators have from the kernel, and the main arena of the C library.
pub fn taken(memory: &dyn Memory, walks: &[Walk]) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    for walk in walks {
        let holes = merged(walk.layout.holes().to_vec());
        all.extend(walk.layout.regions().flat_map(|(from, to, _)| gaps(from..to, &holes)));
        let of_file =
            |at: &u64| memory.mapping(*at).is_some_and(|mapping| !mapping.is_heap_like() || mapping.name.is_empty());
        let arenas = walk.arenas.iter().map(|arena| arena.at).filter(|at| walk.allocator == "glibc" && *at != 0);
        all.extend(arenas.filter(of_file).map(|at| at..at.saturating_add(MAIN_ARENA)));
    }
    merged(all)
}

/// Merges ranges that touch, and sorts them by address.
pub fn merged(mut all: Vec<Range<u64>>) -> Vec<Range<u64>> {
    all.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in all {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// The parts of a mapping that has a stack or the variables of a thread. A stack counts from its stack pointer on. If the thread was
/// running, its stack pointer is not known, and its whole stack counts.
fn parts(
    mapping: &Mapping,
    threads: &[ThreadSnapshot],
    tls: u64,
    machine: Machine,
) -> Vec<(Option<RootKind>, Range<u64>)> {
    let (below, above) = match machine.processor {
        Processor::X86_64 => (tls, STRUCTURE),
        Processor::Aarch64 => (STRUCTURE, STRUCTURE.saturating_add(tls)),
    };
    let has = |at: &u64| (mapping.from..mapping.to).contains(at);
    let mut parts = Vec::new();
    // Variables of threads whose stack is in another mapping, such as the first thread's.
    let mut variables: Vec<(u32, Range<u64>)> = Vec::new();
    for (index, thread) in (0..).zip(threads) {
        let pointer = thread.pointer.filter(has);
        let stack = thread.stack.filter(has);
        let own =
            pointer.map(|at| at.saturating_sub(below).max(mapping.from)..at.saturating_add(above).min(mapping.to));
        match (pointer, stack) {
            (Some(_), Some(stack)) => {
                let own = own.expect("it has a pointer");
                let from = stack.saturating_sub(RED_ZONE).max(mapping.from);
                parts.push((Some(RootKind::Stack(index)), from..own.start.max(from)));
                parts.push((Some(RootKind::ThreadLocal(index)), own.start.max(from)..mapping.to));
            }
            (None, Some(stack)) if mapping.name.starts_with("[stack") => {
                parts
                    .push((Some(RootKind::Stack(index)), stack.saturating_sub(RED_ZONE).max(mapping.from)..mapping.to));
            }
            (Some(_), None) => variables.push((index, own.expect("it has a pointer"))),
            _ => {}
        }
    }
    if parts.is_empty() && mapping.name.starts_with("[stack") {
        parts.push((Some(RootKind::Stack(0)), mapping.from..mapping.to));
    }
    if parts.is_empty() && !variables.is_empty() {
        variables.sort_by_key(|(_, range)| range.start);
        let mut at = mapping.from;
        for (index, range) in variables {
            let start = range.start.max(at);
            // If the thread was running, its stack is in this mapping, below its thread pointer.
            let runs = threads[index as usize].stack.is_none();
            parts.push((runs.then_some(RootKind::Stack(index)), at..start));
            parts.push((Some(RootKind::ThreadLocal(index)), start..range.end.max(start)));
            at = range.end.max(start);
        }
        parts.push((None, at..mapping.to));
    }
    parts.retain(|(_, range)| range.start < range.end);
    parts
}

/// Of the stack of a thread that has ended, which the C library keeps for the next one: the last page, or those from the thread's structure
/// on. The structure proves itself, and no thread has it.
fn ended(memory: &dyn Memory, mapping: &Mapping, threads: &[ThreadSnapshot]) -> Option<Range<u64>> {
    let before = memory.mapping(mapping.from.wrapping_sub(1)).is_some_and(|guard| !guard.readable && !guard.writable);
    let pointer = thread_structure(memory, mapping).filter(|_| before)?;
    let lives = threads.iter().any(|thread| thread.pointer == Some(pointer));
    let from = memory.machine().page_of(pointer).min(mapping.to - PAGE);
    (!lives).then_some(from..mapping.to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_counts_after_its_protection_has_changed() {
        let mapping = |line: &str| allocanary_heap::parse_maps(format!("1000-2000 {line}\n")).remove(0);
        let written =
            ["rw-p 0 00:0 0 ", "r--p 0 00:0 0 ", "---p 0 00:0 0 ", "r-xp 0 00:0 0 ", "rw-s 0 00:1 7 /srv/file"];
        let memory = ["r--s 0 00:1 7 /memfd:words (deleted)", "r--s 0 00:1 7 /dev/shm/words"];
        assert!(written.iter().chain(&memory).all(|line| is_written(&mapping(line))));
        let not = ["r--p 0 00:0 0 [vvar]", "r--s 0 00:1 7 /srv/file", "---s 0 00:1 7 /memfd:words"];
        assert!(!not.iter().any(|line| is_written(&mapping(line))));
        let own = |line: &str| {
            [PageState::Resident, PageState::OfFile, PageState::Huge].map(|state| is_own(&mapping(line), state))
        };
        assert_eq!(own("r--p 0 00:0 0 "), [true; 3]);
        assert_eq!(own("rw-p 0 00:1 7 /srv/file"), [true; 3]);
        assert_eq!(own("r-xp 0 00:1 7 /srv/file"), [true, false, false], "what differs from the file");
    }
}
