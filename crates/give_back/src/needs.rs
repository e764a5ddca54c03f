//! The system calls that a borrowed thread makes, to be checked against a filter of system calls. In: what an allocator does. Out: calls, with
//! those arguments that are known in advance.

use crate::filter::Call;
use crate::remedy::Does;

const fn any(number: i64) -> Call {
    Call { number, arguments: [None; 6] }
}

const fn with(number: i64, at: usize, value: i32) -> Call {
    let mut call = any(number);
    call.arguments[at] = Some(value as u64);
    call
}

/// The calls by which the thread returns, and by which it waits for a lock.
const ALWAYS: [Call; 6] = [
    with(libc::SYS_futex, 1, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG),
    with(libc::SYS_futex, 1, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG),
    any(libc::SYS_rt_sigreturn),
    any(libc::SYS_tgkill),
    any(libc::SYS_getpid),
    any(libc::SYS_gettid),
];

const ADVISES: [Call; 2] = [with(libc::SYS_madvise, 2, libc::MADV_DONTNEED), any(libc::SYS_brk)];

const MAPS: [Call; 6] = [
    Call {
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

/// The calls that start a thread.
const FOR_A_THREAD: [Call; 7] = [
    any(libc::SYS_clone),
    any(libc::SYS_clone3),
    any(libc::SYS_rt_sigprocmask),
    any(libc::SYS_set_robust_list),
    any(libc::SYS_rseq),
    any(libc::SYS_sched_setaffinity),
    any(libc::SYS_prctl),
];

/// All calls that such a thread may make.
pub fn of(does: Does, starts_thread: bool) -> impl Iterator<Item = Call> {
    let maps = MAPS.into_iter().filter(move |_| does == Does::Maps);
    let thread = FOR_A_THREAD.into_iter().filter(move |_| starts_thread);
    ALWAYS.into_iter().chain(ADVISES).chain(maps).chain(thread)
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
    }
}
