//! Parses `/proc/PID/stat`, and the time of boot in `/proc/stat`. Times are in clock ticks.

use std::io::Result;
use std::time::Duration;

use crate::sys::{line_number, read_whole};

/// A clock tick. For programs, the kernel counts in hundredths of a second, whatever its own clock is.
pub const TICK: Duration = Duration::from_millis(10);

/// The kernel's `PF_KTHREAD`, among the flags of a thread.
const OF_KERNEL: u64 = 1 << 21;

/// The kernel's numbers for a process or a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The ID of the process or thread.
    pub pid: u32,
    /// Its name, which may have any bytes in it.
    pub name: String,
    /// What it does: `R` runs, `S` sleeps, `D` waits for a device, `T` and `t` are stopped, `Z` and `X` have ended.
    pub state: char,
    /// The process that started it. If that has ended, the process that adopted it.
    pub parent: u32,
    /// Page faults without a disk read.
    pub minor_faults: u64,
    /// Page faults without a disk read, of the children that it has waited for.
    pub minor_faults_of_children: u64,
    /// Page faults with a disk read.
    pub major_faults: u64,
    /// Page faults with a disk read, of the children that it has waited for.
    pub major_faults_of_children: u64,
    /// Processor time in the program, in ticks.
    pub user: u64,
    /// Processor time in the kernel, in ticks.
    pub system: u64,
    /// Processor time in the programs of its children that it has waited for, in ticks.
    pub user_of_children: u64,
    /// Processor time in the kernel of these children, in ticks.
    pub system_of_children: u64,
    /// The number of its threads.
    pub threads: u64,
    /// When it started, in ticks since boot.
    pub start: u64,
    /// Whether it is a thread of the kernel.
    pub is_of_kernel: bool,
    /// Bytes of address space; `None` if the text ends before.
    pub addresses: Option<u64>,
    /// The address of its program's code; 0 or 1 if the reader has no right to know it.
    pub code: u64,
    /// The address of its first stack; 0 or 1 if the reader has no right to know it.
    pub stack: u64,
}

impl Stat {
    /// Parses the text. The name may have spaces, brackets and line feeds in it. `None` if the text has another form.
    pub fn parse(text: &[u8]) -> Option<Stat> {
        let text = String::from_utf8_lossy(text);
        let (pid, rest) = text.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The state is the third field of the file and the first of these.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Stat {
            pid: pid.parse().ok()?,
            name: name.to_string(),
            state: fields.first()?.chars().next()?,
            parent: u32::try_from(number(4)?).ok()?,
            minor_faults: number(10)?,
            minor_faults_of_children: number(11)?,
            major_faults: number(12)?,
            major_faults_of_children: number(13)?,
            user: number(14)?,
            system: number(15)?,
            user_of_children: number(16)?,
            system_of_children: number(17)?,
            threads: number(20)?,
            start: number(22)?,
            is_of_kernel: number(9)? & OF_KERNEL != 0,
            addresses: number(23),
            code: number(26).unwrap_or(0),
            stack: number(28).unwrap_or(0),
        })
    }

    /// Reads the numbers of this process.
    pub fn own() -> Result<Stat> {
        Stat::read("/proc/self/stat")
    }

    /// Reads the numbers of a process.
    pub fn of(pid: u32) -> Result<Stat> {
        Stat::read(&format!("/proc/{pid}/stat"))
    }

    /// Reads the numbers of a thread.
    pub fn of_thread(pid: u32, tid: u32) -> Result<Stat> {
        Stat::read(&format!("/proc/{pid}/task/{tid}/stat"))
    }

    fn read(path: &str) -> Result<Stat> {
        Stat::parse(&read_whole(path)?).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
    }

    /// Whether it has ended, and its parent has not waited for it yet.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Whether it has no memory: it is a process of the kernel, or has ended.
    pub fn is_bare(&self) -> bool {
        self.addresses == Some(0) || self.has_ended()
    }

    /// Its processor time with that of children that it has waited for, in ticks.
    pub fn cpu(&self) -> u64 {
        let all = [self.user, self.system, self.user_of_children, self.system_of_children];
        all.into_iter().fold(0, u64::saturating_add)
    }
}

/// Converts ticks to a time.
pub fn time(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(TICK.as_millis() as u64))
}

/// The time of boot in the text of `/proc/stat`, in seconds since 1970, rounded.
pub fn booted(text: &[u8]) -> Option<u64> {
    line_number(text, b"btime ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "42 (a) b (c) S 7 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 12 0 500 1000 200 9 11 12 13 14 15";

    #[test]
    fn the_numbers_are_found_behind_a_strange_name() {
        let wanted = Stat {
            pid: 42,
            name: "a) b (c".into(),
            state: 'S',
            parent: 7,
            minor_faults: 1,
            minor_faults_of_children: 2,
            major_faults: 3,
            major_faults_of_children: 4,
            user: 5,
            system: 6,
            user_of_children: 7,
            system_of_children: 8,
            threads: 12,
            start: 500,
            is_of_kernel: false,
            addresses: Some(1000),
            code: 11,
            stack: 13,
        };
        assert_eq!(Stat::parse(TEXT.as_bytes()), Some(wanted.clone()));
        for name in ["x", "", ") R 1 (", "two\nlines", "1 (x) S 1 1"] {
            let named = Stat { name: name.into(), ..wanted.clone() };
            assert_eq!(Stat::parse(TEXT.replace("a) b (c", name).as_bytes()), Some(named));
        }
        assert_eq!((wanted.cpu(), time(wanted.cpu())), (26, TICK * 26));
        assert!(Stat::parse(TEXT.replace("4194560", "2129984").as_bytes()).unwrap().is_of_kernel);
        assert_eq!(Stat::parse(b"42 (a"), None);
        assert_eq!(Stat::parse(b"42 (a) S 7 7"), None, "a text that was cut");
    }

    #[test]
    fn what_has_no_memory_is_bare() {
        let bare = |text: String| Stat::parse(text.as_bytes()).unwrap().is_bare();
        assert!(!bare(TEXT.into()) && bare(TEXT.replace(" 1000 200", " 0 0")) && bare(TEXT.replace(") S ", ") Z ")));
    }

    #[test]
    fn this_process_and_this_thread_are_read_and_one_that_is_gone_is_not() {
        let pid = std::process::id();
        for stat in [Stat::own(), Stat::of(pid), Stat::of_thread(pid, pid)] {
            let stat = stat.unwrap();
            assert!(stat.pid == pid && stat.start > 0 && !stat.is_bare() && stat.code > 1, "{stat:?}");
        }
        assert!(Stat::of(u32::MAX).is_err());
        assert!(booted(&read_whole("/proc/stat").unwrap()) > Some(0));
    }

    #[test]
    fn fuzz_no_text_is_a_panic() {
        allocanary_testing::fuzz::holds(256, 3, "[0-9]{0,25} ?\\(?[ -~\n]{0,100}", |text: String| {
            let _ = Stat::parse(text.as_bytes());
        });
    }

    #[test]
    fn fuzz_no_field_is_a_panic() {
        let text = "[0-9]{1,25} \\([a-z) \n]{0,9}\\) [A-Z] ([0-9]{1,25} ){0,40}";
        allocanary_testing::fuzz::holds(256, 3, text, |text: String| {
            let found = Stat::parse(text.as_bytes());
            let _ = found.map(|stat| (stat.cpu(), stat.is_bare()));
        });
    }
}
