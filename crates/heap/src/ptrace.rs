//! The kernel's means to stop a thread and to change it: `ptrace`. In: a thread. Out: its stops, its registers, its signals. The traced
//! thread belongs to the thread of this process that seized it, and only that one may make these calls.

use std::io;

/// The calling thread gets no signals while this lives.
pub struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    /// From now on.
    pub fn new() -> Blocked {
        // SAFETY: all zeroes are a value of this structure of numbers. The calls write to both, which live until they return.
        unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            Blocked { before }
        }
    }
}

impl Default for Blocked {
    fn default() -> Blocked {
        Blocked::new()
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the mask is one that the kernel gave, and lives until the call returns.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

impl std::fmt::Debug for Blocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Blocked")
    }
}

/// Whether a thread gets a signal that ends its call, which it then has to. In: the text of its `status`, and the signal that it was about
/// to get, or 0. Only while a thread is traced, signals wait that it ignores: it shall not notice them.
pub fn ends_call(status: &str, signal: i32) -> bool {
    let mask = |name| field(status, name).and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0);
    let by_default = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH].map(bit).into_iter().sum::<u64>();
    let ignored = mask("SigIgn") | (by_default & !mask("SigCgt"));
    let waiting = (mask("SigPnd") | mask("ShdPnd")) & !mask("SigBlk");
    (bit(signal) | waiting) & !ignored != 0
}

/// A signal in a mask as the kernel prints it. 0 is none.
pub fn bit(signal: i32) -> u64 {
    if signal == 0 { 0 } else { 1 << (signal - 1) }
}

/// A field of a thread's `status`.
pub fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

/// How a thread that is stopped goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Until a signal or a fault stops it.
    Freely,
    /// Until it enters or leaves a system call.
    ToCall,
}

/// Begins to trace a thread, which runs on. A stop at a system call is told from a fault.
pub fn seize(tid: u32) -> io::Result<()> {
    ptrace(libc::PTRACE_SEIZE, tid, 0, libc::PTRACE_O_TRACESYSGOOD as usize).map(drop)
}

/// Asks a traced thread to stop.
pub fn interrupt(tid: u32) -> io::Result<()> {
    ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0).map(drop)
}

/// Lets a thread that is stopped go on, still traced, with a signal that it was about to get, or 0.
pub fn resume(tid: u32, how: Resume, signal: i32) -> io::Result<()> {
    let request = if how == Resume::ToCall { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
    ptrace(request, tid, 0, signal as usize).map(drop)
}

/// Whether the kernel made the signal that has stopped a thread, because of what the thread did: a fault, and no signal that was sent.
pub fn is_fault(tid: u32) -> io::Result<bool> {
    // SAFETY: all zeroes are a value of this structure of numbers.
    let mut about: libc::siginfo_t = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETSIGINFO, tid, 0, &raw mut about as usize)?;
    Ok(about.si_code > 0)
}

/// Lets a thread that is stopped go for good, with a signal that it was about to get, or 0.
pub fn detach(tid: u32, signal: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_DETACH, tid, 0, signal as usize).map(drop)
}

/// The registers of a thread that is stopped.
#[cfg(target_arch = "x86_64")]
pub fn registers(tid: u32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: all zeroes are a value of this structure of numbers.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETREGS, tid, 0, &raw mut registers as usize)?;
    Ok(registers)
}

/// Sets the registers of a thread that is stopped.
#[cfg(target_arch = "x86_64")]
pub fn set_registers(tid: u32, registers: &libc::user_regs_struct) -> io::Result<()> {
    let mut registers = *registers;
    ptrace(libc::PTRACE_SETREGS, tid, 0, &raw mut registers as usize).map(drop)
}

/// The kernel's number of the extended registers: x87, SSE, AVX and later ones.
#[cfg(target_arch = "x86_64")]
const XSTATE: usize = 0x202;

/// The extended registers of a thread that is stopped, as the kernel writes them.
#[cfg(target_arch = "x86_64")]
pub fn extended(tid: u32) -> io::Result<Vec<u8>> {
    register_set(tid, XSTATE)
}

/// Sets what [`extended`] gave.
#[cfg(target_arch = "x86_64")]
pub fn set_extended(tid: u32, bytes: &[u8]) -> io::Result<()> {
    let mut bytes = bytes.to_vec();
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    ptrace(libc::PTRACE_SETREGSET, tid, XSTATE, &raw mut vector as usize).map(drop)
}

/// The stack pointer of a thread that is stopped, and the words that its registers have. No caller of a system call keeps something in the
/// vector registers: what is there is old. So they are left out of a thread that waits in a call.
#[cfg(target_arch = "x86_64")]
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

/// The stack pointer of a thread that is stopped, and the words that its registers have. No caller of a system call keeps something in the
/// vector registers: what is there is old. So they are left out of a thread that waits in a call.
#[cfg(not(target_arch = "x86_64"))]
pub fn words(tid: u32) -> io::Result<(u64, Vec<u64>)> {
    // The kernel's numbers: general registers, vector registers, the number of the system call.
    const GENERAL: usize = 1;
    const VECTORS: usize = 2;
    const CALL: usize = 0x404;
    let mut words = words_of(&register_set(tid, GENERAL)?);
    // 31 registers, the stack pointer, the program counter, the state.
    let stack = *words.get(31).ok_or_else(|| io::Error::other("its registers are fewer than 32"))?;
    words.truncate(31);
    let call =
        register_set(tid, CALL).ok().and_then(|bytes| Some(i32::from_le_bytes(bytes.get(..4)?.try_into().ok()?)));
    if call.is_none_or(|call| call < 0) {
        words.extend(words_of(&register_set(tid, VECTORS).unwrap_or_default()));
    }
    Ok((stack, words))
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("a chunk has eight bytes"));
    bytes.chunks_exact(8).map(word).collect()
}

/// A set of registers of a thread that is stopped, by the kernel's number, as the kernel writes it.
fn register_set(tid: u32, number: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0_u8; 64 << 10];
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    ptrace(libc::PTRACE_GETREGSET, tid, number, &raw mut vector as usize)?;
    bytes.truncate(vector.iov_len);
    Ok(bytes)
}

/// The bytes of a mask of signals, as the kernel wants it told.
const MASK: usize = 8;

/// The signals that a thread that is stopped blocks, as [`bit`] numbers them.
pub fn mask(tid: u32) -> io::Result<u64> {
    let mut mask = 0_u64;
    ptrace(libc::PTRACE_GETSIGMASK as _, tid, MASK, &raw mut mask as usize)?;
    Ok(mask)
}

/// Sets them.
pub fn set_mask(tid: u32, mask: u64) -> io::Result<()> {
    let mut mask = mask;
    ptrace(libc::PTRACE_SETSIGMASK as _, tid, MASK, &raw mut mask as usize).map(drop)
}

/// Whether the two bytes before an address are a system call's instruction.
#[cfg(target_arch = "x86_64")]
pub fn is_after_call(tid: u32, at: u64) -> io::Result<bool> {
    const SYSCALL: i64 = 0x050f;
    let from = at.checked_sub(2).ok_or(io::ErrorKind::InvalidData)?;
    Ok(ptrace(libc::PTRACE_PEEKTEXT, tid, from as usize, 0)? & 0xffff == SYSCALL)
}

/// The segment of 64-bit code.
#[cfg(target_arch = "x86_64")]
pub const USER_CODE: u64 = 0x33;

/// If a stop has ended the thread's call, lets it make the call again.
#[cfg(target_arch = "x86_64")]
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

/// If a stop has ended the thread's call, lets it make the call again.
#[cfg(not(target_arch = "x86_64"))]
pub fn hide(_tid: u32) -> io::Result<()> {
    Ok(())
}

/// What has become of a thread that was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It runs.
    NotYet,
    /// It has ended.
    Ended,
    /// It is stopped. It was about to get this signal, or 0.
    By(i32),
    /// It is stopped where it enters or leaves a system call.
    AtCall,
}

/// Whether a traced thread has stopped. It does not wait.
pub fn stopped(tid: u32) -> io::Result<Stop> {
    let mut status = 0;
    // SAFETY: the kernel writes to `status`, which lives until the call returns.
    match unsafe { libc::waitpid(tid as libc::pid_t, &mut status, libc::__WALL | libc::WNOHANG) } {
        0 => Ok(Stop::NotYet),
        -1 => Err(io::Error::last_os_error()),
        _ if !libc::WIFSTOPPED(status) => Ok(Stop::Ended),
        _ if status >> 16 == libc::PTRACE_EVENT_STOP => Ok(Stop::By(0)),
        _ if libc::WSTOPSIG(status) == libc::SIGTRAP | 0x80 => Ok(Stop::AtCall),
        _ => Ok(Stop::By(libc::WSTOPSIG(status))),
    }
}

#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// One call of `ptrace`. What it reads or writes in this process is `data`, for the requests that take an address.
fn ptrace(request: Request, tid: u32, at: usize, data: usize) -> io::Result<i64> {
    // SAFETY: the variable is this thread's own. A word of -1 that was read is told from an error by it.
    unsafe { *libc::__errno_location() = 0 };
    // SAFETY: requests that use `data` as an address are given that of a live variable of the right type; the others use numbers.
    let result = unsafe { libc::ptrace(request, tid as libc::pid_t, at, data) };
    let error = io::Error::last_os_error();
    if result == -1 && error.raw_os_error() != Some(0) { Err(error) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pending: i32, blocked: i32, ignored: i32, caught: i32) -> String {
        let masks = [("SigPnd", 0), ("ShdPnd", pending), ("SigBlk", blocked), ("SigIgn", ignored), ("SigCgt", caught)];
        let lines = masks.map(|(name, signal)| format!("{name}:\t{:016x}\n", bit(signal)));
        format!("Name:\tprogram\n{}", lines.concat())
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
