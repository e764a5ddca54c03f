//! Computes the room below a thread's stack pointer: the number of bytes that certainly belong to its stack. A thread may run on a
//! coroutine's stack or on a signal's stack, whose size is not visible from outside. Then the result is `None`.

use allocanary_heap::{Mapping, Memory, PAGE};
use allocanary_sys::proc::files::{ProcEntry, path};
use allocanary_sys::sys::{page_bytes, read_whole};

/// The bytes that a call needs below the frames. `malloc_trim` takes 1.6 KiB at most, a purge of jemalloc 1.9 KiB.
pub const NEEDED: u64 = 24 << 10;

/// The pages that the kernel leaves free below the first thread's stack.
const GAP: u64 = 256;

/// The bytes of a thread's own structure in which glibc records its stack. The structure begins at the thread pointer; on aarch64 it ends
/// there.
const STRUCTURE: u64 = 0x900;

/// The bytes of the stack below `sp`. `pointer` is the thread pointer.
pub fn below(memory: &dyn Memory, pid: u32, sp: u64, pointer: u64) -> Option<u64> {
    let mapping = memory.mapping(sp).filter(|one| one.writable && !one.shared)?;
    if mapping.name == "[stack]" {
        return Some(of_first(memory.mappings(), mapping, sp, limit(pid), GAP * page_bytes()));
    }
    let mut bytes = vec![0; STRUCTURE as usize];
    let begin = if cfg!(target_arch = "aarch64") { pointer.checked_sub(STRUCTURE)? } else { pointer };
    memory.read(begin, &mut bytes).then_some(())?;
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let (from, guard) = words.windows(3).find_map(|words| stack_block(words, sp, pointer))?;
    Some(sp - (from + guard).max(mapping.from)).filter(|_| sp >= from + guard)
}

/// The room of the first thread's stack. That stack grows to its limit, or to `gap` bytes above the mapping below it.
fn of_first(mappings: &[Mapping], own: &Mapping, sp: u64, limit: u64, gap: u64) -> u64 {
    let under = mappings.iter().filter(|one| one.to <= own.from).map(|one| one.to).max().unwrap_or(0);
    let lowest = own.to.saturating_sub(limit).max(under + gap).min(own.from);
    sp - lowest
}

/// The begin of the stack and the size of its guard, if these three words of a thread's structure are the stack's address, its size and the
/// guard's size. The structure itself is at the end of the stack.
fn stack_block(words: &[u64], sp: u64, pointer: u64) -> Option<(u64, u64)> {
    let [from, size, guard] = *words else { return None };
    let end = from.checked_add(size)?;
    let aligned = from % PAGE == 0 && size % PAGE == 0 && guard % PAGE == 0;
    let is_it = aligned && from != 0 && guard < size && (from..pointer).contains(&sp) && (from..end).contains(&pointer);
    is_it.then_some((from, guard))
}

/// The maximum size of the first thread's stack.
fn limit(pid: u32) -> u64 {
    let text = read_whole(path(pid, ProcEntry::Limits)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find_map(|line| line.strip_prefix("Max stack size"));
    match line.and_then(|line| line.split_ascii_whitespace().next()) {
        Some("unlimited") => u64::MAX,
        Some(number) => number.parse().unwrap_or(0),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_heap::LiveProcess;

    #[test]
    fn a_thread_s_stack_is_known_by_its_structure_and_another_place_is_not() {
        let room = std::thread::Builder::new().stack_size(256 << 10).spawn(|| {
            let mark = 0_u64;
            let pointer: u64;
            // SAFETY: only reads a register.
            #[cfg(target_arch = "aarch64")]
            unsafe {
                std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem))
            };
            // SAFETY: the first word of a thread's structure is its address.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly))
            };
            let pid = std::process::id();
            let live = LiveProcess::open(pid).unwrap();
            let elsewhere = vec![0_u64; 1 << 20];
            let at = |word: *const u64| below(&live, pid, word.addr() as u64, pointer);
            (at(&raw const mark), at(elsewhere.as_ptr()), at(std::ptr::without_provenance(8)))
        });
        let (own, elsewhere, nowhere) = room.unwrap().join().unwrap();
        assert!(own.is_some_and(|own| (100 << 10..256 << 10).contains(&own)), "{own:?}");
        assert_eq!((elsewhere, nowhere), (None, None));
    }

    #[test]
    fn the_first_thread_s_stack_grows_to_its_limit_or_to_its_neighbour() {
        let mapping = |from, to| Mapping { from, to, ..Mapping::default() };
        let (own, sp) = (mapping(0x8000_0000, 0x8002_0000), 0x8001_0000);
        let room = |under: (u64, u64), limit, gap| of_first(&[mapping(under.0, under.1)], &own, sp, limit, gap);
        assert_eq!(room((0x1000, 0x2000), 8 << 20, 1 << 20), 0x8001_0000 - (0x8002_0000 - (8 << 20)));
        assert_eq!(room((0x7fe0_0000, 0x7fee_0000), 8 << 20, 1 << 20), 0x8001_0000 - 0x7ffe_0000);
        assert_eq!(room((0x7fe0_0000, 0x7fee_0000), 8 << 20, 4 << 20), 0x1_0000, "pages of 16 KiB");
        assert_eq!(room((0x7ff0_0000, 0x7fff_0000), u64::MAX, 1 << 20), 0x1_0000);
    }
}
