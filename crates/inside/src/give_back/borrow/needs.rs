//! The system calls that a borrowed thread makes, with the arguments that are known in advance. They are checked against the process's
//! filter of system calls.

use crate::give_back::borrow::filter::SyscallArgs;
use crate::give_back::remedy::Does;

const fn any(number: i64) -> SyscallArgs {
    SyscallArgs { number, arguments: [None; 6] }
}

const fn with(number: i64, at: usize, value: i32) -> SyscallArgs {
    let mut call = any(number);
    call.arguments[at] = Some(value as u64);
    call
}

/// The calls by which the thread returns, and by which it waits for a lock.
const ALWAYS: [SyscallArgs; 6] = [
    with(libc::SYS_futex, 1, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG),
    with(libc::SYS_futex, 1, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG),
    any(libc::SYS_rt_sigreturn),
    any(libc::SYS_tgkill),
    any(libc::SYS_getpid),
    any(libc::SYS_gettid),
];

const ADVISES: [SyscallArgs; 2] = [with(libc::SYS_madvise, 2, libc::MADV_DONTNEED), any(libc::SYS_brk)];

const MAPS: [SyscallArgs; 6] = [
    SyscallArgs {
        arguments: [
            None,
            None,
            Some((libc::PROT_READ | libc::PROT_WRITE) as u64),
            Some((libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64),
            None,
            None,
        ],
        ..any(libc::SYS_mmap)
    },
    with(libc::SYS_mmap, 2, libc::PROT_NONE),
    any(libc::SYS_munmap),
    with(libc::SYS_mprotect, 2, libc::PROT_READ | libc::PROT_WRITE),
    with(libc::SYS_mprotect, 2, libc::PROT_NONE),
    with(libc::SYS_madvise, 2, libc::MADV_FREE),
];

/// The calls for opening a library, and those that the recorder in it makes later, in any thread.
const OPENS: &[SyscallArgs] = &[
    any(libc::SYS_openat),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_open),
    any(libc::SYS_read),
    any(libc::SYS_pread64),
    any(libc::SYS_fstat),
    any(libc::SYS_newfstatat),
    any(libc::SYS_close),
    any(libc::SYS_ftruncate),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_unlink),
    #[cfg(target_arch = "x86_64")]
    any(libc::SYS_readlink),
    #[cfg(target_arch = "aarch64")]
    any(libc::SYS_unlinkat),
    #[cfg(target_arch = "aarch64")]
    any(libc::SYS_readlinkat),
    // The loader makes code checked by BTI in this way (PROT_BTI).
    #[cfg(target_arch = "aarch64")]
    with(libc::SYS_mprotect, 2, libc::PROT_READ | libc::PROT_EXEC | 0x10),
    any(libc::SYS_uname),
    any(libc::SYS_getppid),
    any(libc::SYS_rt_sigprocmask),
    any(libc::SYS_rt_sigaction),
    any(libc::SYS_prlimit64),
    any(libc::SYS_clock_gettime),
    with(libc::SYS_mmap, 2, libc::PROT_READ | libc::PROT_EXEC),
    with(libc::SYS_mmap, 2, libc::PROT_READ),
    with(libc::SYS_mmap, 2, libc::PROT_READ | libc::PROT_WRITE),
    with(libc::SYS_mprotect, 2, libc::PROT_READ),
    any(libc::SYS_madvise),
    any(libc::SYS_write),
];

/// The calls that start a thread.
const FOR_A_THREAD: [SyscallArgs; 7] = [
    any(libc::SYS_clone),
    any(libc::SYS_clone3),
    any(libc::SYS_rt_sigprocmask),
    any(libc::SYS_set_robust_list),
    any(libc::SYS_rseq),
    any(libc::SYS_sched_setaffinity),
    any(libc::SYS_prctl),
];

/// All calls that a borrowed thread may make.
pub fn of(does: Does, starts_thread: bool) -> impl Iterator<Item = SyscallArgs> {
    let maps = MAPS.into_iter().filter(move |_| does != Does::Advises);
    let opens = OPENS.iter().copied().filter(move |_| does == Does::Opens);
    let thread = FOR_A_THREAD.into_iter().filter(move |_| starts_thread);
    ALWAYS.into_iter().chain(ADVISES).chain(maps).chain(opens).chain(thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trim_maps_nothing_and_only_a_setting_starts_a_thread() {
        let has = |does, thread, number| of(does, thread).any(|call| call.number == number);
        assert!(!has(Does::Advises, false, libc::SYS_munmap) && has(Does::Maps, false, libc::SYS_munmap));
        assert!(!has(Does::Maps, false, libc::SYS_clone) && has(Does::Maps, true, libc::SYS_clone));
        assert!(has(Does::Advises, false, libc::SYS_rt_sigreturn));
        assert!(has(Does::Opens, false, libc::SYS_openat) && !has(Does::Maps, false, libc::SYS_openat));
    }
}
