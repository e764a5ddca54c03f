//! The source of a budget's limit, and what counts against it. In: files of the kernel. Out: readings.
//!
//! - `container`: the nearest limit among this control group and the groups above it, and what the group with that limit uses.
//!   The kernel kills a container for the memory of all its processes, so that this process's own memory would be too low a count.
//!   Each reading reads the limit again. The list of groups is read again from time to time, because a process may be moved.
//! - a size: this process's pages that no file backs, from `/proc/self/statm`. It takes a tenth of the time that `status`
//!   takes. Pages of files are not counted, because an allocator cannot give them back.

use allocanary_sys::cgroups::{ControlGroups, Listed, MOUNT};
use allocanary_sys::clocks::monotonic_nanos;
use allocanary_sys::nearest::{StatisticsBuffer, nearest};
use allocanary_sys::sys::{anonymous_pages, page_bytes, read_into};

use super::account::BudgetUsage;
use allocanary_facts::setting::{const_bytes, equal};

/// The source of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// The control group.
    Container,
    /// A number of bytes for this process.
    Bytes(u64),
}

/// The text about an invalid source.
pub const WANTED: &str = "wanted container, off, or a size of at least 16MiB such as 1GiB";

/// The minimum limit. An allocator itself needs about this much.
const LEAST: u64 = 16 << 20;

impl LimitSource {
    /// `container`, or a size such as `1GiB`; `off` gives the inner `None`. The outer `None` means that the text is invalid.
    pub const fn of(text: &str) -> Option<Option<LimitSource>> {
        if equal(text, "container") {
            return Some(Some(LimitSource::Container));
        }
        if equal(text, "off") {
            return Some(None);
        }
        match const_bytes(text) {
            Some(bytes) if bytes >= LEAST => Some(Some(LimitSource::Bytes(bytes))),
            _ => None,
        }
    }
}

/// The list of groups is read again after this many readings.
const LIST_AGAIN: u32 = 64;

/// Room for the kernel's texts. It is static, because an allocation on a small stack may make a reading too.
pub(super) struct Room {
    list: Listed,
    length: usize,
    statistics: StatisticsBuffer,
    readings: u32,
}

impl Room {
    pub(super) const fn new() -> Room {
        Room { list: [0; size_of::<Listed>()], length: 0, statistics: [0; size_of::<StatisticsBuffer>()], readings: 0 }
    }
}

/// Makes a reading; `None` if the kernel's files could not be read. `more` bytes are about to be used. Allocates
/// nothing.
pub(super) fn read(source: LimitSource, room: &mut Room, more: u64, with_faults: bool) -> Option<BudgetUsage> {
    let began = monotonic_nanos();
    let (limit, used) = match source {
        // Each process has anonymous pages, so a count of 0 means that the file could not be read.
        LimitSource::Bytes(limit) => (Some(limit), Some(anonymous_pages() * page_bytes()).filter(|bytes| *bytes > 0)?),
        LimitSource::Container => match in_container(room, "/proc/self/cgroup", MOUNT)? {
            Some((limit, used)) => (Some(limit), used),
            None => (None, 0),
        },
    };
    let faults = if with_faults { faults() } else { 0 };
    let now = monotonic_nanos();
    Some(BudgetUsage { limit, used, more, now, took: now.saturating_sub(began), faults })
}

/// The page faults of this process so far.
fn faults() -> u64 {
    // SAFETY: all zeros are a valid value, which the kernel fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    u64::try_from(usage.ru_minflt).unwrap_or(0)
}

/// The limit and the bytes in use. The outer `None` means that they could not be read; the inner, that there is no limit.
fn in_container(room: &mut Room, list: &str, mount: &str) -> Option<Option<(u64, u64)>> {
    if room.length == 0 || room.readings.is_multiple_of(LIST_AGAIN) {
        // If the list cannot be opened, the previous groups stay.
        match read_into(list, &mut room.list) {
            Some(read) => room.length = read.len(),
            None if room.length == 0 => return None,
            None => {}
        }
    }
    room.readings = room.readings.wrapping_add(1);
    let listed = std::str::from_utf8(&room.list[..room.length]).ok()?;
    let found = nearest(ControlGroups::new(listed, mount), &mut room.statistics).ok()?;
    Some(found.map(|found| (found.limit, found.used)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_the_container_or_a_size_or_off() {
        assert_eq!(LimitSource::of("container"), Some(Some(LimitSource::Container)));
        assert_eq!(LimitSource::of("off"), Some(None));
        assert_eq!(LimitSource::of("1GiB"), Some(Some(LimitSource::Bytes(1 << 30))));
        assert_eq!(LimitSource::of("16777216"), Some(Some(LimitSource::Bytes(LEAST))));
        for wrong in
            ["", "Container", "16777215", "15MiB", "0", "-1GiB", "1.5GiB", "80%", "max", "1TiB", "99999999999999GiB"]
        {
            assert_eq!(LimitSource::of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn limits_are_read_each_time_and_groups_from_time_to_time() {
        let folder = std::env::temp_dir().join(format!("allocanary-budget-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("a")).unwrap();
        let write = |file: &str, text: &str| std::fs::write(folder.join(file), text).unwrap();
        write("list", "0::/a\n");
        write("a/memory.max", "1000\n");
        write("a/memory.current", "100\n");
        let path = |name: &str| folder.join(name).to_str().unwrap().to_string();
        let mut room = Box::new(Room::new());
        let mut found = || in_container(&mut room, &path("list"), &path(""));
        assert_eq!(found(), Some(Some((1000, 100))));
        write("a/memory.max", "900\n");
        assert_eq!(found(), Some(Some((900, 100))), "lowered while it runs");
        write("a/memory.max", "max\n");
        assert_eq!(found(), Some(None));
        std::fs::remove_file(folder.join("list")).unwrap();
        write("a/memory.max", "800\n");
        let left: Vec<_> = (3..=LIST_AGAIN).map(|_| found()).collect();
        assert!(left.iter().all(|found| *found == Some(Some((800, 100)))), "the groups of before: {left:?}");
        write("list", "");
        let left: Vec<_> = (1..LIST_AGAIN).map(|_| found()).collect();
        assert!(left.iter().all(|found| *found == Some(Some((800, 100)))), "{left:?}");
        assert_eq!(found(), Some(None), "no control groups any more");
        std::fs::remove_file(folder.join("list")).unwrap();
        assert_eq!(found(), None, "no list, and none before");
        write("list", "0::/a\n");
        assert_eq!(found(), Some(Some((800, 100))));
        std::fs::remove_dir_all(folder.join("a")).unwrap();
        assert_eq!(found(), None, "the groups cannot be seen");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_size_counts_this_process_and_what_it_is_about_to_use() {
        let mut room = Box::new(Room::new());
        let [less, more] = [0, 1 << 40].map(|more| read(LimitSource::Bytes(1 << 30), &mut room, more, false).unwrap());
        assert!(less.limit == Some(1 << 30) && less.used > 0 && less.used < 1 << 40);
        assert!((less.more, more.more) == (0, 1 << 40) && more.used < 1 << 40, "apart");
    }
}
