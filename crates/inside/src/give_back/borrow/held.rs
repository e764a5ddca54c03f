//! A stopped thread and a traced thread of another process: their registers and state, and how they continue.

use std::io;
use std::time::{Duration, Instant};

use allocanary_heap::ptrace::{self, Registers, StopState};
use allocanary_sys::proc::ProcStatus;

use crate::give_back::Refusal;
use crate::give_back::borrow::stopping::Tracee;
use crate::give_back::borrow::waits::SyscallState;

/// A stopped thread. When the value is dropped, the thread continues as it was. After `keep` it stays stopped.
pub struct StoppedThread {
    pub pid: u32,
    pub tid: u32,
    /// The call in which it was.
    pub told: SyscallState,
}

impl StoppedThread {
    pub fn registers(&self) -> Result<Registers, Refusal> {
        ptrace::registers(self.tid).map_err(|error| Refusal::of(self.pid, "reading registers", error))
    }

    /// The thread's extended state and its signal mask.
    pub fn state(&self) -> Result<(Vec<u8>, u64), Refusal> {
        let state = ptrace::extended(self.tid).and_then(|extended| Ok((extended, ptrace::mask(self.tid)?)));
        state.map_err(|error| Refusal::of(self.pid, "reading registers", error))
    }

    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        let_go(self.pid, self.tid, 0, &self.told);
    }
}

/// A thread that this thread traces.
pub struct Traced {
    pub pid: u32,
    pub tid: u32,
    /// The call in which it was.
    pub told: SyscallState,
}

impl Tracee for Traced {
    fn stopped(&mut self) -> io::Result<StopState> {
        ptrace::stopped(self.tid)
    }

    fn let_go(&mut self, signal: i32) {
        let_go(self.pid, self.tid, signal, &self.told);
    }

    fn pause(&mut self, time: Duration) -> Duration {
        let begun = Instant::now();
        std::thread::sleep(time);
        begun.elapsed()
    }
}

/// Detaches from a stopped thread, which then continues. `signal` is the signal that it was about to get, or 0. If the stop has ended its
/// call with EINTR, the thread makes the call again, unless a signal ends the call. `told` is the call.
pub fn let_go(pid: u32, tid: u32, signal: i32, told: &SyscallState) {
    if !ends_by_signal(pid, tid, signal) {
        let _ = hide(tid, told);
    }
    let _ = ptrace::detach(tid, signal);
}

/// If the stop has ended the call of a thread with EINTR, the thread makes this call again.
#[cfg(target_arch = "x86_64")]
pub fn hide(tid: u32, _told: &SyscallState) -> io::Result<()> {
    ptrace::hide(tid)
}

/// If the stop has ended the call of a thread with EINTR, the thread makes this call again.
#[cfg(target_arch = "aarch64")]
pub fn hide(tid: u32, told: &SyscallState) -> io::Result<()> {
    ptrace::make_again(tid, told.number, &told.arguments, (told.sp, told.pc)).map(drop)
}

/// Whether the thread gets a signal that ends its call: a pending one, or the one that it was about to get.
pub fn ends_by_signal(pid: u32, tid: u32, signal: i32) -> bool {
    // If this cannot be known, the call ends: a program that gets EINTR too often makes its call again.
    ProcStatus::of_thread(pid, tid).map_or(true, |status| ptrace::ends_call(&status, signal))
}
