//! What the agent reads of every process each minute. In: the kernel's texts. Out: who the process is, and what is resident. Nothing here
//! reads a file.

use allocanary_sys::proc::{self, Stat};

/// Identifies a process that runs one program. A PID that is used again gets another key, and so does a process that starts another program
/// (`exec`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessKey {
    /// Its PID.
    pub pid: u32,
    /// When it started, in the kernel's ticks since boot.
    pub start: u64,
    /// Where the program's code and its first stack begin. Both change with each `exec`. They are 0 or 1 for a reader who may not know
    /// them.
    pub program: (u64, u64),
}

impl ProcessKey {
    /// The key of the process that `stat` describes.
    pub fn of(stat: &Stat) -> ProcessKey {
        ProcessKey { pid: stat.pid, start: stat.start, program: (stat.code, stat.stack) }
    }
}

/// The memory of a process, as its `status` says, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatus {
    /// Resident bytes, with reserved huge pages.
    pub resident: u64,
    /// The part of `resident` that has no file behind it.
    pub anonymous: u64,
    /// Bytes in swap.
    pub swapped: u64,
}

impl MemoryStatus {
    /// `None` if it has no memory.
    pub fn of(status: &proc::ProcStatus) -> Option<MemoryStatus> {
        let resident = status.all_resident()?;
        let huge = status.reserved_huge.unwrap_or(0);
        let anonymous = status.anonymous.unwrap_or(0).saturating_add(huge).min(resident);
        Some(MemoryStatus { resident, anonymous, swapped: status.swapped.unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "42 (a) b (c) S 7 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 12 0 500 1000 200 9 11 12 13 14 15";

    #[test]
    fn another_start_or_program_is_another_process() {
        let key = |text: String| ProcessKey::of(&Stat::parse(text.as_bytes()).unwrap());
        let first = key(STAT.into());
        assert_eq!(first, ProcessKey { pid: 42, start: 500, program: (11, 13) });
        assert_ne!(key(STAT.replace(" 500 ", " 501 ")), first, "the number was used again");
        assert_ne!(key(STAT.replace(" 11 12 13", " 21 22 23")), first, "it has started another program");
    }

    #[test]
    fn reserved_huge_pages_are_resident_and_have_no_file() {
        let text = b"Name:\tx\nVmRSS:\t  100 kB\nRssAnon:\t 60 kB\nHugetlbPages:\t 2048 kB\nVmSwap:\t 4 kB\n";
        let of = |text: &[u8]| MemoryStatus::of(&proc::ProcStatus::parse(text));
        assert_eq!(of(text), Some(MemoryStatus { resident: 2148 << 10, anonymous: 2108 << 10, swapped: 4 << 10 }));
        assert_eq!(of(b"Name:\tkthreadd\n"), None);
    }
}
