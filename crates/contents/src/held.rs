//! Finds what holds the memory that a program mapped itself: for each mapping, the first place that points into it.
//!
//! The places are the roots in which pointers to blocks are searched too, in the same order: variables, threads, then all other memory that
//! can be written. The first place that points into a mapping is its holder.

use std::ops::Range;
use std::rc::Rc;
use std::time::Instant;

use allocanary_heap::{LargeMapping, LiveProcess, Mapping, Memory, PAGE, ProcessTrouble};
use allocanary_process::ProcessFiles;

use crate::modules::{ModuleList, Open};
use crate::roots::{self, Root, RootKind};
use crate::threads::{self, ThreadSnapshot};

/// The most bytes that are read from all places.
const MOST: u64 = 1 << 30;
/// The bytes that are read at once.
const PART: u64 = 1 << 20;

/// Finds the holders of mappings of a process. Stops at the time `until`.
pub fn find(pid: u32, wanted: &mut [LargeMapping], until: Option<Instant>) -> Result<(), ProcessTrouble> {
    let files = Rc::new(ProcessFiles::of(pid));
    let open = |mapping: &Mapping| files.get(mapping.from, mapping.to, mapping.inode).ok();
    let live = LiveProcess::open_with(&files, until)?;
    let threads = threads::of(&live, pid, None);
    in_memory(&live, &threads, wanted, until, &open);
    Ok(())
}

fn in_memory(
    memory: &dyn Memory,
    threads: &[ThreadSnapshot],
    wanted: &mut [LargeMapping],
    until: Option<Instant>,
    open: &Open,
) {
    let modules = ModuleList::of(memory, open);
    let mut ranges: Vec<(Range<u64>, usize)> =
        wanted.iter().enumerate().map(|(index, one)| (one.at..one.at.saturating_add(one.bytes), index)).collect();
    ranges.sort_by_key(|(range, _)| range.start);
    let target = |word: u64| {
        let after = ranges.partition_point(|(range, _)| range.start <= word);
        ranges[..after].last().filter(|(range, _)| word < range.end).map(|(_, index)| *index)
    };
    let mut left = MOST;
    for root in &roots::of(memory, threads, &modules, &[]) {
        let is_late = until.is_some_and(|until| Instant::now() >= until);
        if is_late || left == 0 || wanted.iter().all(|one| one.holder.is_some()) {
            return;
        }
        each_word(memory, root, &mut left, until, |at, word| {
            let Some(index) = target(word) else { return };
            // A pointer from the mapping itself does not count.
            if wanted[index].holder.is_none() && target(at) != Some(index) {
                wanted[index].holder = Some(name(memory, root, at, threads, &modules, open));
            }
        });
    }
}

/// Visits the resident words of a place. Other pages were never written.
fn each_word(
    memory: &dyn Memory,
    root: &Root,
    left: &mut u64,
    until: Option<Instant>,
    mut visit: impl FnMut(u64, u64),
) {
    if let Some(word) = root.word {
        visit(0, word);
    }
    let mut bytes = Vec::new();
    let mapping = memory.mapping(root.from);
    let is_own = |state| mapping.is_some_and(|mapping| roots::is_own(mapping, state));
    for run in memory.pages().within(root.from, root.to).filter(|run| is_own(run.state)) {
        let mut at = run.from.next_multiple_of(8);
        while at < run.to && *left > 0 && until.is_none_or(|until| Instant::now() < until) {
            let end = run.to.min((at / PART + 1) * PART);
            bytes.resize((end - at) as usize / 8 * 8, 0);
            *left = left.saturating_sub(end - at);
            if memory.read(at, &mut bytes) {
                let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("of eight")));
                (at..).step_by(8).zip(words).for_each(|(at, word)| visit(at, word));
            }
            at = end.max(at + PAGE);
        }
    }
}

/// The name of a place that points into a mapping.
fn name(
    memory: &dyn Memory,
    root: &Root,
    at: u64,
    threads: &[ThreadSnapshot],
    modules: &ModuleList,
    open: &Open,
) -> String {
    let thread = |index: u32| {
        threads
            .get(index as usize)
            .map_or_else(String::new, |thread| format!("thread {} ({})", thread.name, thread.tid))
    };
    match root.place {
        RootKind::Global(_) => modules.variable(at, open).unwrap_or_else(|| format!("memory at {at:#x}")),
        RootKind::ThreadLocal(index) => format!("variables of {}", thread(index)),
        RootKind::Stack(index) => format!("stack of {}", thread(index)),
        RootKind::Registers(index) => format!("registers of {}", thread(index)),
        RootKind::Python(_) | RootKind::Kernel(_) | RootKind::Mapping(_) => match memory.mapping(at) {
            Some(mapping) if mapping.name == "[heap]" || mapping.is_heap_like() => format!("a block at {at:#x}"),
            Some(mapping) => format!("{} at {at:#x}", mapping.name),
            None => format!("memory at {at:#x}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_heap::PageState;
    use allocanary_walkers::fake::FakeMemory;

    #[test]
    fn the_first_place_that_points_into_a_mapping_holds_it() {
        let maps = "500000-501000 rw-p 0 00:0 0 [heap]\n600000-700000 rw-p 0 00:0 0 \n800000-900000 rw-p 0 00:0 0 \n\
                    a00000-b00000 rw-p 0 00:0 0 \n7ffc0000-7ffc1000 rw-p 0 00:0 0 [stack]\n";
        let mut memory = FakeMemory::of(maps);
        memory.put(0x500100, &[0x600010, 0x123, 0x8fffff]);
        memory.put(0x7ffc0100, &[0x600018]);
        // It points to itself only.
        memory.put(0xa00000, &[0xa00800]);
        let one = |at| LargeMapping { at, bytes: 0x100000, resident: 0x100000, holder: None };
        let mut wanted = [0x600000, 0x800000, 0xa00000].map(one);
        let thread =
            ThreadSnapshot { tid: 7, name: "main".into(), stack: Some(0x7ffc0080), ..ThreadSnapshot::default() };
        in_memory(&memory, &[thread], &mut wanted, None, &|_| None);
        let holders = wanted.map(|one| one.holder);
        assert_eq!(holders, [Some("stack of thread main (7)".into()), Some("a block at 0x500110".into()), None]);
        assert_eq!(memory.pages.state(0x500000), Some(PageState::Resident));
    }
}
