//! Finds out from a thread's stack whether the thread is in a signal's handler.
//!
//! A handler may have interrupted `malloc`. Then the thread holds malloc's lock. The kernel gives the handler the address of the code that
//! ends it: on the stack, or in the register of return addresses, which the handler saves on the stack. This code has the same few bytes in
//! every C library and in the kernel: it makes the system call `rt_sigreturn`.

use allocanary_heap::{Mapping, Memory};

/// `mov x8, #139; svc #0`
#[cfg(target_arch = "aarch64")]
const ENDS: [&[u8]; 1] = [&[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4]];
/// `mov $15, %rax; syscall`, as in glibc, musl and Go, and its shorter form.
#[cfg(target_arch = "x86_64")]
const ENDS: [&[u8]; 2] = [&[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05], &[0xb8, 15, 0, 0, 0, 0x0f, 0x05]];

/// The longest part of a stack that is examined, in bytes.
const LONGEST: u64 = 8 << 20;

/// Whether the code at an address ends a handler. A frame that returns there is a handler's, even if a table says that the code
/// belongs to another function.
pub fn ends_one(at: u64, read: &impl Fn(u64, &mut [u8]) -> bool) -> bool {
    ENDS.iter().any(|end| {
        let mut code = vec![0; end.len()];
        read(at, &mut code) && code == **end
    })
}

/// Whether a handler's frame may be on the stack above an address. `read` copies the stack's present bytes. `bits` are the bits of a word that
/// are an address. A stack that cannot be read may have one.
pub fn may_be_in_one(memory: &dyn Memory, stack: u64, bits: u64, read: impl Fn(u64, &mut [u8]) -> bool) -> bool {
    let Some(mapping) = memory.mapping(stack) else { return true };
    let to = mapping.to.min(stack.saturating_add(LONGEST));
    let from = stack.next_multiple_of(8);
    let mut bytes = vec![0; to.saturating_sub(from) as usize / 8 * 8];
    if !read(from, &mut bytes) {
        return true;
    }
    let mut known: Vec<u64> = Vec::new();
    bytes.chunks_exact(8).any(|word| {
        let at = u64::from_le_bytes(word.try_into().expect("a chunk has eight bytes")) & bits;
        let is_code = |one: &Mapping| one.executable && one.from <= at && at < one.to;
        if at < 4096 || known.contains(&at) || !memory.mapping(at).is_some_and(is_code) {
            return false;
        }
        known.push(at);
        ends_one(at, &read)
    })
}
