//! What is read each minute of every process. In: the texts of `/proc/PID/stat` and `/proc/PID/status`. Out: who it is, and what is
//! resident. Nothing here reads.

use allocanary_kernel::sys::line_number;

/// A process that runs one program: a number that is used again, and a program that is replaced (`exec`), give another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its number.
    pub pid: u32,
    /// When it started, in the kernel's ticks since boot.
    pub start: u64,
    /// Where its program's code and its first stack begin: new with each `exec`. 0 or 1 for who may not know it.
    pub program: (u64, u64),
}

/// What `stat` tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Who it is.
    pub key: Key,
    /// Its name.
    pub name: String,
    /// Whether it is a process of the kernel's, or has ended: it has no memory.
    pub is_bare: bool,
    /// CPU time of it and of its children that have ended, in the kernel's ticks.
    pub cpu: u64,
}

impl Stat {
    /// Parses the text. The name may have spaces and brackets in it. `None` if it is none.
    pub fn parse(text: &[u8]) -> Option<Stat> {
        let text = String::from_utf8_lossy(text);
        let (pid, rest) = text.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The state is the third field of the file and the first of these.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let key = Key {
            pid: pid.parse().ok()?,
            start: number(22)?,
            program: (number(26).unwrap_or(0), number(28).unwrap_or(0)),
        };
        let is_bare = number(23) == Some(0) || matches!(fields.first(), Some(&("Z" | "X")));
        let cpu = (14..=17).filter_map(number).fold(0, u64::saturating_add);
        Some(Stat { key, name: name.to_string(), is_bare, cpu })
    }
}

/// What `status` tells, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Resident, with reserved huge pages.
    pub resident: u64,
    /// Of that, without a file behind it.
    pub anonymous: u64,
    /// In swap.
    pub swapped: u64,
}

impl Status {
    /// Parses the text. `None` if it has no memory.
    pub fn parse(text: &[u8]) -> Option<Status> {
        let bytes = |key: &str| line_number(text, key.as_bytes()).map(|kib| kib.saturating_mul(1024));
        let huge = bytes("HugetlbPages:").unwrap_or(0);
        let resident = bytes("VmRSS:")?.saturating_add(huge);
        let anonymous = bytes("RssAnon:").unwrap_or(0).saturating_add(huge).min(resident);
        Some(Status { resident, anonymous, swapped: bytes("VmSwap:").unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str = "42 (a) b (c) S 7 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 12 0 500 1000 200 9 11 12 13 14 15";

    #[test]
    fn who_it_is_survives_a_strange_name() {
        let stat = Stat::parse(STAT.as_bytes()).unwrap();
        assert_eq!((stat.name.as_str(), stat.is_bare, stat.cpu), ("a) b (c", false, 5 + 6 + 7 + 8));
        assert_eq!(stat.key, Key { pid: 42, start: 500, program: (11, 13) });
        let later = Stat::parse(STAT.replace(" 500 ", " 501 ").as_bytes()).unwrap();
        assert_ne!(later.key, stat.key, "the number was used again");
        let other = Stat::parse(STAT.replace(" 11 12 13", " 21 22 23").as_bytes()).unwrap();
        assert_ne!(other.key, stat.key, "it has started another program");
    }

    #[test]
    fn what_has_no_memory_is_bare() {
        assert!(Stat::parse(STAT.replace(" 1000 200", " 0 0").as_bytes()).unwrap().is_bare);
        assert!(Stat::parse(STAT.replace(") S ", ") Z ").as_bytes()).unwrap().is_bare);
        assert_eq!(Stat::parse(b"42 (a"), None);
    }

    #[test]
    fn resident_memory_is_read_in_bytes() {
        let text = b"Name:\tx\nVmRSS:\t  100 kB\nRssAnon:\t 60 kB\nHugetlbPages:\t 2048 kB\nVmSwap:\t 4 kB\n";
        let status = Status::parse(text).unwrap();
        assert_eq!(status, Status { resident: 2148 << 10, anonymous: 2108 << 10, swapped: 4 << 10 });
        assert_eq!(Status::parse(b"Name:\tkthreadd\n"), None);
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (Stat::parse(&text), Status::parse(&text));
        }

        #[test]
        fn no_field_is_a_panic(text in "[0-9]{1,25} \\([a-z) ]{0,9}\\) [A-Z] ([0-9]{1,25} ){0,40}") {
            let _ = Stat::parse(text.as_bytes());
        }
    }
}
