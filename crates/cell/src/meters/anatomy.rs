//! Where the memory of an idle process is: `/proc/self/smaps` by the kind of mapping, and the allocator's own count.
//!
//! It is read only in the phase `idle`: while all threads are paused, which mimalloc's walk needs, and only once, because
//! the kernel writes half a page of text for each mapping. The text is read in pieces, so that it needs no memory.

mod mappings;

use std::fs::File;
use std::io::Read;

use crate::meter::{Meter, Reading, reading};
use crate::workload::Phase;
use allocanary_allocators::Allocator;
use allocanary_kernel::units::Unit;
use mappings::Mappings;

/// The meter.
pub const METER: Meter = Meter {
    name: "anatomy",
    about: "/proc/self/smaps by kind of mapping, and the allocator's memory by use; only when idle",
    readings: READINGS,
    at: Some(Phase::Idle),
    read,
};

const READINGS: &[Reading] = &[
    reading("program_bytes", Unit::Bytes, "resident in the program's and its libraries' files, and in their data"),
    reading("stack_bytes", Unit::Bytes, "resident in the stacks of all threads"),
    reading("heap_rss_bytes", Unit::Bytes, "resident in all other anonymous mappings: what the allocator has"),
    reading("other_bytes", Unit::Bytes, "resident in shared mappings, and in data files"),
    reading("heap_huge_bytes", Unit::Bytes, "of heap_rss_bytes, in transparent huge pages"),
    reading("held_bytes", Unit::Bytes, "allocator: in blocks that the program holds (glibc: and in thread caches)"),
    reading("cached_bytes", Unit::Bytes, "allocator: in free blocks that a thread's cache keeps"),
    reading("inside_bytes", Unit::Bytes, "allocator: free, in the same pages as blocks (glibc: all that is free)"),
    reading("dirty_bytes", Unit::Bytes, "allocator: in freed pages, not yet returned"),
    reading("muzzy_bytes", Unit::Bytes, "allocator: in freed pages that the kernel may take"),
    reading("own_bytes", Unit::Bytes, "allocator: in its own structures"),
];

fn read(allocator: &dyn Allocator, slots: &mut [Option<u64>]) {
    let uses = allocator.uses();
    slots[5..].copy_from_slice(&[uses.held, uses.cached, uses.inside, uses.dirty, uses.muzzy, uses.own]);
    let Some(found) = of_this_process() else { return };
    let found = [found.program, found.stacks, found.heap, found.other, found.huge];
    slots[..5].copy_from_slice(&found.map(Some));
}

/// This process's mappings, summed up by kind.
fn of_this_process() -> Option<Mappings> {
    let mut file = File::open("/proc/self/smaps").ok()?;
    let mut mappings = Mappings::default();
    let mut buffer = [0; 4096];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => mappings.take(&buffer[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    mappings.end();
    Some(mappings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_kernel::sys::{line_number, map_zeroed, read_into, unmap};

    #[test]
    fn the_kinds_add_up_to_what_the_kernel_says_of_all() {
        let found = of_this_process().unwrap();
        let mut buffer = [0; 2048];
        let all = line_number(read_into("/proc/self/smaps_rollup", &mut buffer).unwrap(), b"Rss:").unwrap() * 1024;
        let sum = found.program + found.stacks + found.heap + found.other;
        // Other tests of this process allocate meanwhile.
        assert!(sum.abs_diff(all) < 8 << 20, "{sum} of {all}");
        assert!(found.program > 1 << 19 && found.stacks > 0, "{found:?}");
    }

    #[test]
    fn what_a_thread_writes_on_its_stack_is_stack() {
        // A function of its own: the pages of a large frame are touched when it is entered.
        #[inline(never)]
        fn deep() -> u64 {
            let frame = std::hint::black_box([1_u8; 4 << 20]);
            let stacks = of_this_process().unwrap().stacks;
            std::hint::black_box(&frame);
            stacks
        }
        let used = std::thread::Builder::new().stack_size(16 << 20).spawn(|| {
            let before = of_this_process().unwrap().stacks;
            deep().saturating_sub(before)
        });
        assert!(used.unwrap().join().unwrap() > 3 << 20);
    }

    #[test]
    fn an_anonymous_mapping_is_heap() {
        let before = of_this_process().unwrap().heap;
        let length = 64 << 20;
        let start = map_zeroed(length).unwrap();
        // SAFETY: as long as it was mapped, and nobody else has it.
        unsafe { start.write_bytes(1, length) };
        let after = of_this_process().unwrap().heap;
        // SAFETY: it is of that length, and not used any more.
        unsafe { unmap(start, length) };
        assert!(after.saturating_sub(before) > 48 << 20, "{before} {after}");
    }
}
