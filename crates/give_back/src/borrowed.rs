//! A thread of another process that makes calls for us. In: a thread that waits in a system call. Out: what the functions return. When
//! this is dropped, the thread has its registers, its signal mask and its stack as before, and waits again in the same call.
//!
//! The functions run on a stack of their own, with all signals blocked but faults. The return address of a call lies on a page that cannot
//! be executed, so that the fault there tells the end of the call. To stop at each system call instead took a second for each
//! `malloc_trim`.

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use allocanary_heap::ptrace::{self, Blocked, Resume, Stop};
use allocanary_heap::{Memory, PAGE};
use libc::user_regs_struct as Registers;

use crate::remedy::Argument;
use crate::stopping::{self, Outcome, Tracee};
use crate::threads::Waiting;
use crate::{Refusal, filter, handlers, waits};

/// A thread that makes a call is looked after this often at least.
const PATIENCE: Duration = Duration::from_secs(2);

/// The bytes of the stack on which the calls run, with the page of the return address and that of the arguments.
const STACK: u64 = 256 << 10;

/// The results of system calls that were interrupted, and that the kernel makes again by itself: ERESTARTSYS, ERESTARTNOHAND and
/// ERESTART_RESTARTBLOCK.
const RESTARTED: [i64; 3] = [-512, -514, -516];

/// The system calls that the allocators' calls need.
const NEEDED: [i64; 6] =
    [libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mprotect, libc::SYS_madvise, libc::SYS_brk, libc::SYS_futex];

/// Those that the start of a thread needs as well.
const FOR_A_THREAD: [i64; 7] = [
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_rt_sigprocmask,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_setaffinity,
    libc::SYS_prctl,
];

/// What a thread gets that does what it must not.
const FAULTS: [i32; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// A thread that has been borrowed. Only the thread of this process that took it can use it.
pub struct Borrowed {
    pid: u32,
    tid: u32,
    wait: &'static str,
    before: Registers,
    extended: Vec<u8>,
    mask: u64,
    /// Its stack for the calls.
    place: Option<u64>,
    /// It is not there any more.
    ended: bool,
    /// Signals that were sent meanwhile and that no mask holds back.
    kept: Vec<i32>,
    memory: fs::File,
    /// No signal ends this command while the thread is changed: a field is dropped after what holds it.
    _blocked: Blocked,
    here: PhantomData<*const ()>,
}

impl std::fmt::Debug for Borrowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Borrowed(thread {} in {})", self.tid, self.wait)
    }
}

impl Borrowed {
    /// Borrows a thread, if it still waits as it did. `None` if it has gone on, or may be in a signal's handler. `starts_thread`: whether
    /// a call will start a thread.
    pub fn take(
        memory: &dyn Memory,
        pid: u32,
        waiting: &Waiting,
        starts_thread: bool,
    ) -> Result<Option<Borrowed>, Refusal> {
        let tid = waiting.tid;
        let blocked = Blocked::new();
        let trouble = |what: &'static str| move |error: io::Error| Refusal::of(pid, what, error);
        let file = fs::OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"));
        let file = file.map_err(trouble("opening its memory"))?;
        match ptrace::seize(tid) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
            Err(error) => return Err(Refusal::of(pid, "borrowing a thread", error)),
        }
        let _ = ptrace::interrupt(tid);
        let stopped = stopping::stop(&mut Traced { pid, tid }).inspect_err(|_| let_go(pid, tid, 0));
        match stopped.map_err(trouble("stopping a thread"))? {
            Outcome::Still => {}
            Outcome::Gone => return Ok(None),
            Outcome::Late => return Err(Refusal::Late { pid, tid }),
            Outcome::Never => return Err(Refusal::Never { pid, tid }),
        }
        let before = ptrace::registers(tid).map_err(|error| {
            let_go(pid, tid, 0);
            Refusal::of(pid, "reading registers", error)
        })?;
        let stack = |at: u64, into: &mut [u8]| file.read_exact_at(into, at).is_ok();
        // It may wait in another call by now, for a lock inside of the allocator.
        let arguments = [before.rdi, before.rsi, before.rdx, before.r10, before.r8, before.r9];
        let now = waits::harmless(before.orig_rax as i64, &arguments, |at| memory.word(at));
        let is_same = now == Some(waiting.wait) && is_waiting(tid, &before);
        if !is_same || handlers::may_be_in_one(memory, before.rsp, stack) {
            let_go(pid, tid, 0);
            return Ok(None);
        }
        let state = ptrace::extended(tid).and_then(|extended| Ok((extended, ptrace::mask(tid)?)));
        let (extended, mask) = state.map_err(|error| {
            let_go(pid, tid, 0);
            Refusal::of(pid, "reading registers", error)
        })?;
        let mut borrowed = Borrowed {
            pid,
            tid,
            wait: waiting.wait.name,
            before,
            extended,
            mask,
            place: None,
            ended: false,
            kept: Vec::new(),
            memory: file,
            _blocked: blocked,
            here: PhantomData,
        };
        borrowed.prepare(starts_thread)?;
        Ok(Some(borrowed))
    }

    /// The thread.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// The call in which it waits.
    pub fn wait(&self) -> &'static str {
        self.wait
    }

    /// Checks the filter of system calls, blocks signals, and gives the thread a stack.
    fn prepare(&mut self, starts_thread: bool) -> Result<(), Refusal> {
        let status = fs::read(format!("/proc/{}/task/{}/status", self.pid, self.tid)).unwrap_or_default();
        if ptrace::field(&String::from_utf8_lossy(&status), "Seccomp") == Some("2") {
            self.check_filters(starts_thread)?;
        }
        let faults: u64 = FAULTS.map(ptrace::bit).into_iter().sum();
        ptrace::set_mask(self.tid, !faults).map_err(|error| Refusal::of(self.pid, "blocking signals", error))?;
        let access = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let place = self.system_call(libc::SYS_mmap, [0, STACK, access, private, u64::MAX, 0])?;
        self.place = Some(place);
        // No call returns to here by itself, and no call's stack grows beyond it.
        self.system_call(libc::SYS_mprotect, [place, PAGE, libc::PROT_NONE as u64, 0, 0, 0]).map(drop)
    }

    fn check_filters(&self, starts_thread: bool) -> Result<(), Refusal> {
        let refused = |state: String, instead| Refusal::State { pid: self.pid, state, instead };
        let filters = filter::filters(self.tid).map_err(|error| {
            let state = format!("it has a seccomp filter that may not be read here ({error})");
            refused(state, "Run this as root outside of the container, with CAP_SYS_ADMIN")
        })?;
        let needed = NEEDED.into_iter().chain(FOR_A_THREAD.into_iter().filter(|_| starts_thread));
        match { needed }.find(|call| !filters.iter().all(|filter| filter::allows(filter, *call))) {
            None => Ok(()),
            Some(call) => {
                let state = format!("its seccomp filter does not allow system call {call}");
                Err(refused(state, "Have the program make the call itself"))
            }
        }
    }

    /// Makes a system call by the instruction that the thread waits in. An error of the call is an error here.
    fn system_call(&mut self, number: i64, arguments: [u64; 6]) -> Result<u64, Refusal> {
        let mut registers = self.before;
        registers.rip -= 2;
        registers.rax = number as u64;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = arguments;
        // The kernel takes it for no interrupted call.
        registers.orig_rax = u64::MAX;
        self.set(&registers)?;
        for _ in 0..2 {
            match self.run(Resume::ToCall)? {
                Stop::AtCall => {}
                stop => return Err(self.unexpected(stop)),
            }
        }
        let result = self.registers()?.rax as i64;
        if (-4095..0).contains(&result) {
            return Err(Refusal::of(self.pid, "giving a thread a stack", io::Error::from_raw_os_error(-result as i32)));
        }
        Ok(result as u64)
    }

    /// The bytes that an argument of the last call points to, as the function has left them.
    pub fn left(&self, arguments: &[Argument], which: usize) -> Result<Vec<u8>, Refusal> {
        let place = self.place.ok_or(Refusal::Ended(self.pid))?;
        let (values, _) = lay_out(arguments, place + PAGE);
        match arguments.get(which) {
            Some(Argument::Bytes(bytes)) => self.read(values[which], bytes.len()),
            _ => Ok(Vec::new()),
        }
    }

    /// Calls a function, and returns its answer. A call that takes longer than `patience` and waits for its first lock is taken back if
    /// `one_lock_at_a_time`. Any other call is waited for: a thread that has begun must end.
    pub fn call(
        &mut self,
        function: u64,
        arguments: &[Argument],
        patience: Duration,
        one_lock_at_a_time: bool,
    ) -> Result<u64, Refusal> {
        let place = self.place.ok_or(Refusal::Ended(self.pid))?;
        let back = place + PAGE / 2;
        let mut registers = self.before;
        let (values, data) = lay_out(arguments, place + PAGE);
        self.write(place + PAGE, &data)?;
        [registers.rdi, registers.rsi, registers.rdx, registers.rcx, registers.r8, registers.r9] = values;
        // As the call instruction leaves it: the return address is on the stack, which is aligned but for that.
        registers.rsp = place + STACK - 128 - 8;
        self.write(registers.rsp, &back.to_le_bytes())?;
        registers.rip = function;
        registers.rbp = 0;
        registers.rax = 0;
        registers.orig_rax = u64::MAX;
        // The direction flag, which functions want clear.
        registers.eflags &= !0x400;
        self.set(&registers)?;
        let begun = Instant::now();
        loop {
            self.resume(Resume::Freely, 0)?;
            let mut stop = self.next(Resume::Freely, Some(Instant::now() + patience))?;
            let asked = stop == Stop::NotYet;
            if asked {
                let _ = ptrace::interrupt(self.tid);
                // A thread that has begun is never left: it would come back to a page that cannot be executed.
                stop = self.next(Resume::Freely, None)?;
            }
            match stop {
                Stop::By(libc::SIGSEGV) if self.registers()?.rip == back => return Ok(self.registers()?.rax),
                Stop::By(0) if asked && one_lock_at_a_time && is_at_lock(&self.registers()?) => {
                    return Err(Refusal::Locked { pid: self.pid, tid: self.tid, waited: begun.elapsed() });
                }
                Stop::By(0) | Stop::AtCall | Stop::NotYet => {}
                Stop::By(signal) => return Err(self.fault(signal)),
                Stop::Ended => return Err(Refusal::Ended(self.pid)),
            }
        }
    }

    fn fault(&self, signal: i32) -> Refusal {
        let at = self.registers().map_or(0, |registers| registers.rip);
        Refusal::Fault { pid: self.pid, tid: self.tid, signal, at }
    }

    /// Reads some bytes of the process.
    pub fn read(&self, at: u64, count: usize) -> Result<Vec<u8>, Refusal> {
        let mut bytes = vec![0; count];
        let read = self.memory.read_exact_at(&mut bytes, at);
        read.map_err(|error| Refusal::of(self.pid, "reading its memory", error))?;
        Ok(bytes)
    }

    /// Writes to the process.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Refusal> {
        self.memory.write_all_at(bytes, at).map_err(|error| Refusal::of(self.pid, "writing to its memory", error))
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

    /// Lets the thread go on, and waits until it stops for us. A stop of the whole process is not ours.
    fn run(&mut self, how: Resume) -> Result<Stop, Refusal> {
        loop {
            self.resume(how, 0)?;
            match self.next(how, None)? {
                Stop::By(0) if how == Resume::ToCall => {}
                stop => return Ok(stop),
            }
        }
    }

    /// The next stop that is no signal from outside; [`Stop::NotYet`] if there is none by then. SIGSTOP, which no mask holds back, goes to
    /// the thread: the process stops, and this thread goes on. A signal of a fault's number that somebody sent is kept for later. `how` is how
    /// the thread was let go.
    fn next(&mut self, how: Resume, until: Option<Instant>) -> Result<Stop, Refusal> {
        loop {
            // Each wait ends some time, so that the thread is asked for again and again.
            let time = until.map_or(PATIENCE, |until| until.saturating_duration_since(Instant::now()));
            let mut thread = Traced { pid: self.pid, tid: self.tid };
            let stop = stopping::wait(&mut thread, time)
                .map_err(|error| Refusal::of(self.pid, "waiting for a thread", error))?;
            match stop {
                Stop::NotYet if until.is_none() => {}
                Stop::By(libc::SIGSTOP) => self.resume(how, libc::SIGSTOP)?,
                Stop::By(signal) if signal != 0 && !ptrace::is_fault(self.tid).unwrap_or(true) => {
                    self.kept.push(signal);
                    self.resume(how, 0)?;
                }
                stop => {
                    self.ended |= stop == Stop::Ended;
                    return Ok(stop);
                }
            }
        }
    }

    fn unexpected(&self, stop: Stop) -> Refusal {
        match stop {
            Stop::Ended => Refusal::Ended(self.pid),
            Stop::By(signal) if signal != 0 => self.fault(signal),
            stop => {
                let error = io::Error::other(format!("wanted a stop at a system call, found {stop:?}"));
                Refusal::of(self.pid, "preparing a thread", error)
            }
        }
    }

    /// Unmaps the stack. It ends in a stop in which the kernel makes the interrupted call again, also where unmapping fails: the stack
    /// stays then, and nothing else.
    fn put_back(&mut self) -> Result<(), Refusal> {
        let unmapped = match self.place.take() {
            Some(place) => self.system_call(libc::SYS_munmap, [place, STACK, 0, 0, 0, 0]).map(drop),
            None => Ok(()),
        };
        if self.ended {
            return unmapped;
        }
        ptrace::interrupt(self.tid).map_err(|error| Refusal::of(self.pid, "stopping a thread", error))?;
        match self.run(Resume::Freely)? {
            Stop::By(0) => unmapped,
            stop => Err(self.unexpected(stop)),
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let _ = self.put_back();
        if self.ended {
            return;
        }
        let _ = ptrace::set_extended(self.tid, &self.extended);
        let _ = ptrace::set_registers(self.tid, &self.before);
        let _ = ptrace::set_mask(self.tid, self.mask);
        let_go(self.pid, self.tid, 0);
        for signal in &self.kept {
            // SAFETY: a system call with three numbers.
            unsafe { libc::syscall(libc::SYS_tgkill, self.pid, self.tid, *signal) };
        }
    }
}

/// The values of arguments, and the bytes that those which point to something need, from an address on.
fn lay_out(arguments: &[Argument], from: u64) -> ([u64; 6], Vec<u8>) {
    let (mut values, mut data) = ([0; 6], Vec::new());
    for (value, argument) in values.iter_mut().zip(arguments) {
        let bytes = match argument {
            Argument::Number(number) => {
                *value = *number;
                continue;
            }
            Argument::Text(text) => [text.as_bytes(), &[0]].concat(),
            Argument::Bytes(bytes) => bytes.clone(),
        };
        *value = from + data.len() as u64;
        data.extend(bytes);
        data.resize(data.len().next_multiple_of(16), 0);
    }
    (values, data)
}

/// A thread of a process that this thread traces.
struct Traced {
    pid: u32,
    tid: u32,
}

impl Tracee for Traced {
    fn stopped(&mut self) -> io::Result<Stop> {
        ptrace::stopped(self.tid)
    }

    fn let_go(&mut self, signal: i32) {
        let_go(self.pid, self.tid, signal);
    }

    fn pause(&mut self, time: Duration) -> Duration {
        let begun = Instant::now();
        std::thread::sleep(time);
        begun.elapsed()
    }
}

/// Lets a thread that is stopped go on for good, with a signal that it was about to get, or 0. If the stop has ended its call with EINTR,
/// it makes the call again, unless it notices a signal.
fn let_go(pid: u32, tid: u32, signal: i32) {
    let status = fs::read(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
    if !ptrace::ends_call(&String::from_utf8_lossy(&status), signal) {
        let _ = ptrace::hide(tid);
    }
    let _ = ptrace::detach(tid, signal);
}

/// Whether a thread that is stopped was in a system call of 64-bit code, which the kernel can make again or which has just ended well.
fn is_waiting(tid: u32, registers: &Registers) -> bool {
    let result = registers.rax as i64;
    registers.cs == ptrace::USER_CODE
        && registers.orig_rax as i64 >= 0
        && (RESTARTED.contains(&result) || result == -i64::from(libc::EINTR) || result >= 0)
        && ptrace::is_after_call(tid, registers.rip).unwrap_or(false)
}

/// Whether a thread waits for a lock, and has not been woken for it: the lock is nobody's loss then.
fn is_at_lock(registers: &Registers) -> bool {
    registers.orig_rax as i64 == libc::SYS_futex && RESTARTED.contains(&(registers.rax as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_laid_out_one_after_the_other() {
        let arguments = [Argument::Text("epoch".into()), Argument::Number(7), Argument::Bytes(vec![1, 2])];
        let (values, data) = lay_out(&arguments, 0x1000);
        assert_eq!(values, [0x1000, 7, 0x1010, 0, 0, 0]);
        assert_eq!((&data[..6], &data[16..18], data.len()), (&b"epoch\0"[..], &[1, 2][..], 32));
    }

    #[test]
    fn only_a_thread_that_was_not_woken_is_taken_back_from_a_lock() {
        let mut registers = Registers { orig_rax: libc::SYS_futex as u64, rax: -512_i64 as u64, ..zeroes() };
        assert!(is_at_lock(&registers));
        registers.rax = 0;
        assert!(!is_at_lock(&registers), "it has been woken for the lock, and nobody else was");
        registers = Registers { orig_rax: libc::SYS_madvise as u64, rax: -512_i64 as u64, ..zeroes() };
        assert!(!is_at_lock(&registers));
    }

    fn zeroes() -> Registers {
        // SAFETY: all zeroes are a value of this structure of numbers.
        unsafe { std::mem::zeroed() }
    }
}
