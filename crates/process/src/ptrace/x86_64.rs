//! The registers of x86-64.

use std::io;

use super::{ptrace, register_set, set_register_set, words_of};

/// The general registers of a thread.
pub type Registers = libc::user_regs_struct;

/// The registers of a stopped thread.
pub fn registers(tid: u32) -> io::Result<Registers> {
    // SAFETY: all zeroes are a value of this structure of numbers.
    let mut registers: Registers = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETREGS, tid, 0, &raw mut registers as usize)?;
    Ok(registers)
}

/// Sets the registers of a stopped thread.
pub fn set_registers(tid: u32, registers: &Registers) -> io::Result<()> {
    let mut registers = *registers;
    ptrace(libc::PTRACE_SETREGS, tid, 0, &raw mut registers as usize).map(drop)
}

/// The kernel's number of the extended registers: x87, SSE, AVX and later ones.
const XSTATE: usize = 0x202;

/// The extended registers of a stopped thread, in the kernel's format.
pub fn extended(tid: u32) -> io::Result<Vec<u8>> {
    register_set(tid, XSTATE)
}

/// Sets the extended registers, as [`extended`] returned them.
pub fn set_extended(tid: u32, bytes: &[u8]) -> io::Result<()> {
    set_register_set(tid, XSTATE, bytes)
}

/// The stack pointer of a stopped thread, and the words in its registers. No caller of a system call keeps a value in
/// the vector registers: their values are old. So they are left out if the thread waits in a call.
pub fn words(tid: u32) -> io::Result<(u64, Vec<u64>)> {
    let all = registers(tid)?;
    let mut words = vec![
        all.r15,
        all.r14,
        all.r13,
        all.r12,
        all.rbp,
        all.rbx,
        all.r11,
        all.r10,
        all.r9,
        all.r8,
        all.rax,
        all.rcx,
        all.rdx,
        all.rsi,
        all.rdi,
        all.orig_rax,
    ];
    let waits = (all.orig_rax as i64) >= 0;
    words.extend(words_of(&if waits { Vec::new() } else { extended(tid).unwrap_or_default() }));
    Ok((all.rsp, words))
}

/// Whether the two bytes before an address are a system call's instruction.
pub fn is_after_call(tid: u32, at: u64) -> io::Result<bool> {
    const SYSCALL: i64 = 0x050f;
    let from = at.checked_sub(2).ok_or(io::ErrorKind::InvalidData)?;
    Ok(ptrace(libc::PTRACE_PEEKTEXT, tid, from as usize, 0)? & 0xffff == SYSCALL)
}

/// The code segment of 64-bit code.
pub const USER_CODE: u64 = 0x33;

/// If a stop has ended the thread's call, lets it make the call again.
pub fn hide(tid: u32) -> io::Result<()> {
    let mut registers = registers(tid)?;
    let in_call = registers.cs == USER_CODE && registers.orig_rax as i64 >= 0;
    if !in_call || registers.rax as i64 != -i64::from(libc::EINTR) {
        return Ok(());
    }
    if is_after_call(tid, registers.rip)? {
        registers.rip -= 2;
        registers.rax = registers.orig_rax;
        registers.orig_rax = u64::MAX;
        set_registers(tid, &registers)?;
    }
    Ok(())
}
