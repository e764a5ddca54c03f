//! The maximum number of threads and the memory that a process can have on this host. In: /proc and the control groups.
//! Out: the lowest of the limits.

use std::fs;

use allocanary_sys::available::Available;
use allocanary_sys::cgroups::ControlGroups;
use allocanary_sys::sys::first_number;

/// The maximum number of worker threads of a cell. Some threads are left for the rest of the machine.
pub fn most_threads() -> u64 {
    let number = |path: &str| first_number(&fs::read(path).ok()?);
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let user = limits.lines().find_map(|line| line.strip_prefix("Max processes"));
    let user = user.and_then(|line| first_number(line.split_ascii_whitespace().next()?.as_bytes()));
    let all = [
        number("/proc/sys/kernel/threads-max"),
        number("/proc/sys/kernel/pid_max"),
        ControlGroups::own(&mut [0; 4096]).pids_limit().map(|limit| limit.value),
        user,
    ];
    const KEPT_BACK: u64 = 64;
    all.into_iter().flatten().min().unwrap_or(1024).saturating_sub(KEPT_BACK).max(1)
}

/// The available memory in bytes; no limit if nothing can be read.
pub fn memory_at_hand() -> u64 {
    Available::here().map_or(u64::MAX, |available| available.bytes)
}
