//! The properties of the machine that affect memory, from /proc and /sys.

use std::fs;

use crate::sys::{first_number, line_number, page_bytes};

/// The properties of the machine that affect memory.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The kernel's release.
    pub kernel: String,
    /// The CPU's model.
    pub cpu: String,
    /// The number of CPUs that are online.
    pub cores: u32,
    /// The number of CPUs on which this process may run.
    pub affinity: u32,
    /// `available_parallelism` of std: the available CPUs. A container's quota counts, rounded down.
    pub parallelism: u32,
    /// Total memory, in bytes.
    pub memory_bytes: u64,
    /// Size of a page, in bytes.
    pub page_bytes: u64,
    /// The mode of transparent huge pages: always, madvise or never.
    pub thp: String,
}

impl Host {
    /// This machine.
    pub fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let first_line = |path| read(path).lines().next().unwrap_or("unknown").trim().to_string();
        let status = read("/proc/self/status");
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let model = read("/proc/cpuinfo");
        let model = model.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let thp = read("/sys/kernel/mm/transparent_hugepage/enabled");
        let thp = thp.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        Host {
            name: first_line("/proc/sys/kernel/hostname"),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            cpu: model.map_or("unknown", |(_, name)| name).to_string(),
            cores: count_list(&read("/sys/devices/system/cpu/online")),
            affinity: count_list(allowed.unwrap_or_default()),
            parallelism: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
            memory_bytes: line_number(read("/proc/meminfo").as_bytes(), b"MemTotal:").unwrap_or(0) * 1024,
            page_bytes: page_bytes(),
            thp: thp.map_or("unknown", |(mode, _)| mode).to_string(),
        }
    }
}

/// How many numbers a kernel list such as `0-3,8` contains; at least 1.
fn count_list(list: &str) -> u32 {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first_number(first.as_bytes())?, first_number(last.as_bytes())?);
        Some(last.checked_sub(first)? as u32 + 1)
    };
    list.split(',').filter_map(count).sum::<u32>().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lists_are_counted() {
        for (list, count) in [("0-3,8\n", 5), ("0", 1), ("\t0-1", 2), ("", 1), ("3-1", 1)] {
            assert_eq!(count_list(list), count, "{list:?}");
        }
    }
}
