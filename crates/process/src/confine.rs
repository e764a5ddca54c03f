//! Takes the rights of this process away. It can then only compute, read its open files, and write to its output.
//!
//! A hostile file may take over our parser, which must then not be able to use the rights of the command. So the child gives up these
//! rights before it reads anything: its user (if it is root), its capabilities, new rights by `execve`, inspection by other processes, and
//! all system calls except those below. The command opens everything that the child reads.

use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// The user of a child of root: `nobody`, who owns no files.
const NOBODY: u32 = 65534;

/// The `ioctl` requests for the pages and the mappings of a process: `PAGEMAP_SCAN`, `PROCMAP_QUERY`.
const REQUESTS: [u64; 2] = [0xc060_6610, 0xc068_6611];

/// The environment variable that lets a child keep the rights of the command, if the kernel cannot take them away.
pub const ALLOW: &str = "ALLOCANARY_READ_WITH_RIGHTS";

/// Takes the rights away. The process must have no other thread. The error says which step failed.
pub fn confine() -> Result<(), String> {
    let filter = filter().map_err(|error| format!("making the filter of system calls: {error}"))?;
    give_up_user().map_err(|error| format!("giving up the user: {error}"))?;
    give_up_rights().map_err(|error| format!("giving up capabilities: {error}"))?;
    seccompiler::apply_filter(&filter).map_err(|error| format!("setting a filter of system calls: {error}"))
}

/// Converts the result of a system call that returns -1 for an error.
fn done(result: libc::c_long) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Changes the user from root to `nobody`. In a container root may lack the right to do this. Then only the capabilities are given up.
fn give_up_user() -> io::Result<()> {
    // SAFETY: the calls take numbers, and an empty list of groups.
    unsafe {
        if libc::geteuid() != 0 {
            return Ok(());
        }
        let changed = done(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()))
            .and_then(|()| done(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY)))
            .and_then(|()| done(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY)));
        match changed {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EINVAL)) => Ok(()),
            done => done,
        }
    }
}

fn give_up_rights() -> io::Result<()> {
    /// The structures of `capset`, version 3: two of each set.
    #[repr(C)]
    struct Head {
        version: u32,
        pid: i32,
    }
    let (head, none) = (Head { version: 0x2008_0522, pid: 0 }, [0_u32; 6]);
    let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the calls only read their arguments, which live until they return.
    unsafe {
        done(libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0))
            // Linux before 5.9 does not have this call. The command opens nothing that a child inherits, so nothing is lost.
            .or_else(|error| if error.raw_os_error() == Some(libc::ENOSYS) { Ok(()) } else { Err(error) })?;
        done(libc::syscall(libc::SYS_capset, &raw const head, none.as_ptr()))?;
        done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
        done(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0).into())?;
        done(libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core).into())
    }
}

/// The system calls that stay allowed: those to compute, to read open files, to write to the output, and to end. All others return EPERM,
/// so that a library that tries one continues without it.
fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let number = |at: u8, op: SeccompCmpOp, value: u64| SeccompCondition::new(at, SeccompCmpArgLen::Dword, op, value);
    let mut rules: Vec<(i64, Vec<SeccompRule>)> = ALWAYS.iter().map(|call| (*call, Vec::new())).collect();
    // Writing is allowed only to standard output and standard error.
    let outputs: Result<Vec<_>, _> =
        [1, 2].map(|fd| SeccompRule::new(vec![number(0, SeccompCmpOp::Eq, fd)?])).into_iter().collect();
    rules.push((libc::SYS_write, outputs?));
    let requests: Result<Vec<_>, _> =
        REQUESTS.map(|request| SeccompRule::new(vec![number(1, SeccompCmpOp::Eq, request)?])).into_iter().collect();
    rules.push((libc::SYS_ioctl, requests?));
    // New memory must have no file, and must not be executable.
    let (exec, anonymous) = (libc::PROT_EXEC as u64, libc::MAP_ANONYMOUS as u64);
    let no_code = |at| number(at, SeccompCmpOp::MaskedEq(exec), 0);
    let plain = SeccompRule::new(vec![no_code(2)?, number(3, SeccompCmpOp::MaskedEq(anonymous), anonymous)?])?;
    rules.push((libc::SYS_mmap, vec![plain]));
    rules.push((libc::SYS_mprotect, vec![SeccompRule::new(vec![no_code(2)?])?]));
    // `abort` sends a signal to this process.
    let own = u64::from(std::process::id());
    let abort =
        SeccompRule::new(vec![number(0, SeccompCmpOp::Eq, own)?, number(2, SeccompCmpOp::Eq, libc::SIGABRT as u64)?])?;
    rules.push((libc::SYS_tgkill, vec![abort]));
    let arch = std::env::consts::ARCH.try_into()?;
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules.into_iter().collect(), refused, SeccompAction::Allow, arch)?.try_into()
}

/// Calls that are allowed with all arguments.
const ALWAYS: [i64; 34] = [
    // For open files.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_recvmsg,
    // For memory.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // For time. The interval timer ends a child whose command has ended.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_setitimer,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_alarm,
    #[cfg(not(target_arch = "x86_64"))]
    libc::SYS_getitimer,
    // For the C library itself.
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];
