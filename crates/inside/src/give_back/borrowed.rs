//! A thread of another process that makes calls for us. It was waiting in a system call. When this value is dropped, the thread has its
//! registers, its signal mask and its stack as before, and waits again in the same call.
//!
//! A call is made in the way in which the kernel delivers a signal. First, everything that the thread needs to return by itself is
//! written to its stack. Then its registers are set, in one step. From then on the thread needs no help. Nothing is mapped, and no
//! memory has to be executable.
//!
//! While this command runs, the thread raises a signal at the end of a function, for which the process has no handler. This command notices
//! the signal, and restores everything itself. Only in this way does the wait keep the rest of its time: at the end of a signal's handler,
//! the kernel forgets that time.

use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use allocanary_heap::Memory;
use allocanary_heap::ptrace::{self, Resume, SignalMask, StopState};
use allocanary_sys::proc::ProcStatus;
use allocanary_sys::proc::pids::tids;
use libc::user_regs_struct as Registers;

use crate::give_back::chain::{self, Chain, NOTHING, ReturnState};
use crate::give_back::frame::{self, Extended};
use crate::give_back::held::{StoppedThread, Traced, ends_by_signal, let_go};
use crate::give_back::reader::ThreadReader;
use crate::give_back::remedy::{Argument, Does};
use crate::give_back::steps::step;
use crate::give_back::stopping::{self, StopOutcome};
use crate::give_back::threads::WaitingThread;
use crate::give_back::walks::ProcessWalks;
use crate::give_back::way_back::WayBack;
use crate::give_back::{Refusal, filter, locks, needs, room, waits};

/// A thread that makes a call is checked at least this often.
const PATIENCE: Duration = Duration::from_secs(2);

/// The results of interrupted system calls that the kernel repeats by itself: ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND and
/// ERESTART_RESTARTBLOCK.
const RESTARTED: [i64; 4] = [-512, -513, -514, -516];

/// What was prepared before a thread is borrowed.
pub struct BorrowPlan<'a> {
    /// The process.
    pub reader: &'a ThreadReader,
    /// The stacks of its threads.
    pub walks: &'a RefCell<ProcessWalks>,
    /// The code by which a thread returns to its wait.
    pub way: &'a WayBack,
    /// The signal that reports the end of a call.
    pub notice: i32,
    /// What the calls do, for a filter of system calls.
    pub does: Does,
    /// Whether a call will start a thread.
    pub starts_thread: bool,
}

/// The result of trying to borrow a thread.
pub enum BorrowResult<'a> {
    /// It is borrowed.
    Borrowed(Box<Borrowed<'a>>),
    /// The thread no longer waits as it did.
    GoneOn,
    /// The thread is at a place where it cannot be borrowed, with the reason.
    Unfit(String),
}

/// A thread that has been borrowed. Only the thread of this process that took it can use it.
pub struct Borrowed<'a> {
    pid: u32,
    tid: u32,
    wait: &'static str,
    prepared: &'a BorrowPlan<'a>,
    /// Its registers when it was stopped, and the registers with which it begins its wait again without the kernel's help.
    found: Registers,
    again: Registers,
    told: Vec<u8>,
    extended: Extended,
    mask: u64,
    errno: (u64, u32),
    chain: Chain,
    /// Whether a call was begun.
    begun: bool,
    /// Whether the thread has ended.
    ended: bool,
    /// Whether the thread has to finish its call alone.
    left: bool,
    /// Signals that were sent during the call although they cannot be masked.
    kept: Vec<i32>,
    /// Blocks the signals that would end this command while the thread is changed. This field is dropped after the
    /// thread was restored.
    _blocked: SignalMask,
    here: PhantomData<*const ()>,
}

impl std::fmt::Debug for Borrowed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Borrowed(thread {} in {})", self.tid, self.wait)
    }
}

impl<'a> Borrowed<'a> {
    /// Borrows a thread, if it still waits as it did.
    pub fn take(prepared: &'a BorrowPlan<'a>, pid: u32, waiting: &WaitingThread) -> Result<BorrowResult<'a>, Refusal> {
        let tid = waiting.tid;
        let blocked = SignalMask::new();
        match ptrace::seize(tid) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(BorrowResult::GoneOn),
            Err(error) => return Err(Refusal::of(pid, "borrowing a thread", error)),
        }
        step();
        let _ = ptrace::interrupt(tid);
        step();
        let stopped = stopping::stop(&mut Traced { pid, tid }).inspect_err(|_| let_go(pid, tid, 0));
        match stopped.map_err(|error| Refusal::of(pid, "stopping a thread", error))? {
            StopOutcome::Still => {}
            StopOutcome::Gone => return Ok(BorrowResult::GoneOn),
            StopOutcome::Late => return Err(Refusal::Late { pid, tid }),
            StopOutcome::Never => return Err(Refusal::Never { pid, tid }),
        }
        step();
        let stop = StoppedThread { pid, tid };
        let found = stop.registers()?;
        // By now the thread may wait in another call, for a lock of the allocator.
        let arguments = [found.rdi, found.rsi, found.rdx, found.r10, found.r8, found.r9];
        let now = waits::harmless(found.orig_rax as i64, &arguments, |at| prepared.reader.word(at));
        if now != Some(waiting.wait) || !is_waiting(tid, &found) {
            return Ok(BorrowResult::GoneOn);
        }
        // This comes first: if the stop has ended a wait, the wait continues even if this command ends.
        if found.rax as i64 == -i64::from(libc::EINTR) {
            if ends_by_signal(pid, tid, 0) {
                return Ok(BorrowResult::GoneOn);
            }
            ptrace::hide(tid).map_err(|error| Refusal::of(pid, "setting registers", error))?;
        }
        step();
        let unfit = |why: &str| Ok(BorrowResult::Unfit(format!("waiting in {} {why}", waiting.name())));
        let at = allocanary_stacks::walk::WalkRegisters { pc: found.rip, sp: found.rsp, bp: found.rbp };
        if let Some(why) = prepared.walks.borrow_mut().unfit(at, waiting.wait.is_for_another())? {
            return unfit(&why.words());
        }
        let Some(again) = again(waiting, &found) else { return unfit("again, it is not known for what") };
        let (told, mask) = stop.state()?;
        let extended = frame::parts(&told).and_then(|(parts, size)| Extended::new(&told, parts, size));
        let Some(extended) = extended else { return unfit("with registers that are not known here (AMX)") };
        let Some(room) = room::below(prepared.reader, pid, found.rsp, found.fs_base) else {
            return unfit("on a stack whose size is not known, such as a coroutine's or a signal's");
        };
        let chain = Chain::below(found.rsp, &extended, prepared.way);
        if room < found.rsp - chain.lowest + room::NEEDED {
            return unfit("on a stack with too little room");
        }
        let is_there = |at: u64| prepared.reader.mapping(at).is_some_and(|one| one.writable);
        if !is_there(chain.lowest) {
            return unfit("on a stack with too little room");
        }
        prepared.check_filters(pid, tid)?;
        let at = found.fs_base.wrapping_add(prepared.way.errno);
        let number = prepared.reader.own_bytes(at, 4)?;
        let errno = (at, u32::from_le_bytes(number.try_into().unwrap_or_default()));
        stop.keep();
        Ok(BorrowResult::Borrowed(Box::new(Borrowed {
            pid,
            tid,
            wait: waiting.name(),
            prepared,
            found,
            again,
            told,
            extended,
            mask,
            errno,
            chain,
            begun: false,
            ended: false,
            left: false,
            kept: Vec::new(),
            _blocked: blocked,
            here: PhantomData,
        })))
    }

    /// The thread.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// The memory of its process.
    pub fn reader(&self) -> &ThreadReader {
        self.prepared.reader
    }

    /// The call in which it waits.
    pub fn wait(&self) -> &'static str {
        self.wait
    }

    /// The bytes to which an argument of the last call points, after the call.
    pub fn left(&self, arguments: &[Argument], which: usize) -> Result<Vec<u8>, Refusal> {
        match (arguments.get(which), self.chain.values(arguments)) {
            (Some(Argument::Bytes(bytes)), Some((values, _))) => {
                self.prepared.reader.own_bytes(values[which], bytes.len())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Calls a function, and returns its result. If the call takes longer than `patience` and then sleeps, this command no longer
    /// waits for it. If the call waits for a lock and `one_lock_at_a_time` is set, the call is abandoned. Any other call continues
    /// without this command, and the thread returns by itself.
    pub fn call(
        &mut self,
        function: u64,
        arguments: &[Argument],
        patience: Duration,
        one_lock_at_a_time: bool,
    ) -> Result<u64, Refusal> {
        let before =
            ReturnState { registers: self.again, mask: self.mask, extended: &self.extended, errno: self.errno };
        let notice = self.prepared.notice;
        let laid = self.chain.call(&before, self.prepared.way, function, arguments, notice);
        let Some((bytes, registers)) = laid else {
            let error = io::Error::other(format!("the arguments take more room than there is: {arguments:?}"));
            return Err(Refusal::of(self.pid, "preparing a call", error));
        };
        self.prepared.reader.write_own(self.chain.lowest, &bytes)?;
        step();
        self.set(&registers)?;
        self.begun = true;
        step();
        let masked = ptrace::set_mask(self.tid, chain::blocked(notice));
        masked.map_err(|error| Refusal::of(self.pid, "blocking signals", error))?;
        step();
        let begun = Instant::now();
        loop {
            self.resume(Resume::Freely, 0)?;
            step();
            let mut stop = self.next(Some(Instant::now() + patience))?;
            let asked = stop == StopState::NotYet;
            if asked {
                let _ = ptrace::interrupt(self.tid);
                stop = self.next(None)?;
            }
            step();
            match stop {
                StopState::By(signal) if signal == notice => match self.result()? {
                    NOTHING => {}
                    result => return Ok(result),
                },
                StopState::By(0) if asked && sleeps(&self.registers()?) => {
                    let waited = begun.elapsed();
                    if one_lock_at_a_time && is_at_lock(&self.registers()?) && self.holds_nothing() {
                        return Err(Refusal::Locked { pid: self.pid, tid: self.tid, waited });
                    }
                    self.left = true;
                    return Err(Refusal::Left { pid: self.pid, tid: self.tid, waited });
                }
                StopState::By(0) | StopState::AtCall | StopState::NotYet => {}
                StopState::By(signal) => return Err(self.fault(signal)),
                StopState::Ended => return Err(Refusal::Ended(self.pid)),
            }
        }
    }

    /// Whether the thread has locked no mutex of the loader.
    fn holds_nothing(&self) -> bool {
        self.prepared.does != Does::Opens
            || !locks::holders_of_loader(self.prepared.reader, &[self.tid]).contains(&self.tid)
    }

    fn result(&self) -> Result<u64, Refusal> {
        let bytes = self.prepared.reader.own_bytes(self.chain.result(), 8)?;
        Ok(u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    fn fault(&self, signal: i32) -> Refusal {
        let at = self.registers().map_or(0, |registers| registers.rip);
        Refusal::Fault { pid: self.pid, tid: self.tid, signal, at }
    }

    fn registers(&self) -> Result<Registers, Refusal> {
        ptrace::registers(self.tid).map_err(|error| Refusal::of(self.pid, "reading registers", error))
    }

    fn set(&self, registers: &Registers) -> Result<(), Refusal> {
        ptrace::set_registers(self.tid, registers).map_err(|error| Refusal::of(self.pid, "setting registers", error))
    }

    fn resume(&self, how: Resume, signal: i32) -> Result<(), Refusal> {
        let resumed = ptrace::resume(self.tid, how, signal);
        resumed.map_err(|error| Refusal::of(self.pid, "letting a thread go on", error))
    }

    /// The next stop that is not caused by a signal from outside; [`StopState::NotYet`] if there is none until the time `until`. SIGSTOP
    /// cannot be masked, so the thread gets it: the process stops, and this thread continues. A signal with the number of a fault may also
    /// come from another process. It is kept for later.
    fn next(&mut self, until: Option<Instant>) -> Result<StopState, Refusal> {
        loop {
            // Each wait has a time limit, so that the thread's state is checked again and again.
            let time = until.map_or(PATIENCE, |until| until.saturating_duration_since(Instant::now()));
            let mut thread = Traced { pid: self.pid, tid: self.tid };
            let stop = stopping::wait(&mut thread, time)
                .map_err(|error| Refusal::of(self.pid, "waiting for a thread", error))?;
            match stop {
                StopState::NotYet if until.is_none() => {}
                StopState::By(signal) if signal == self.prepared.notice => return Ok(stop),
                StopState::By(libc::SIGSTOP) => self.resume(Resume::Freely, libc::SIGSTOP)?,
                StopState::By(signal) if signal != 0 && !ptrace::is_fault(self.tid).unwrap_or(true) => {
                    self.kept.push(signal);
                    self.resume(Resume::Freely, 0)?;
                }
                stop => {
                    self.ended |= stop == StopState::Ended;
                    return Ok(stop);
                }
            }
        }
    }

    /// Restores the thread's previous state. If this command ends before the registers are set, the thread restores it alone.
    fn put_back(&self) {
        let (at, number) = self.errno;
        let _ = self.prepared.reader.write_own(at, &number.to_le_bytes());
        step();
        let _ = ptrace::set_extended(self.tid, &self.told);
        step();
        let _ = ptrace::set_mask(self.tid, self.mask);
        step();
        // If the stop has ended the wait, the thread makes the same call again at once. It does not if a signal has
        // arrived that ends the call.
        let is_ended = self.found.rax as i64 == -i64::from(libc::EINTR) && !ends_by_signal(self.pid, self.tid, 0);
        let registers = if is_ended { Registers { orig_rax: u64::MAX, ..self.again } } else { self.found };
        if ptrace::set_registers(self.tid, &registers).is_ok() {
            step();
            // Without this, a later reader would take these bytes for a call whose end nobody noticed.
            let nothing = vec![0; (self.chain.top - self.chain.lowest) as usize];
            let _ = self.prepared.reader.write_own(self.chain.lowest, &nothing);
            step();
        }
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if self.left {
            let _ = ptrace::detach(self.tid, 0);
        } else {
            if self.begun {
                self.put_back();
            }
            let_go(self.pid, self.tid, 0);
            step();
        }
        for signal in &self.kept {
            // SAFETY: a system call with three numbers.
            unsafe { libc::syscall(libc::SYS_tgkill, self.pid, self.tid, *signal) };
        }
    }
}

impl BorrowPlan<'_> {
    fn check_filters(&self, pid: u32, tid: u32) -> Result<(), Refusal> {
        let status = ProcStatus::of_thread(pid, tid).unwrap_or_default();
        let refused = |state: String, instead| Refusal::State { pid, state, instead };
        // What is opened stays in the process, and each thread will call it.
        if self.does == Does::Opens && filters_differ(pid, &status) {
            let state = "its threads have different filters of system calls (seccomp)".into();
            return Err(refused(state, "Record it from its start"));
        }
        if status.seccomp != Some(2) {
            return Ok(());
        }
        let filters = filter::filters(tid).map_err(|error| {
            let state = format!("it has a seccomp filter that may not be read here ({error})");
            refused(state, "Run this as root outside of the container, with CAP_SYS_ADMIN")
        })?;
        let allowed = |call: &filter::SyscallArgs| filters.iter().all(|filter| filter::allows(filter, call));
        match needs::of(self.does, self.starts_thread).find(|call| !allowed(call)) {
            None => Ok(()),
            Some(call) => {
                let number = call.number;
                let state = format!("its seccomp filter does not allow system call {number} as the call makes it");
                Err(refused(state, "Have the program make the call itself"))
            }
        }
    }
}

/// Whether a thread of the process has another mode or number of filters than the thread whose status is given.
fn filters_differ(pid: u32, status: &ProcStatus) -> bool {
    let of = |status: &ProcStatus| (status.seccomp, status.filters);
    let tids = tids(pid).unwrap_or_default().into_iter();
    tids.filter_map(|tid| ProcStatus::of_thread(pid, tid).ok()).any(|other| of(&other) != of(status))
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
fn again(waiting: &WaitingThread, found: &Registers) -> Option<Registers> {
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
fn sleeps(registers: &Registers) -> bool {
    registers.orig_rax as i64 >= 0 && RESTARTED.contains(&(registers.rax as i64))
}

/// Whether a thread waits for a lock, and was not woken for it. If it had been woken, abandoning the call would lose
/// that wake-up.
fn is_at_lock(registers: &Registers) -> bool {
    registers.orig_rax as i64 == libc::SYS_futex && sleeps(registers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_thread_that_was_not_woken_is_taken_back_from_a_lock() {
        let mut registers = Registers { orig_rax: libc::SYS_futex as u64, rax: -512_i64 as u64, ..zeroes() };
        assert!(is_at_lock(&registers));
        registers.rax = 0;
        assert!(!is_at_lock(&registers), "it has been woken for the lock, and nobody else was");
        registers = Registers { orig_rax: libc::SYS_madvise as u64, rax: -512_i64 as u64, ..zeroes() };
        assert!(!is_at_lock(&registers) && sleeps(&registers));
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
