//! How a borrowed thread of x86-64 waits and ends its call. It raises a signal at the end of a function, for which the process has no handler.

use std::io;

use allocanary_heap::Memory;
use allocanary_heap::ptrace::{self, Registers, Resume, StopState};
use allocanary_stacks::walk::WalkRegisters;

use super::{BorrowPlan, Borrowed, WaitState};
use crate::give_back::Refusal;
use crate::give_back::borrow::chain::NOTHING;
use crate::give_back::borrow::held::ends_by_signal;
use crate::give_back::borrow::steps::step;
use crate::give_back::borrow::threads::WaitingThread;
use crate::give_back::borrow::waits;

/// How the thread continues until the end of a function.
pub const TO_END: Resume = Resume::Freely;

/// The results of interrupted system calls that the kernel repeats by itself: ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND and
/// ERESTART_RESTARTBLOCK.
const RESTARTED: [i64; 4] = [-512, -513, -514, -516];

/// The state of a thread that was waiting.
pub fn state(prepared: &BorrowPlan, waiting: &WaitingThread, found: &Registers) -> WaitState {
    let arguments = [found.rdi, found.rsi, found.rdx, found.r10, found.r8, found.r9];
    let now = waits::harmless(found.orig_rax as i64, &arguments, |at| prepared.reader.word(at));
    if now != Some(waiting.wait) || !is_waiting(waiting.tid, found) {
        return WaitState::GoneOn;
    }
    let is_ended = found.rax as i64 == -i64::from(libc::EINTR);
    if is_ended { WaitState::Interrupted } else { WaitState::Waits }
}

/// Where a thread is. There is no register of return addresses.
pub fn place(registers: &Registers) -> (WalkRegisters, u64) {
    (WalkRegisters { pc: registers.rip, sp: registers.rsp, bp: registers.rbp }, 0)
}

/// The thread pointer.
pub fn pointer(_tid: u32, registers: &Registers) -> io::Result<u64> {
    Ok(registers.fs_base)
}

/// The state of a thread that a frame does not restore, if it has one. The extended state shows all of it.
pub fn unusual(_tid: u32) -> Option<&'static str> {
    None
}

impl Borrowed<'_> {
    /// The result of the function, if this stop is its end.
    pub(super) fn result(&mut self, stop: StopState) -> Result<Option<u64>, Refusal> {
        let StopState::By(signal) = stop else { return Ok(None) };
        if Some(signal) != self.prepared.notice {
            return Ok(None);
        }
        let bytes = self.prepared.reader.own_bytes(self.chain.result(), 8)?;
        let result = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        Ok(Some(result).filter(|result| *result != NOTHING))
    }

    /// Nothing is needed here before the thread's state is restored.
    pub(super) fn before_put_back(&mut self) {}

    /// Restores the thread's mask and registers, so that it waits again. Returns whether the registers were set.
    pub(super) fn wait_again(&mut self) -> bool {
        let _ = ptrace::set_mask(self.tid, self.mask);
        step();
        // If the stop has ended the wait, the thread makes the same call again at once. It does not if a signal has
        // arrived that ends the call.
        let is_again = self.interrupted && !ends_by_signal(self.pid, self.tid, 0);
        let registers = if is_again { Registers { orig_rax: u64::MAX, ..self.again } } else { self.found };
        ptrace::set_registers(self.tid, &registers).is_ok()
    }
}

/// Whether a stopped thread was in a system call of 64-bit code that the kernel can make again, or that has just ended with success.
fn is_waiting(tid: u32, registers: &Registers) -> bool {
    let result = registers.rax as i64;
    registers.cs == ptrace::USER_CODE
        && registers.orig_rax as i64 >= 0
        && (RESTARTED.contains(&result) || result == -i64::from(libc::EINTR) || result >= 0)
        && ptrace::is_after_call(tid, registers.rip).unwrap_or(false)
}

/// The registers with which a thread makes its call again without the kernel's help. If the call has ended, the registers with which the
/// thread continues. `None` if the call is not known.
pub fn again(waiting: &WaitingThread, found: &Registers) -> Option<Registers> {
    if found.rax as i64 >= 0 {
        return Some(*found);
    }
    let arguments = [found.rdi, found.rsi, found.rdx, found.r10, found.r8, found.r9];
    let is_same = (arguments, found.rsp, found.rip) == (waiting.told.arguments, waiting.told.sp, waiting.told.pc);
    let number = match found.orig_rax as i64 {
        libc::SYS_restart_syscall => waiting.number.filter(|_| is_same)?,
        number => number,
    };
    Some(Registers { rip: found.rip - 2, rax: number as u64, ..*found })
}

/// Whether a thread that was stopped had slept in a system call, and was not woken.
pub fn sleeps(_tid: u32, registers: &Registers) -> bool {
    registers.orig_rax as i64 >= 0 && RESTARTED.contains(&(registers.rax as i64))
}

/// Whether a thread waits for a lock, and was not woken for it. If it had been woken, abandoning the call would lose
/// that wake-up.
pub fn is_at_lock(tid: u32, registers: &Registers) -> bool {
    registers.orig_rax as i64 == libc::SYS_futex && sleeps(tid, registers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_that_was_not_woken_is_taken_back_from_a_lock() {
        let mut registers = Registers { orig_rax: libc::SYS_futex as u64, rax: -512_i64 as u64, ..zeroes() };
        assert!(is_at_lock(1, &registers));
        registers.rax = 0;
        assert!(!is_at_lock(1, &registers), "it has been woken for the lock, and nobody else was");
        registers = Registers { orig_rax: libc::SYS_madvise as u64, rax: -512_i64 as u64, ..zeroes() };
        assert!(!is_at_lock(1, &registers) && sleeps(1, &registers));
    }

    #[test]
    fn a_wait_begins_again_at_its_instruction_and_a_result_stays() {
        let found = Registers { orig_rax: libc::SYS_poll as u64, rax: -516_i64 as u64, rip: 0x1002, ..zeroes() };
        let wait = waits::harmless(libc::SYS_poll, &[0; 6], |_| None).unwrap();
        let told = waits::SyscallState { number: libc::SYS_restart_syscall, arguments: [0; 6], sp: 0, pc: 0x1002 };
        let waiting = WaitingThread { tid: 1, wait, told, number: Some(libc::SYS_poll) };
        let again = |found: &Registers| super::again(&waiting, found).map(|one| (one.rip, one.rax));
        let goes_on = Registers { orig_rax: libc::SYS_restart_syscall as u64, ..found };
        assert_eq!(again(&goes_on), Some((0x1000, libc::SYS_poll as u64)));
        assert_eq!(again(&Registers { rsp: 8, ..goes_on }), None, "another wait by now");
        assert_eq!(again(&found), Some((0x1000, libc::SYS_poll as u64)));
        assert_eq!(again(&Registers { rax: 1, ..found }), Some((0x1002, 1)));
    }

    fn zeroes() -> Registers {
        // SAFETY: all zeroes are a value of this structure of numbers.
        unsafe { std::mem::zeroed() }
    }
}
