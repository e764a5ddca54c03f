//! The processes of a program, found and read from outside. In: /proc. Out: process IDs and their sizes.
//!
//! All of them are descendants of this command, which adopts orphans: a daemon that leaves its group and its parent is
//! still found. Commands that we start around the program are not part of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use allocanary_sys::proc::files::{ProcEntry, path};
use allocanary_sys::proc::kinds::Mappings;
use allocanary_sys::proc::smaps::MappingBytes;
use allocanary_sys::proc::{ProcStatus, Stat, maps, pids, stat};
use allocanary_sys::sys;

/// The sizes of one process or the sum over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSizes {
    /// Resident memory.
    pub rss: u64,
    /// The most resident memory of a process since its exec.
    pub most: u64,
    /// Resident memory without files.
    pub anon: u64,
    /// Resident memory of files, and shared memory.
    pub files: u64,
    /// Address space.
    pub vsz: u64,
    /// Threads.
    pub threads: u64,
    /// Processes.
    pub processes: u64,
    /// Whether the kernel may give huge pages to a process of these; `None` if it does not say.
    pub huge_pages: Option<bool>,
}

impl TreeSizes {
    /// The sizes of a process; `None` if it has ended.
    pub fn of(pid: u32) -> Option<TreeSizes> {
        let status = ProcStatus::of(pid).ok()?;
        // A process that has ended and was not waited for has no memory.
        let rss = status.resident?;
        let anon = status.anonymous.unwrap_or(0);
        Some(TreeSizes {
            rss,
            most: status.most_resident.unwrap_or(rss),
            anon,
            files: rss.saturating_sub(anon),
            vsz: status.addresses.unwrap_or(0),
            threads: status.threads.unwrap_or(1),
            processes: 1,
            huge_pages: status.may_have_huge_pages,
        })
    }

    /// The sum of two. `most` is the larger of both.
    pub fn and(self, other: TreeSizes) -> TreeSizes {
        TreeSizes {
            rss: self.rss + other.rss,
            most: self.most.max(other.most),
            anon: self.anon + other.anon,
            files: self.files + other.files,
            vsz: self.vsz + other.vsz,
            threads: self.threads + other.threads,
            processes: self.processes + other.processes,
            huge_pages: self.huge_pages.max(other.huge_pages),
        }
    }

    /// The larger of each size.
    pub fn or(self, other: TreeSizes) -> TreeSizes {
        TreeSizes {
            rss: self.rss.max(other.rss),
            most: self.most.max(other.most),
            anon: self.anon.max(other.anon),
            files: self.files.max(other.files),
            vsz: self.vsz.max(other.vsz),
            threads: self.threads.max(other.threads),
            processes: self.processes.max(other.processes),
            huge_pages: self.huge_pages.max(other.huge_pages),
        }
    }
}

/// Counters and exact sizes of a process, which cost more to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Details {
    /// Page faults without a disk read. These counters include children that the process has waited for.
    pub minor_faults: u64,
    /// Page faults with a disk read.
    pub major_faults: u64,
    /// Processor time in the program, in microseconds.
    pub user_us: u64,
    /// Processor time in the kernel, in microseconds.
    pub system_us: u64,
    /// Resident memory, where each shared page is divided among its users (PSS). `None` if it may not be read.
    pub pss: Option<u64>,
    /// Resident memory that only this process has.
    pub private: Option<u64>,
    /// Bytes that were lazily given back, and are still resident.
    pub lazy_free: Option<u64>,
    /// Bytes in huge pages.
    pub huge: Option<u64>,
}

impl Details {
    /// Reads a process; `None` if it has ended.
    pub fn of(pid: u32) -> Option<Details> {
        let stat = Stat::of(pid).ok()?;
        let rollup = MappingBytes::of(pid).unwrap_or_default();
        let micros = |own: u64, children: u64| stat::time(own.saturating_add(children)).as_micros() as u64;
        Some(Details {
            minor_faults: stat.minor_faults.saturating_add(stat.minor_faults_of_children),
            major_faults: stat.major_faults.saturating_add(stat.major_faults_of_children),
            user_us: micros(stat.user, stat.user_of_children),
            system_us: micros(stat.system, stat.system_of_children),
            pss: rollup.share,
            private: rollup.private(),
            lazy_free: rollup.lazy,
            huge: rollup.huge,
        })
    }

    /// The sum of the details of two processes. A size that one of them does not have is `None`.
    pub fn and(self, other: Details) -> Details {
        let both = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        Details {
            minor_faults: self.minor_faults + other.minor_faults,
            major_faults: self.major_faults + other.major_faults,
            user_us: self.user_us + other.user_us,
            system_us: self.system_us + other.system_us,
            pss: both(self.pss, other.pss),
            private: both(self.private, other.private),
            lazy_free: both(self.lazy_free, other.lazy_free),
            huge: both(self.huge, other.huge),
        }
    }
}

/// Resident bytes by what they are, as columns of a row.
pub type PartColumns = Vec<(&'static str, u64)>;

/// The columns by kind of mapping: the program's files, stacks, heap, other mappings, and the part of the heap in huge pages.
const KINDS: [&str; 5] =
    ["part_files_bytes", "part_stacks_bytes", "part_unknown_bytes", "part_shared_bytes", "part_unknown_huge_bytes"];

/// The kinds of mappings, summed over processes; `None` if one of them may not be read, or has no memory any more.
pub fn parts(members: &[u32]) -> Option<PartColumns> {
    let mut sum = [0; 5];
    for pid in members {
        let found = Mappings::read_of(*pid).ok().filter(|found| found.rss() > 0)?;
        let found = [found.program, found.stacks, found.heap, found.other, found.huge];
        sum.iter_mut().zip(found).for_each(|(sum, bytes)| *sum += bytes);
    }
    Some(KINDS.into_iter().zip(sum).collect())
}

/// Every live descendant of this process that is not below one of `others`.
pub fn members(others: &BTreeSet<u32>) -> Vec<u32> {
    let me = std::process::id();
    let all = Parents::read();
    let mut found = Vec::new();
    let mut left = vec![me];
    while let Some(parent) = left.pop() {
        for child in all.children(parent) {
            if !others.contains(&child) {
                found.push(child);
                left.push(child);
            }
        }
    }
    found
}

/// How the children of a process are found.
enum Parents {
    /// The kernel lists them.
    Listed,
    /// The kernel does not list them. They follow from the parents of all processes.
    All(BTreeMap<u32, Vec<u32>>),
}

impl Parents {
    fn read() -> Parents {
        if pids::children(std::process::id()).is_some() {
            return Parents::Listed;
        }
        let mut all: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for stat in pids::pids().into_iter().filter_map(|pid| Stat::of(pid).ok()) {
            all.entry(stat.parent).or_default().push(stat.pid);
        }
        Parents::All(all)
    }

    fn children(&self, pid: u32) -> Vec<u32> {
        match self {
            Parents::All(all) => all.get(&pid).cloned().unwrap_or_default(),
            Parents::Listed => pids::children(pid).unwrap_or_default(),
        }
    }
}

/// Kills every process of the program: the group of its first process, and all that are left below us. Waits until they
/// are gone, and returns the resources of those that became our own children.
pub fn end(root: u32, others: &BTreeSet<u32>) -> sys::ResourceUsage {
    let mut used = sys::ResourceUsage::default();
    sys::signal(root, true, libc::SIGKILL);
    // A process that forks while it is killed may leave another, so this repeats until none is left.
    for round in 0..2000_u32 {
        let left = members(others);
        if left.is_empty() {
            break;
        }
        for pid in left {
            sys::signal(pid, false, libc::SIGKILL);
            if let Ok(Some((_, usage))) = sys::reap(pid) {
                used = added(used, usage);
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(u64::from(round.min(20))));
    }
    used
}

/// The sum of the resources of two processes. The most resident memory is the larger of both.
pub fn added(one: sys::ResourceUsage, other: sys::ResourceUsage) -> sys::ResourceUsage {
    sys::ResourceUsage {
        minor_faults: one.minor_faults + other.minor_faults,
        major_faults: one.major_faults + other.major_faults,
        user_us: one.user_us + other.user_us,
        system_us: one.system_us + other.system_us,
        switches: one.switches + other.switches,
        most_rss: one.most_rss.max(other.most_rss),
    }
}

/// The path of a process's program; `None` if it has ended.
pub fn program(pid: u32) -> Option<String> {
    Some(fs::read_link(path(pid, ProcEntry::Exe)).ok()?.display().to_string())
}

/// Whether a process has mapped a file; `None` if it has ended, or may not be read.
pub fn has_mapped(pid: u32, file: &Path) -> Option<bool> {
    let text = maps::read(pid).ok().filter(|text| !text.is_empty())?;
    Some(maps::lines(&text).any(|line| line.file() == Some(file.as_os_str().as_bytes())))
}

/// The path of a process's program or its name, for messages.
pub fn name(pid: u32) -> String {
    program(pid)
        .unwrap_or_else(|| fs::read_to_string(path(pid, ProcEntry::Comm)).unwrap_or_default().trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_sizes_and_a_process_that_is_gone_has_none() {
        let sizes = TreeSizes::of(std::process::id()).unwrap();
        assert!(sizes.rss > 0 && sizes.most >= sizes.anon && sizes.threads > 0 && sizes.processes == 1);
        assert_eq!(TreeSizes::of(u32::MAX), None);
        let details = Details::of(std::process::id()).unwrap();
        assert!(details.minor_faults > 0 && details.pss.is_none_or(|pss| pss > 0));
    }

    #[test]
    fn the_parts_are_those_of_all_processes_or_none() {
        let me = std::process::id();
        let (one, two) = (parts(&[me]).unwrap(), parts(&[me, me]).unwrap());
        assert!(one[0].1 > 1 << 20 && two[0].1 > one[0].1 + (1 << 20), "{one:?} {two:?}");
        assert_eq!(parts(&[me, u32::MAX]), None);
    }

    #[test]
    fn this_process_has_its_own_file_and_no_other() {
        let me = std::process::id();
        assert_eq!(has_mapped(me, &std::env::current_exe().unwrap()), Some(true));
        assert_eq!(has_mapped(me, Path::new("/no/such")), Some(false));
        assert_eq!(has_mapped(u32::MAX, Path::new("/no/such")), None);
    }

    #[test]
    fn sums_add_and_the_most_of_one_process_stays() {
        let one = TreeSizes { rss: 2, most: 5, anon: 1, files: 1, vsz: 9, threads: 1, processes: 1, huge_pages: None };
        let two = one.and(TreeSizes { rss: 1, most: 3, ..one });
        assert_eq!((two.rss, two.most, two.processes), (3, 5, 2));
        assert_eq!(one.or(TreeSizes { rss: 1, most: 30, ..one }), TreeSizes { most: 30, ..one });
    }
}
