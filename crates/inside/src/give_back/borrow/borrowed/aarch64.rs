//! How a borrowed thread of aarch64 waits and ends its call. The tracer lets it run from system call to system call. The end of a function is the
//! begin of the call that ends a signal's handler: its result is still in the first register.
//!
//! When a thread stops in a wait, the kernel has already gone back to the instruction of the call, or the call has ended with EINTR. So the
//! registers are compared with what the kernel has reported before the stop.

use std::io;
use std::time::Instant;

use allocanary_heap::Memory;
use allocanary_heap::ptrace::{self, Registers, Resume, StopState};
use allocanary_stacks::walk::WalkRegisters;
use allocanary_sys::proc::ProcStatus;

use super::{BorrowPlan, Borrowed, PATIENCE, WaitState};
use crate::give_back::Refusal;
use crate::give_back::borrow::steps::step;
use crate::give_back::borrow::threads::WaitingThread;
use crate::give_back::borrow::waits;

/// How the thread continues until the end of a function.
pub const TO_END: Resume = Resume::ToCall;

/// The size of an instruction.
const INSTRUCTION: u64 = 4;

/// The state of a thread that was waiting.
pub fn state(prepared: &BorrowPlan, waiting: &WaitingThread, found: &Registers) -> WaitState {
    let told = &waiting.told;
    let is_same = found.x[1..6] == told.arguments[1..] && found.x[8] as i64 == told.number && found.sp == told.sp;
    let now = waits::harmless(told.number, &told.arguments, |at| prepared.reader.word(at));
    let call = told.pc.wrapping_sub(INSTRUCTION);
    if !is_same || now != Some(waiting.wait) || !ptrace::is_at_call(waiting.tid, call).unwrap_or(false) {
        WaitState::GoneOn
    } else if found.pc == call && found.x[0] == told.arguments[0] {
        WaitState::Waits
    } else if found.pc == told.pc && found.x[0] as i64 == -i64::from(libc::EINTR) {
        WaitState::Interrupted
    } else {
        WaitState::GoneOn
    }
}

/// Where a thread is, and the register of return addresses.
pub fn place(registers: &Registers) -> (WalkRegisters, u64) {
    (WalkRegisters { pc: registers.pc, sp: registers.sp, bp: registers.x[29] }, registers.x[30])
}

/// The thread pointer.
pub fn pointer(tid: u32, _registers: &Registers) -> io::Result<u64> {
    ptrace::thread_pointer(tid)
}

/// The state of a thread that a frame does not restore, if it has one.
pub fn unusual(tid: u32) -> Option<&'static str> {
    ptrace::unusual_state(tid)
}

/// The registers with which a thread makes its call again without the kernel's help. `None` if the call is not known.
pub fn again(waiting: &WaitingThread, found: &Registers) -> Option<Registers> {
    let mut registers = Registers { pc: waiting.told.pc - INSTRUCTION, ..*found };
    (registers.x[0], registers.x[8]) = (waiting.told.arguments[0], waiting.number? as u64);
    Some(registers)
}

/// Whether a stopped thread sleeps in a system call: it was not woken, and the kernel makes the call again.
pub fn sleeps(tid: u32, registers: &Registers) -> bool {
    ptrace::is_at_call(tid, registers.pc).unwrap_or(false)
}

/// Whether a thread waits for a lock, and was not woken for it. If it had been woken, abandoning the call would lose
/// that wake-up.
pub fn is_at_lock(tid: u32, registers: &Registers) -> bool {
    registers.x[8] as i64 == libc::SYS_futex && sleeps(tid, registers)
}

/// Whether the kernel keeps the remaining time of such a wait, for a call of `restart_syscall`. Other calls are made again with the same
/// arguments: the kernel has written the remaining time there, or it begins again.
fn keeps_time(number: Option<i64>, arguments: &[u64; 6]) -> bool {
    match number {
        Some(libc::SYS_nanosleep) => true,
        Some(libc::SYS_clock_nanosleep) => arguments[1] as i32 & libc::TIMER_ABSTIME == 0,
        _ => false,
    }
}

impl Borrowed<'_> {
    /// The result of the function, if this stop is its end. The thread is then stopped outside of any call.
    pub(super) fn result(&mut self, stop: StopState) -> Result<Option<u64>, Refusal> {
        if stop != StopState::AtCall {
            return Ok(None);
        }
        let registers = self.registers()?;
        // At the begin of a call x7 is 0, at its end 1.
        let is_end = registers.x[7] == 0
            && registers.x[8] as i64 == libc::SYS_rt_sigreturn
            && registers.sp == self.chain.lowest
            && registers.pc == self.prepared.way.restore + 2 * INSTRUCTION;
        if !is_end {
            return Ok(None);
        }
        self.leave_call(registers)?;
        Ok(Some(registers.x[0]))
    }

    /// Stops a thread outside of the system call at whose begin it is. Only there all registers can be set. Until then, the thread would return
    /// through its frames if this command ended.
    fn leave_call(&mut self, registers: Registers) -> Result<(), Refusal> {
        let mut back = Registers { pc: self.prepared.way.restore, sp: self.chain.lowest, ..registers };
        back.x[30] = self.prepared.way.restore;
        self.set(&back)?;
        step();
        ptrace::skip_call(self.tid).map_err(|error| Refusal::of(self.pid, "skipping a call", error))?;
        step();
        self.stop_outside()
    }

    /// Lets a thread that is stopped in a system call continue, until it is stopped outside of the call.
    fn stop_outside(&mut self) -> Result<(), Refusal> {
        loop {
            // At each stop the kernel forgets that the thread was asked to stop.
            let _ = ptrace::interrupt(self.tid);
            step();
            self.resume(Resume::Freely, 0)?;
            match self.next(None)? {
                StopState::By(0) => {
                    step();
                    return Ok(());
                }
                StopState::By(signal) => return Err(self.fault(signal)),
                StopState::Ended => return Err(Refusal::Ended(self.pid)),
                StopState::AtCall | StopState::NotYet => {}
            }
        }
    }

    /// Registers are set only outside of a system call.
    pub(super) fn before_put_back(&mut self) {
        if ptrace::is_in_call(self.tid).unwrap_or(false) {
            let _ = self.registers().and_then(|registers| self.leave_call(registers));
        }
    }

    /// Restores the thread's mask and registers, so that it waits again. Returns whether the registers were set.
    pub(super) fn wait_again(&mut self) -> bool {
        if self.ends_by_signal_after() {
            return self.wait_again_for_signal();
        }
        let _ = ptrace::set_mask(self.tid, self.mask);
        step();
        if !keeps_time(self.waiting.number, &self.waiting.told.arguments) {
            return self.set(&self.again).is_ok();
        }
        let mut registers = self.again;
        registers.x[8] = libc::SYS_restart_syscall as u64;
        if self.set(&registers).is_err() {
            return false;
        }
        step();
        // The kernel may have no remaining time: the thread was about to begin its call when it was stopped. Then it begins its wait now.
        let stopped = self.enter_call().and_then(|()| self.stop_outside());
        if let Ok(now) = stopped.and_then(|()| self.registers()) {
            let is_ended = now.x[0] as i64 == -i64::from(libc::EINTR) && now.pc == registers.pc + INSTRUCTION;
            if is_ended && now.x[8] == registers.x[8] {
                let _ = self.set(&self.again);
            }
        }
        true
    }

    /// The same if a signal has arrived that ends a wait. The kernel decides what the signal does to the call, so the thread must be in its
    /// call when it gets the signal.
    fn wait_again_for_signal(&mut self) -> bool {
        let is_set = self.set(&self.again).is_ok();
        let _ = self.enter_call();
        let _ = ptrace::set_mask(self.tid, self.mask);
        step();
        is_set
    }

    /// Whether a signal waits that ends the call as soon as the thread has its own mask again.
    fn ends_by_signal_after(&self) -> bool {
        let status = ProcStatus::of_thread(self.pid, self.tid);
        status.map_or(true, |status| ptrace::ends_call(&ProcStatus { blocked: Some(self.mask), ..status }, 0))
    }

    /// Lets a stopped thread run to the begin of its call.
    fn enter_call(&mut self) -> Result<(), Refusal> {
        self.resume(Resume::ToCall, 0)?;
        match self.next(Some(Instant::now() + PATIENCE))? {
            StopState::Ended => Err(Refusal::Ended(self.pid)),
            StopState::NotYet => {
                let _ = ptrace::interrupt(self.tid);
                self.next(None).map(drop)
            }
            _ => Ok(()),
        }
    }
}
