//! Compares the frame with one that the kernel has made for a handler of this process.

use std::sync::Mutex;

use super::*;

/// The address of the kernel's frame, its bytes, and those of its extended state.
type Found = (u64, Vec<u8>, Vec<u8>);

/// The kernel's frame, as a handler has found it.
static FOUND: Mutex<Option<Found>> = Mutex::new(None);

extern "C" fn handler(_signal: i32, _about: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel has written the whole frame there, and it stays there until the handler returns. It contains the size of the
    // extended state.
    unsafe {
        let frame = context.cast::<u8>().sub(8);
        let bytes = std::slice::from_raw_parts(frame, BYTES as usize).to_vec();
        let at = u64::from_le_bytes(bytes[232..240].try_into().unwrap());
        let extended = std::ptr::with_exposed_provenance::<u8>(at as usize);
        let size = extended.add(SOFTWARE + 16).cast::<u32>().read();
        let extended = std::slice::from_raw_parts(extended, size as usize + 4).to_vec();
        *FOUND.try_lock().unwrap() = Some((frame.expose_provenance() as u64, bytes, extended));
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// A frame is made from the registers in the kernel's frame. It must equal the kernel's frame byte by byte, except for
/// facts that only a handler is told.
#[test]
fn a_frame_is_as_the_kernel_makes_it() {
    // SAFETY: the handler above takes these arguments, and only copies bytes. The signal is raised for this thread.
    let (at, kernel, extended) = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
        libc::raise(libc::SIGUSR1);
        FOUND.lock().unwrap().take().unwrap()
    };
    let one = |place: usize| word(&kernel, place);
    // SAFETY: all zeroes are a value of this structure of numbers.
    let mut registers: Registers = unsafe { std::mem::zeroed() };
    [registers.r8, registers.r9, registers.r10, registers.r11] = [48, 56, 64, 72].map(one);
    [registers.r12, registers.r13, registers.r14, registers.r15] = [80, 88, 96, 104].map(one);
    [registers.rdi, registers.rsi, registers.rbp, registers.rbx] = [112, 120, 128, 136].map(one);
    [registers.rdx, registers.rax, registers.rcx, registers.rsp] = [144, 152, 160, 168].map(one);
    [registers.rip, registers.eflags] = [176, 184].map(one);
    (registers.cs, registers.ss) = (0x33, 0x2b);
    let own = bytes(&registers, one(304), one(232), one(0));
    let differ: Vec<usize> = (0..312).filter(|place| own[*place] != kernel[*place]).collect();
    // The facts that only a handler gets: the alternate stack; the processor's error code; the trap; the address of a fault. The kernel
    // does not write the eight words after the pointer to the extended state: they are what was on the stack before.
    let told = |place: &usize| (24..48).contains(place) || (200..232).contains(place) || (240..304).contains(place);
    assert!(differ.iter().all(told), "{differ:?}\n{own:x?}\n{kernel:x?}");
    // The frame's place is that at which the kernel puts it below the other data on the stack.
    assert_eq!(at % 16, 8);
    assert_eq!(place(one(232)), at);
    assert_eq!(one(232) % 64, 0);
    // The extended state contains its own parts. A tracer finds the parts at the same offset.
    let mut told = extended.clone();
    told[SOFTWARE..SOFTWARE + 8].copy_from_slice(&extended[SOFTWARE + 8..SOFTWARE + 16]);
    let (parts, size) = parts(&told).unwrap();
    assert_eq!((parts, size + 4), (word(&extended, SOFTWARE + 8), extended.len()));
    assert_eq!(Extended::new(&told, parts, size).unwrap().bytes(), extended);
}

#[test]
fn a_part_that_has_no_room_is_not_left_out_silently() {
    let mut told = vec![0; 832];
    told[SOFTWARE..SOFTWARE + 8].copy_from_slice(&7_u64.to_le_bytes());
    told[IN_USE..IN_USE + 8].copy_from_slice(&4_u64.to_le_bytes());
    assert!(Extended::new(&told, 7, 832).is_some());
    assert!(Extended::new(&told, 3, 576).is_none(), "the third part is in use");
    assert!(Extended::new(&told[..100], 3, 576).is_none());
}
