//! Whether a word on the stack is the return address of a running signal handler. The word may also be left over: the C library's
//! `sigaction` keeps the same address in a variable. In: the word's place, and the end of the stack. Out: yes or no.
//!
//! After the return address the kernel writes the state of the interrupted code: flags, with few possible values, and further up,
//! after the registers, the code segment, with two possible values for 64-bit code. These are checked. So it does not matter on
//! which stack the interrupted code ran.

/// Whether a handler's frame may be at `place`, which has the restorer's address.
///
/// # Safety
///
/// The words from `place`, which is aligned, to `end` can be read.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn may_be_at(place: usize, end: usize) -> bool {
    /// `struct rt_sigframe`: the return address, `struct ucontext` (flags, link, stack, then 18 registers), `siginfo_t`.
    const FLAGS: usize = 8;
    const SEGMENTS: usize = FLAGS + 40 + 18 * 8;
    const WHOLE: usize = 440;
    /// The code segments of programs: that of Linux, and that of a Xen guest.
    const CODE: [u16; 2] = [0x33, 0xe033];
    if end < place || end - place < WHOLE {
        return false;
    }
    // SAFETY: below the end, and aligned. A volatile read, because the compiler does not know this memory.
    let word = |offset: usize| unsafe { std::ptr::with_exposed_provenance::<usize>(place + offset).read_volatile() };
    word(FLAGS) <= u32::MAX as usize && CODE.contains(&(word(SEGMENTS) as u16))
}

/// On other processors the layout of the frame is not known.
///
/// # Safety
///
/// None.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn may_be_at(_place: usize, _end: usize) -> bool {
    true
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::handlers::signals::action;
    use std::ffi::c_int;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static FOUND: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

    #[test]
    fn a_running_handlers_frame_is_one_and_its_address_alone_is_none() {
        extern "C" fn handler(signal: c_int) {
            let (mut here, restorer) = (0_usize, action(signal).restorer);
            let start = (&raw mut here).expose_provenance();
            let end = start + 8192;
            for place in (start..end).step_by(8) {
                // SAFETY: the test below has more on this stack, and its words are aligned.
                unsafe {
                    if std::ptr::with_exposed_provenance::<usize>(place).read_volatile() == restorer {
                        FOUND[usize::from(may_be_at(place, end + 8192))].fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
        let below = [0_u8; 32 << 10]; // so that there is a stack above the handler
        std::hint::black_box(&below);
        // SAFETY: the handler reads its own stack, and only this test sends the signal.
        unsafe {
            let mut ours: libc::sigaction = std::mem::zeroed();
            ours.sa_sigaction = handler as extern "C" fn(c_int) as usize;
            libc::sigaction(libc::SIGUSR2, &ours, std::ptr::null_mut());
            libc::raise(libc::SIGUSR2);
        }
        assert_eq!(FOUND[1].load(Ordering::Relaxed), 1, "the frame");
        let left = [action(libc::SIGUSR2).restorer; 256];
        let place = (&raw const left).expose_provenance();
        // SAFETY: the array is longer than a frame.
        assert!(unsafe { !may_be_at(place, place + 2048) && !may_be_at(place, place + 8) });
    }
}
