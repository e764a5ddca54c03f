//! Parses `/proc/PID/status`, and the same file of a thread. Sizes are in bytes. `parse` and `own` allocate nothing.
//!
//! The text has the process's name in its first line, in which the kernel escapes line feeds. If a key is there twice, the last line counts.

use std::io::Result;

use super::lines;
use super::maps::hexadecimal;
use crate::sys::first_number;

/// The kernel's numbers for a process or a thread; `None` if the text does not have the number. Sizes are missing for a process that has
/// ended and was not waited for, and for a thread of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcStatus {
    /// What it does: `R` runs, `S` sleeps, `D` waits for a device, `T` and `t` are stopped, `Z` and `X` have ended.
    pub state: Option<char>,
    /// The process to which the thread belongs.
    pub process: Option<u32>,
    /// The thread that traces it; 0 if none does.
    pub tracer: Option<u32>,
    /// Its user IDs: real, effective, saved, and the one for access to files.
    pub users: Option<[u32; 4]>,
    /// Its effective capabilities, one bit each.
    pub capabilities: Option<u64>,
    /// The number of threads of the process.
    pub threads: Option<u64>,
    /// Bytes of address space.
    pub addresses: Option<u64>,
    /// Resident bytes, without reserved huge pages.
    pub resident: Option<u64>,
    /// The most resident bytes since its exec.
    pub most_resident: Option<u64>,
    /// Resident bytes without a file.
    pub anonymous: Option<u64>,
    /// Resident bytes of files.
    pub files: Option<u64>,
    /// Resident bytes of shared memory.
    pub shared: Option<u64>,
    /// Bytes in swap.
    pub swapped: Option<u64>,
    /// Bytes of reserved huge pages, which are resident and in no other number.
    pub reserved_huge: Option<u64>,
    /// Whether the kernel may give it transparent huge pages (from Linux 5.0 on). This does not include memory for which the process has
    /// advised them.
    pub may_have_huge_pages: Option<bool>,
    /// The pending signals of the thread, one bit each: signal 1 is the lowest bit.
    pub pending: Option<u64>,
    /// The pending signals for any thread of the process.
    pub pending_for_process: Option<u64>,
    /// The signals that it blocks.
    pub blocked: Option<u64>,
    /// The signals that it ignores.
    pub ignored: Option<u64>,
    /// The signals for which it has a handler.
    pub caught: Option<u64>,
    /// Its seccomp mode: 1 is the strict mode, 2 has filters.
    pub seccomp: Option<u32>,
    /// The number of these filters (from Linux 5.9 on).
    pub filters: Option<u32>,
    /// Whether it has a shadow stack.
    pub has_shadow_stack: bool,
}

impl ProcStatus {
    /// Parses the text.
    pub fn parse(text: &[u8]) -> ProcStatus {
        let mut status = ProcStatus::default();
        text.split(|byte| *byte == b'\n').for_each(|line| status.take(line));
        status
    }

    /// Reads the numbers of this process.
    pub fn own() -> Result<ProcStatus> {
        ProcStatus::read("/proc/self/status")
    }

    /// Reads the numbers of a process.
    pub fn of(pid: u32) -> Result<ProcStatus> {
        ProcStatus::read(&format!("/proc/{pid}/status"))
    }

    /// Reads the numbers of a thread.
    pub fn of_thread(pid: u32, tid: u32) -> Result<ProcStatus> {
        ProcStatus::read(&format!("/proc/{pid}/task/{tid}/status"))
    }

    fn read(path: &str) -> Result<ProcStatus> {
        let mut status = ProcStatus::default();
        lines::each(path, |line| status.take(line))?;
        Ok(status)
    }

    /// Resident bytes, including reserved huge pages. `None` if it has no memory.
    pub fn all_resident(&self) -> Option<u64> {
        Some(self.resident?.saturating_add(self.reserved_huge.unwrap_or(0)))
    }

    fn take(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let value = line[colon + 1..].trim_ascii();
        let number = || first_number(value);
        let small = || number().and_then(|number| u32::try_from(number).ok());
        let bytes = || number().map(|kib| kib.saturating_mul(1024));
        let mask = || hexadecimal(value);
        match &line[..colon] {
            b"State" => self.state = value.first().map(|byte| char::from(*byte)),
            b"Tgid" => self.process = small(),
            b"TracerPid" => self.tracer = small(),
            b"Uid" => self.users = four(value),
            b"CapEff" => self.capabilities = mask(),
            b"Threads" => self.threads = number(),
            b"VmSize" => self.addresses = bytes(),
            b"VmRSS" => self.resident = bytes(),
            b"VmHWM" => self.most_resident = bytes(),
            b"RssAnon" => self.anonymous = bytes(),
            b"RssFile" => self.files = bytes(),
            b"RssShmem" => self.shared = bytes(),
            b"VmSwap" => self.swapped = bytes(),
            b"HugetlbPages" => self.reserved_huge = bytes(),
            b"THP_enabled" => self.may_have_huge_pages = number().map(|given| given != 0),
            b"SigPnd" => self.pending = mask(),
            b"ShdPnd" => self.pending_for_process = mask(),
            b"SigBlk" => self.blocked = mask(),
            b"SigIgn" => self.ignored = mask(),
            b"SigCgt" => self.caught = mask(),
            b"Seccomp" => self.seccomp = small(),
            b"Seccomp_filters" => self.filters = small(),
            b"x86_Thread_features" => {
                self.has_shadow_stack = value.split(u8::is_ascii_whitespace).any(|word| word == b"shstk");
            }
            _ => {}
        }
    }
}

/// The first four numbers of the text.
fn four(value: &[u8]) -> Option<[u32; 4]> {
    let mut words = value.split(u8::is_ascii_whitespace);
    let mut found = [0; 4];
    for number in &mut found {
        *number = u32::try_from(first_number(words.next()?)?).ok()?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"Name:\tx\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t42\nPid:\t43\nTracerPid:\t8\n\
        Uid:\t1000\t1001\t1002\t1003\nVmSize:\t  900 kB\nVmHWM:\t 120 kB\nVmRSS:\t  100 kB\nRssAnon:\t 60 kB\nRssFile:\t 30 kB\n\
        RssShmem:\t 10 kB\nVmSwap:\t 4 kB\nHugetlbPages:\t 2048 kB\nTHP_enabled:\t1\nThreads:\t7\nSigPnd:\t0000000000000001\n\
        ShdPnd:\t0000000000000002\nSigBlk:\t0000000000010000\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000400000\nSeccomp:\t2\n\
        Seccomp_filters:\t3\nx86_Thread_features:\tshstk wrss\n";

    #[test]
    fn each_number_is_read_and_kibibytes_are_bytes() {
        let status = ProcStatus::parse(TEXT);
        assert_eq!((status.state, status.process, status.tracer), (Some('S'), Some(42), Some(8)));
        assert_eq!((status.users, status.threads), (Some([1000, 1001, 1002, 1003]), Some(7)));
        let kib = |bytes: Option<u64>| bytes.unwrap() / 1024;
        assert_eq!([status.addresses, status.resident, status.most_resident].map(kib), [900, 100, 120]);
        assert_eq!([status.anonymous, status.files, status.shared, status.swapped].map(kib), [60, 30, 10, 4]);
        assert_eq!((kib(status.reserved_huge), kib(status.all_resident())), (2048, 2148));
        assert_eq!((status.may_have_huge_pages, status.has_shadow_stack), (Some(true), true));
        assert_eq!((status.pending, status.pending_for_process), (Some(1), Some(2)));
        assert_eq!((status.blocked, status.ignored, status.caught), (Some(0x10000), Some(0x1000), Some(0x40_0000)));
        assert_eq!((status.seccomp, status.filters), (Some(2), Some(3)));
    }

    #[test]
    fn what_is_not_there_is_not_known() {
        assert_eq!(ProcStatus::parse(b""), ProcStatus::default());
        let thread = ProcStatus::parse(b"Name:\tkthreadd\nTgid:\t2\nx86_Thread_features:\t\n");
        assert_eq!(thread, ProcStatus { process: Some(2), ..ProcStatus::default() });
        assert_eq!(thread.all_resident(), None);
    }

    #[test]
    fn a_name_decides_nothing() {
        let text = [b"Name:\tVmRSS: 9 kB\nTracerPid:\t9\nVmRSS:\t9 kB\n", &TEXT[8..]].concat();
        assert_eq!(ProcStatus::parse(&text), ProcStatus::parse(TEXT));
    }

    #[test]
    fn this_process_and_this_thread_are_read_and_one_that_is_gone_is_not() {
        let pid = std::process::id();
        for status in [ProcStatus::own(), ProcStatus::of(pid), ProcStatus::of_thread(pid, pid)] {
            let status = status.unwrap();
            assert!(status.process == Some(pid) && status.resident > Some(0) && status.caught.is_some(), "{status:?}");
        }
        assert!(ProcStatus::of(u32::MAX).is_err());
    }

    #[test]
    fn fuzz_no_text_makes_it_panic() {
        let keys = "(VmRSS|Uid|SigCgt|State|Threads|HugetlbPages|x86_Thread_features)?:[0-9a-f\\t kBshtk]{0,40}\n";
        allocanary_testing::fuzz::holds(256, 3, format!("([ -~]{{0,30}}\n|{keys}){{0,9}}").as_str(), |text| {
            let _ = ProcStatus::parse(text.as_bytes()).all_resident();
        });
    }
}
