//! A thread of another process that makes calls for us. It was waiting in a system call. When this value is dropped, the thread has its
//! registers, its signal mask and its stack as before, and waits again in the same call.
//!
//! A call is made in the way in which the kernel delivers a signal. First, everything that the thread needs to return by itself is
//! written to its stack. Then its registers are set, in one step. From then on the thread needs no help. Nothing is mapped, and no
//! memory has to be executable.
//!
//! While this command runs, it notices the end of a function, and restores everything itself. Only in this way does the wait keep the rest of
//! its time: at the end of a signal's handler, the kernel forgets that time. How the end is noticed, and how a wait begins again, differs by
//! machine.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use allocanary_heap::Memory;
use allocanary_heap::ptrace::{self, Registers, Resume, SignalMask, StopState};
use allocanary_sys::proc::ProcStatus;
use allocanary_sys::proc::pids::tids;

#[cfg(target_arch = "aarch64")]
use aarch64 as machine;
#[cfg(target_arch = "x86_64")]
use x86_64 as machine;

use crate::give_back::Refusal;
use crate::give_back::borrow::chain::{self, Chain, ReturnState};
use crate::give_back::borrow::frame::Extended;
use crate::give_back::borrow::held::{StoppedThread, Traced, ends_by_signal, hide, let_go};
use crate::give_back::borrow::reader::ThreadReader;
use crate::give_back::borrow::steps::step;
use crate::give_back::borrow::stopping::{self, StopOutcome};
use crate::give_back::borrow::threads::WaitingThread;
use crate::give_back::borrow::walks::ProcessWalks;
use crate::give_back::borrow::way_back::WayBack;
use crate::give_back::borrow::{filter, locks, needs, room};
use crate::give_back::remedy::{Argument, Does};

/// A thread that makes a call is checked at least this often.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was prepared before a thread is borrowed.
pub struct BorrowPlan<'a> {
    /// The process.
    pub reader: &'a ThreadReader,
    /// The stacks of its threads.
    pub walks: &'a RefCell<ProcessWalks>,
    /// The code by which a thread returns to its wait.
    pub way: &'a WayBack,
    /// The signal that reports the end of a call, if one is needed.
    pub notice: Option<i32>,
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

/// The state of a thread that was stopped in a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitState {
    /// It still waits in the same call, which the kernel makes again, or which has just ended with success.
    Waits,
    /// The stop has ended the call with EINTR.
    Interrupted,
    /// It no longer waits in this call.
    GoneOn,
}

/// A thread that has been borrowed. Only the thread of this process that took it can use it.
pub struct Borrowed<'a> {
    pid: u32,
    tid: u32,
    waiting: WaitingThread,
    prepared: &'a BorrowPlan<'a>,
    /// Its registers when it was stopped.
    #[cfg(target_arch = "x86_64")]
    found: Registers,
    /// Whether the stop has ended the wait.
    #[cfg(target_arch = "x86_64")]
    interrupted: bool,
    /// The registers with which it begins its wait again without the kernel's help.
    again: Registers,
    told: Vec<u8>,
    extended: Extended,
    mask: u64,
    errno: (u64, u32),
    chain: Chain,
    /// How the thread was last let continue.
    how: Resume,
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
        write!(f, "Borrowed(thread {} in {})", self.tid, self.wait())
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
        let told = waiting.told;
        let stopped = stopping::stop(&mut Traced { pid, tid, told }).inspect_err(|_| let_go(pid, tid, 0, &told));
        match stopped.map_err(|error| Refusal::of(pid, "stopping a thread", error))? {
            StopOutcome::Still => {}
            StopOutcome::Gone => return Ok(BorrowResult::GoneOn),
            StopOutcome::Late => return Err(Refusal::Late { pid, tid }),
            StopOutcome::Never => return Err(Refusal::Never { pid, tid }),
        }
        step();
        let stop = StoppedThread { pid, tid, told };
        let found = stop.registers()?;
        // By now the thread may wait in another call, for a lock of the allocator.
        let state = machine::state(prepared, waiting, &found);
        // This comes first: if the stop has ended a wait, the wait continues even if this command ends.
        match state {
            WaitState::GoneOn => return Ok(BorrowResult::GoneOn),
            WaitState::Interrupted if ends_by_signal(pid, tid, 0) => return Ok(BorrowResult::GoneOn),
            WaitState::Interrupted => {
                hide(tid, &told).map_err(|error| Refusal::of(pid, "setting registers", error))?;
            }
            WaitState::Waits => {}
        }
        step();
        let unfit = |why: &str| Ok(BorrowResult::Unfit(format!("waiting in {} {why}", waiting.name())));
        let (at, back) = machine::place(&found);
        if let Some(why) = prepared.walks.borrow_mut().unfit(at, back, waiting.wait.is_for_another())? {
            return unfit(&why.words());
        }
        let Some(again) = machine::again(waiting, &found) else { return unfit("again, it is not known for what") };
        let (told, mask) = stop.state()?;
        let extended = Extended::of(&told).ok_or("with registers that are not known here (AMX)");
        let extended = match extended.and_then(|extended| machine::unusual(tid).map_or(Ok(extended), Err)) {
            Ok(extended) => extended,
            Err(why) => return unfit(why),
        };
        let pointer = machine::pointer(tid, &found);
        let pointer = pointer.map_err(|error| Refusal::of(pid, "reading registers", error))?;
        let Some(room) = room::below(prepared.reader, pid, at.sp, pointer) else {
            return unfit("on a stack whose size is not known, such as a coroutine's or a signal's");
        };
        let chain = Chain::below(at.sp, &extended, prepared.way);
        if room < at.sp - chain.lowest + room::NEEDED {
            return unfit("on a stack with too little room");
        }
        let is_there = |at: u64| prepared.reader.mapping(at).is_some_and(|one| one.writable);
        if !is_there(chain.lowest) {
            return unfit("on a stack with too little room");
        }
        prepared.check_filters(pid, tid)?;
        let at = pointer.wrapping_add(prepared.way.errno);
        let number = prepared.reader.own_bytes(at, 4)?;
        let errno = (at, u32::from_le_bytes(number.try_into().unwrap_or_default()));
        stop.keep();
        Ok(BorrowResult::Borrowed(Box::new(Borrowed {
            pid,
            tid,
            waiting: *waiting,
            prepared,
            #[cfg(target_arch = "x86_64")]
            found,
            #[cfg(target_arch = "x86_64")]
            interrupted: state == WaitState::Interrupted,
            again,
            told,
            extended,
            mask,
            errno,
            chain,
            how: Resume::Freely,
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
        self.waiting.name()
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
        let mut asked = false;
        loop {
            self.resume(machine::TO_END, 0)?;
            step();
            let mut stop = self.next(Some(Instant::now() + patience))?;
            if stop == StopState::NotYet {
                asked = true;
                let _ = ptrace::interrupt(self.tid);
                stop = self.next(None)?;
            }
            step();
            if let Some(result) = self.result(stop)? {
                return Ok(result);
            }
            match stop {
                StopState::By(0) if asked && machine::sleeps(self.tid, &self.registers()?) => {
                    let waited = begun.elapsed();
                    let is_at_lock = machine::is_at_lock(self.tid, &self.registers()?);
                    if one_lock_at_a_time && is_at_lock && self.holds_nothing() {
                        return Err(Refusal::Locked { pid: self.pid, tid: self.tid, waited });
                    }
                    self.left = true;
                    return Err(Refusal::Left { pid: self.pid, tid: self.tid, waited });
                }
                StopState::By(0) => asked = false,
                // At each stop the kernel forgets that the thread was asked to stop.
                StopState::AtCall if asked => _ = ptrace::interrupt(self.tid),
                StopState::AtCall | StopState::NotYet => {}
                StopState::By(signal) if Some(signal) == notice => {}
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

    fn fault(&self, signal: i32) -> Refusal {
        let at = self.registers().map_or(0, |registers| machine::place(&registers).0.pc);
        Refusal::Fault { pid: self.pid, tid: self.tid, signal, at }
    }

    fn registers(&self) -> Result<Registers, Refusal> {
        ptrace::registers(self.tid).map_err(|error| Refusal::of(self.pid, "reading registers", error))
    }

    fn set(&self, registers: &Registers) -> Result<(), Refusal> {
        ptrace::set_registers(self.tid, registers).map_err(|error| Refusal::of(self.pid, "setting registers", error))
    }

    fn resume(&mut self, how: Resume, signal: i32) -> Result<(), Refusal> {
        self.how = how;
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
            let mut thread = Traced { pid: self.pid, tid: self.tid, told: self.waiting.told };
            let stop = stopping::wait(&mut thread, time)
                .map_err(|error| Refusal::of(self.pid, "waiting for a thread", error))?;
            match stop {
                StopState::NotYet if until.is_none() => {}
                StopState::By(signal) if Some(signal) == self.prepared.notice => return Ok(stop),
                StopState::By(libc::SIGSTOP) => self.resume(self.how, libc::SIGSTOP)?,
                StopState::By(signal) if signal != 0 && !ptrace::is_fault(self.tid).unwrap_or(true) => {
                    self.kept.push(signal);
                    self.resume(self.how, 0)?;
                }
                stop => {
                    self.ended |= stop == StopState::Ended;
                    return Ok(stop);
                }
            }
        }
    }

    /// Restores the thread's previous state. If this command ends before the registers are set, the thread restores it alone.
    fn put_back(&mut self) {
        self.before_put_back();
        let (at, number) = self.errno;
        let _ = self.prepared.reader.write_own(at, &number.to_le_bytes());
        step();
        let _ = ptrace::set_extended(self.tid, &self.told);
        step();
        if self.wait_again() {
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
            let_go(self.pid, self.tid, 0, &self.waiting.told);
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
