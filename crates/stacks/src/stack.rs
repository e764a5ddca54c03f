//! Reads the calling thread's stack. In: addresses, which may come from a damaged frame. Out: words of mapped memory.
//!
//! All memory between the stack pointer and the end of the thread's own stack is mapped while the thread runs. The stack of the process's
//! first thread is the mapping `[stack]`. The stack of another thread ends at its control block, which glibc puts there. The words of these
//! stacks are read directly. For other addresses (a coroutine's stack, a signal's stack) the kernel copies page by page, and refuses
//! unmapped memory.

use crate::copy::{ADDRESSES, PAGE, copy};
use crate::mappings::mappings_at;

/// The maximum number of pages that one walk copies.
const MOST_COPIES: u32 = 64;
/// The first thread's stack may have grown by this many bytes below its mapping since the mapping was read. The kernel keeps a gap of twice
/// this size free.
const GROWTH: u64 = 512 << 10;

/// A thread's knowledge of its stack. It is for a walker that several threads use in turn. All zeros means that nothing is known yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The first address that may be read directly.
    pub low: u64,
    /// The end of the stack.
    pub high: u64,
    /// The number of walks that began outside the stack.
    pub misses: u64,
}

/// The known bounds of a thread's stack. All zeros means that nothing is known yet.
#[repr(C)]
pub struct StackBounds {
    /// The bounds of the thread's own stack; 0 and 0 if they are not known.
    low: u64,
    high: u64,
    /// The number of walks that began outside the thread's own stack.
    misses: u64,
    /// The present walk's first address.
    from: u64,
    copies: u32,
    /// The address of the page that was copied last; 0 if none was.
    page: u64,
    copy: [u64; PAGE as usize / 8],
}

impl StackBounds {
    /// The thread's knowledge of its stack.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { low: self.low, high: self.high, misses: self.misses }
    }

    /// Changes to another thread, which has this knowledge of its stack.
    pub(crate) fn set_bounds(&mut self, bounds: Bounds) {
        (self.low, self.high, self.misses, self.page) = (bounds.low, bounds.high, bounds.misses, 0);
    }

    /// Begins a walk at this stack pointer.
    ///
    /// # Safety
    ///
    /// `sp` must be the stack pointer of a function of the calling thread that does not return before the last word is
    /// read. Or it must be in no thread's stack. No other thread may have used this value.
    #[inline]
    pub unsafe fn begin(&mut self, sp: u64) {
        (self.page, self.copies, self.from) = (0, 0, sp);
        if sp < self.low || sp >= self.high {
            self.from = self.find(sp);
        }
    }

    /// Finds the bounds of the thread's own stack. If `sp` is not in it, no word is read directly.
    #[cold]
    fn find(&mut self, sp: u64) -> u64 {
        if self.high != 0 && sp < self.high && sp >= self.low.saturating_sub(GROWTH) && self.is_first() {
            self.low = sp;
            return sp;
        }
        // Before Linux 6.11 this reads all mappings. So for calls from a coroutine's stack it reads them only at the 1st, 2nd, 4th, 8th
        // call and so on.
        self.misses += 1;
        if self.misses.is_power_of_two() {
            self.read_mappings(sp);
        }
        // A walk from a signal's stack may later reach the thread's own stack.
        if sp >= self.low && sp < self.high { sp } else { self.low }
    }

    /// Whether the bounds are those of the first thread's stack, which grows.
    fn is_first(&self) -> bool {
        control_block() != self.high
    }

    fn read_mappings(&mut self, sp: u64) {
        let control = control_block();
        let [own, here] = mappings_at([control, sp], self.buffer());
        if own.is_writable && (own.low..control).contains(&sp) {
            (self.low, self.high) = (own.low, control);
        } else if here.is_writable && here.is_first {
            (self.low, self.high) = (here.low, here.high);
        }
    }

    /// The word at an address; `None` if it is not mapped.
    #[inline]
    pub fn word(&mut self, address: u64) -> Option<u64> {
        if address >= self.from && address < self.high && self.high - address >= 8 {
            // SAFETY: the word is mapped while the thread runs: see the head of this file, and `begin`. If another
            // thread writes there, the word may have any value.
            return Some(unsafe { std::ptr::with_exposed_provenance::<u64>(address as usize).read_unaligned() });
        }
        self.copied(address)
    }

    #[cold]
    fn copied(&mut self, address: u64) -> Option<u64> {
        if address & 7 != 0 || !(PAGE..ADDRESSES).contains(&address) {
            return None;
        }
        let page = address & !(PAGE - 1);
        if page != self.page {
            self.copies += 1;
            self.page = 0;
            if self.copies > MOST_COPIES || copy(page, bytes_of(&mut self.copy)) != PAGE as usize {
                return None;
            }
            self.page = page;
        }
        self.copy.get((address - page) as usize / 8).copied()
    }

    /// Whether an address is in the thread's own stack, if the bounds of the stack are known. The stack has no code.
    pub(crate) fn has(&self, address: u64) -> bool {
        (self.low..self.high).contains(&address)
    }

    /// The page's buffer, for other uses. If the page is needed again, it is copied again.
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        self.page = 0;
        bytes_of(&mut self.copy)
    }
}

fn bytes_of(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: the same memory; bytes need no alignment, and any bytes are words.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// The address of the calling thread's control block.
#[cfg(target_arch = "x86_64")]
fn control_block() -> u64 {
    let block: u64;
    // SAFETY: the first word of the block is its address, as the ABI says.
    unsafe {
        core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) block, options(nostack, preserves_flags, readonly))
    };
    block
}

/// The address of the calling thread's control block. glibc puts the thread's structure right below.
#[cfg(target_arch = "aarch64")]
fn control_block() -> u64 {
    let block: u64;
    // SAFETY: only reads a register.
    unsafe { core::arch::asm!("mrs {}, tpidr_el0", out(reg) block, options(nomem, nostack, preserves_flags)) };
    block
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn control_block() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack() -> Box<StackBounds> {
        Box::new(StackBounds { low: 0, high: 0, misses: 0, from: 0, copies: 0, page: 0, copy: [0; 512] })
    }

    fn address_of<T>(of: &T) -> u64 {
        std::ptr::from_ref(of).addr() as u64
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn a_thread_s_own_stack_is_read_directly_and_no_further_than_its_end() {
        let thread = || {
            let mark = [0x1234_u64, 0];
            let mut stack = stack();
            // SAFETY: an address of this thread's stack, or of no stack.
            unsafe { stack.begin(address_of(&mark)) };
            assert_eq!(stack.word(address_of(&mark)), Some(0x1234));
            assert_eq!((stack.copies, stack.high), (0, control_block()), "read directly");
            assert!(stack.low < address_of(&mark) && address_of(&mark) - stack.low < 64 << 20);
        };
        std::thread::spawn(thread).join().unwrap();
    }

    #[test]
    fn what_is_not_mapped_is_no_word() {
        let elsewhere = Box::new([7_u64; 1024]);
        let mut stack = stack();
        // SAFETY: an address of this thread's stack, or of no stack.
        unsafe { stack.begin(address_of(&*elsewhere)) };
        assert_eq!(stack.word(address_of(&*elsewhere)), Some(7), "copied by the kernel");
        for address in [0, 8, 1 << 20, 1 << 46, u64::MAX, u64::MAX - 7, address_of(&*elsewhere) + 1] {
            assert_eq!(stack.word(address), None, "{address:x}");
        }
        // SAFETY: our own page, which cannot be read, and is unmapped at the end.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0);
            assert_eq!(stack.word(page.addr() as u64), None);
            libc::munmap(page, 4096);
        }
    }

    #[test]
    fn a_walk_has_no_more_than_so_many_pages_copied() {
        let elsewhere = vec![7_u64; 512 * 200];
        let mut stack = stack();
        // SAFETY: an address of this thread's stack, or of no stack.
        unsafe { stack.begin(address_of(&elsewhere[0])) };
        let words = (0..199).filter(|page| stack.word(address_of(&elsewhere[page * 512])).is_some()).count();
        assert_eq!(words, MOST_COPIES as usize);
    }
}
