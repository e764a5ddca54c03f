//! The registers of aarch64.
//!
//! When a thread stops in a system call that is made again, the kernel has already gone back: the program counter is at the call's instruction,
//! and the first argument is in its register again.

use std::io;

use super::{ptrace, register_set, set_register_set, words_of};

// The kernel's numbers of sets of registers.
const GENERAL: usize = 1;
const VECTORS: usize = 2;
const POINTER: usize = 0x401;
const CALL: usize = 0x404;
const MATRIX: usize = 0x40c;
const SHADOW_STACK: usize = 0x410;

/// The general registers of a thread, as the kernel lays them out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Registers {
    /// x0 to x30.
    pub x: [u64; 31],
    /// The stack pointer.
    pub sp: u64,
    /// The address of the next instruction.
    pub pc: u64,
    /// The state of the processor.
    pub pstate: u64,
}

/// The number of words of [`Registers`].
const WORDS: usize = 34;

impl Registers {
    /// All words, in the kernel's order.
    pub fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[..31].copy_from_slice(&self.x);
        words[31..].copy_from_slice(&[self.sp, self.pc, self.pstate]);
        words
    }
}

/// The registers of a stopped thread.
pub fn registers(tid: u32) -> io::Result<Registers> {
    let words = words_of(&register_set(tid, GENERAL)?);
    let words: [u64; WORDS] = words.try_into().map_err(|_| io::Error::other("its registers are not 34 words"))?;
    let mut x = [0; 31];
    x.copy_from_slice(&words[..31]);
    Ok(Registers { x, sp: words[31], pc: words[32], pstate: words[33] })
}

/// Sets the registers of a stopped thread. At the begin and at the end of a system call the kernel does not set x7.
pub fn set_registers(tid: u32, registers: &Registers) -> io::Result<()> {
    let bytes: Vec<u8> = registers.words().into_iter().flat_map(u64::to_le_bytes).collect();
    set_register_set(tid, GENERAL, &bytes)
}

/// The vector registers of a stopped thread, in the kernel's format.
pub fn extended(tid: u32) -> io::Result<Vec<u8>> {
    register_set(tid, VECTORS)
}

/// Sets the vector registers, as [`extended`] returned them.
pub fn set_extended(tid: u32, bytes: &[u8]) -> io::Result<()> {
    set_register_set(tid, VECTORS, bytes)
}

/// The thread pointer of a stopped thread.
pub fn thread_pointer(tid: u32) -> io::Result<u64> {
    let words = words_of(&register_set(tid, POINTER)?);
    words.first().copied().ok_or_else(|| io::Error::other("it has no thread pointer"))
}

/// The system call in which a stopped thread is; -1 if it is in none.
fn call(tid: u32) -> io::Result<i32> {
    let bytes = register_set(tid, CALL)?;
    let number = bytes.get(..4).and_then(|bytes| bytes.try_into().ok());
    number.map(i32::from_le_bytes).ok_or_else(|| io::Error::other("the number of its system call is missing"))
}

/// Whether a stopped thread is at the begin or the end of a system call.
pub fn is_in_call(tid: u32) -> io::Result<bool> {
    Ok(call(tid)? >= 0)
}

/// Lets a thread that is stopped at the begin of a system call skip it.
pub fn skip_call(tid: u32) -> io::Result<()> {
    set_register_set(tid, CALL, &(-1_i32).to_le_bytes())
}

/// The state of a stopped thread that a signal's frame of the usual size does not restore, if the thread has one.
pub fn unusual_state(tid: u32) -> Option<&'static str> {
    // The first word of the matrix' header is its size. If the matrix is off, only the header is there.
    const HEADER: u32 = 16;
    // A processor or a kernel that does not have a set of registers returns an error.
    let first = |number: usize| {
        let bytes = register_set(tid, number).ok()?;
        bytes.get(..4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
    };
    if first(MATRIX).is_some_and(|size| size > HEADER) {
        Some("with registers for matrices in use (SME)")
    } else if first(SHADOW_STACK).is_some_and(|features| features & 1 != 0) {
        Some("with a shadow stack (GCS), which refuses a call that the program did not make")
    } else {
        None
    }
}

/// The stack pointer of a stopped thread, and the words in its registers. No caller of a system call keeps a value in
/// the vector registers: their values are old. So they are left out if the thread waits in a call.
pub fn words(tid: u32) -> io::Result<(u64, Vec<u64>)> {
    let all = registers(tid)?;
    let mut words = all.x.to_vec();
    if !is_in_call(tid).unwrap_or(false) {
        words.extend(words_of(&extended(tid).unwrap_or_default()));
    }
    Ok((all.sp, words))
}

/// Whether the instruction at an address is that of a system call.
pub fn is_at_call(tid: u32, at: u64) -> io::Result<bool> {
    const SVC: i64 = 0xd400_0001;
    Ok(ptrace(libc::PTRACE_PEEKTEXT, tid, at as usize, 0)? & 0xffff_ffff == SVC)
}

/// Does nothing: the first argument of a call that a stop has ended is not known any more. See [`make_again`].
pub fn hide(_tid: u32) -> io::Result<()> {
    Ok(())
}

/// If a stop has ended the call that a thread made, lets the thread make it again. In: the call's number and arguments, and the stack
/// pointer and the program counter that the kernel has reported while the thread was in the call. Returns whether this was so.
pub fn make_again(tid: u32, number: i64, arguments: &[u64; 6], (sp, pc): (u64, u64)) -> io::Result<bool> {
    let mut registers = registers(tid)?;
    let is_it = registers.x[0] as i64 == -i64::from(libc::EINTR)
        && registers.x[1..6] == arguments[1..]
        && registers.x[8] as i64 == number
        && (registers.sp, registers.pc) == (sp, pc)
        && is_at_call(tid, pc.wrapping_sub(4))?;
    if is_it {
        (registers.x[0], registers.pc) = (arguments[0], pc - 4);
        set_registers(tid, &registers)?;
    }
    Ok(is_it)
}
