//! Stops and changes a thread of another process with the system call `ptrace`: its registers, its signals and its system calls. Only the
//! thread of this process that seized the traced thread may make these calls. What differs by machine is in a file for each machine.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod elsewhere;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::io;

use allocanary_sys::proc::ProcStatus;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use elsewhere::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

/// While this lives, the calling thread gets no signals.
pub struct SignalMask {
    before: libc::sigset_t,
}

impl SignalMask {
    /// Blocks the signals from now on.
    pub fn new() -> SignalMask {
        // SAFETY: all zeroes are a value of this structure of numbers. The calls write to both, which live until they return.
        unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            SignalMask { before }
        }
    }
}

impl Default for SignalMask {
    fn default() -> SignalMask {
        SignalMask::new()
    }
}

impl Drop for SignalMask {
    fn drop(&mut self) {
        // SAFETY: the kernel has given this mask, and it lives until the call returns.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

impl std::fmt::Debug for SignalMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Blocked")
    }
}

/// Whether a thread is about to get a signal that ends its call. If so, the call must end. In: the thread's status, and
/// the signal that it was about to get, or 0. Signals that the thread ignores are not counted: they are pending only
/// because the thread is traced, and it must not notice them.
pub fn ends_call(status: &ProcStatus, signal: i32) -> bool {
    let by_default = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH].map(bit).into_iter().sum::<u64>();
    let ignored = status.ignored.unwrap_or(0) | (by_default & !status.caught.unwrap_or(0));
    let waiting = status.pending.unwrap_or(0) | status.pending_for_process.unwrap_or(0);
    let waiting = waiting & !status.blocked.unwrap_or(0);
    (bit(signal) | waiting) & !ignored != 0
}

/// The bit of a signal in a mask, as the kernel prints it. 0 for no signal.
pub fn bit(signal: i32) -> u64 {
    if signal == 0 { 0 } else { 1 << (signal - 1) }
}

/// How a stopped thread continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Until a signal or a fault stops it.
    Freely,
    /// Until it enters or leaves a system call.
    ToCall,
}

/// Begins to trace a thread. The thread continues to run. A stop at a system call can be distinguished from a fault.
pub fn seize(tid: u32) -> io::Result<()> {
    ptrace(libc::PTRACE_SEIZE, tid, 0, libc::PTRACE_O_TRACESYSGOOD as usize).map(drop)
}

/// Asks a traced thread to stop.
pub fn interrupt(tid: u32) -> io::Result<()> {
    ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0).map(drop)
}

/// Lets a stopped thread continue, still traced. `signal` is the signal that it was about to get, or 0.
pub fn resume(tid: u32, how: Resume, signal: i32) -> io::Result<()> {
    let request = if how == Resume::ToCall { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
    ptrace(request, tid, 0, signal as usize).map(drop)
}

/// Whether the kernel itself made the signal that has stopped a thread, because of a fault of this thread. Otherwise
/// another process, or the thread itself, has sent the signal.
pub fn is_fault(tid: u32) -> io::Result<bool> {
    // SAFETY: all zeroes are a value of this structure of numbers.
    let mut about: libc::siginfo_t = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETSIGINFO, tid, 0, &raw mut about as usize)?;
    Ok(about.si_code > 0)
}

/// Releases a stopped thread. `signal` is the signal that it was about to get, or 0.
pub fn detach(tid: u32, signal: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_DETACH, tid, 0, signal as usize).map(drop)
}

#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(dead_code, reason = "the registers of other machines are not read")
)]
fn words_of(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("a chunk has eight bytes"));
    bytes.chunks_exact(8).map(word).collect()
}

/// A set of registers of a stopped thread, by the kernel's number, in the kernel's format.
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(dead_code, reason = "the registers of other machines are not read")
)]
fn register_set(tid: u32, number: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0_u8; 64 << 10];
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    ptrace(libc::PTRACE_GETREGSET, tid, number, &raw mut vector as usize)?;
    bytes.truncate(vector.iov_len);
    Ok(bytes)
}

/// Sets a set of registers of a stopped thread, by the kernel's number.
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(dead_code, reason = "the registers of other machines are not set")
)]
fn set_register_set(tid: u32, number: usize, bytes: &[u8]) -> io::Result<()> {
    let mut bytes = bytes.to_vec();
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    ptrace(libc::PTRACE_SETREGSET, tid, number, &raw mut vector as usize).map(drop)
}

/// The length of a signal mask in bytes, which the kernel's request needs.
const MASK: usize = 8;

/// The signals that a stopped thread blocks, with the bits of [`bit`].
pub fn mask(tid: u32) -> io::Result<u64> {
    let mut mask = 0_u64;
    ptrace(libc::PTRACE_GETSIGMASK as _, tid, MASK, &raw mut mask as usize)?;
    Ok(mask)
}

/// Sets the signals that a stopped thread blocks.
pub fn set_mask(tid: u32, mask: u64) -> io::Result<()> {
    let mut mask = mask;
    ptrace(libc::PTRACE_SETSIGMASK as _, tid, MASK, &raw mut mask as usize).map(drop)
}

/// The state of a thread that was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopState {
    /// The thread still runs.
    NotYet,
    /// The thread has ended.
    Ended,
    /// The thread is stopped. It was about to get this signal, or 0.
    By(i32),
    /// The thread is stopped at the begin or the end of a system call.
    AtCall,
}

/// Whether a traced thread has stopped. Does not wait.
pub fn stopped(tid: u32) -> io::Result<StopState> {
    let mut status = 0;
    // SAFETY: the kernel writes to `status`, which lives until the call returns.
    match unsafe { libc::waitpid(tid as libc::pid_t, &mut status, libc::__WALL | libc::WNOHANG) } {
        0 => Ok(StopState::NotYet),
        -1 => Err(io::Error::last_os_error()),
        _ if !libc::WIFSTOPPED(status) => Ok(StopState::Ended),
        _ if status >> 16 == libc::PTRACE_EVENT_STOP => Ok(StopState::By(0)),
        _ if libc::WSTOPSIG(status) == libc::SIGTRAP | 0x80 => Ok(StopState::AtCall),
        _ => Ok(StopState::By(libc::WSTOPSIG(status))),
    }
}

#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// Makes one call of `ptrace`. For requests that take an address in this process, `data` is that address.
fn ptrace(request: Request, tid: u32, at: usize, data: usize) -> io::Result<i64> {
    // SAFETY: the variable is this thread's own. It distinguishes an error from a word of -1.
    unsafe { *libc::__errno_location() = 0 };
    // SAFETY: requests that use `data` as an address are given that of a live variable of the right type; the others use numbers.
    let result = unsafe { libc::ptrace(request, tid as libc::pid_t, at, data) };
    let error = io::Error::last_os_error();
    if result == -1 && error.raw_os_error() != Some(0) { Err(error) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pending: i32, blocked: i32, ignored: i32, caught: i32) -> ProcStatus {
        ProcStatus {
            pending_for_process: Some(bit(pending)),
            blocked: Some(bit(blocked)),
            ignored: Some(bit(ignored)),
            caught: Some(bit(caught)),
            ..ProcStatus::default()
        }
    }

    #[test]
    fn a_call_ends_by_a_signal_that_the_thread_notices() {
        use libc::{SIGCHLD, SIGTERM, SIGUSR1};
        assert!(!ends_call(&status(0, 0, 0, 0), 0));
        assert!(ends_call(&status(SIGTERM, 0, 0, 0), 0));
        assert!(ends_call(&status(SIGUSR1, 0, 0, SIGUSR1), 0));
        assert!(!ends_call(&status(SIGUSR1, SIGUSR1, 0, SIGUSR1), 0));
        assert!(!ends_call(&status(SIGUSR1, 0, SIGUSR1, 0), 0));
        assert!(!ends_call(&status(SIGCHLD, 0, 0, 0), 0));
        assert!(ends_call(&status(SIGCHLD, 0, 0, SIGCHLD), 0));
        assert!(ends_call(&status(0, 0, 0, SIGCHLD), SIGCHLD));
        assert!(!ends_call(&status(0, 0, 0, 0), SIGCHLD));
    }
}
