//! What is read each minute of every process. In: what the kernel says of it. Out: who it is, and what is resident. Nothing here reads.

use allocanary_sys::proc::{self, Stat};

/// A process that runs one program: a number that is used again, and a program that is replaced (`exec`), give another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessKey {
    /// Its number.
    pub pid: u32,
    /// When it started, in the kernel's ticks since boot.
    pub start: u64,
    /// Where its program's code and its first stack begin: new with each `exec`. 0 or 1 for who may not know it.
    pub program: (u64, u64),
}

impl ProcessKey {
    /// Who it is.
    pub fn of(stat: &Stat) -> ProcessKey {
        ProcessKey { pid: stat.pid, start: stat.start, program: (stat.code, stat.stack) }
    }
}

/// What `status` tells, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStatus {
    /// Resident, with reserved huge pages.
    pub resident: u64,
    /// Of that, without a file behind it.
    pub anonymous: u64,
    /// In swap.
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
