//! The number of CPUs that this process may really use: the lower of the scheduler's affinity mask and the control groups' quotas.
//!
//! Nothing here allocates: this number sets the size of an allocator before its first allocation.

use std::io::ErrorKind;

use crate::cgroups::{ControlGroups, Controller, GroupFolder, GroupLimit, MOUNT};
use crate::sys::first_number;

/// The CPUs available to this process.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Cpus {
    /// The number of CPUs that the affinity mask (taskset, cpusets) allows.
    pub affinity: u32,
    /// The control group's quota, in thousandths of a CPU; `None` if there is no limit.
    pub quota_milli: Option<u64>,
    /// The reason why a quota could not be read; `None` if all was read. With a reason, only the affinity mask counts.
    pub trouble: Option<Trouble>,
}

/// Problems with a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Trouble {
    /// `/proc/self/cgroup` could not be read.
    NoGroups,
    /// The quota's file exists and cannot be read.
    Unreadable,
    /// The quota's file has neither `max` nor numbers.
    Garbage,
    /// The quota or its period is zero.
    Zero,
}

impl Trouble {
    /// The problem, and what is done about it.
    pub const fn text(self) -> &'static str {
        match self {
            Trouble::NoGroups => "/proc/self/cgroup cannot be read: the affinity mask alone counts",
            Trouble::Unreadable => "the CPU quota's file cannot be read: the affinity mask alone counts",
            Trouble::Garbage => "the CPU quota is neither `max` nor a number: the affinity mask alone counts",
            Trouble::Zero => "the CPU quota or its period is zero: the affinity mask alone counts",
        }
    }
}

impl Cpus {
    /// CPUs of an affinity mask, and a quota if there is one.
    pub const fn new(affinity: u32, quota_milli: Option<u64>) -> Cpus {
        Cpus { affinity, quota_milli, trouble: None }
    }

    /// These CPUs, with the reason why the quota could not be read.
    pub const fn with_trouble(self, trouble: Option<Trouble>) -> Cpus {
        Cpus { trouble, ..self }
    }

    /// Reads the CPUs available to this process. Does not allocate.
    pub fn here() -> Cpus {
        Cpus::at("/proc/self/cgroup", MOUNT)
    }

    /// As [`here`](Cpus::here), with control groups mounted at `mount` and named in the file `groups`.
    pub(crate) fn at(groups: &str, mount: &str) -> Cpus {
        let affinity = crate::sys::affinity();
        let quota = match ControlGroups::read(groups, mount, &mut [0; 4096]) {
            Ok(groups) => quota(groups).map(|quota| quota.map(|limit| limit.value)),
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(Trouble::Garbage),
            Err(_) => Err(Trouble::NoGroups),
        };
        let (quota_milli, trouble) = quota.map_or_else(|trouble| (None, Some(trouble)), |quota| (quota, None));
        Cpus { affinity, quota_milli, trouble }
    }

    /// The number of whole CPUs: the lower of affinity and quota, at least 1. A part of a CPU is rounded up: under a
    /// quota of 1.5 two threads run at the same time, although not always.
    pub fn count(&self) -> u32 {
        let quota = self.quota_milli.map_or(u64::MAX, |milli| milli.div_ceil(1000));
        quota.min(u64::from(self.affinity)).max(1) as u32
    }

    /// [`count`](Cpus::count) times `ratio`, between 1 and the maximum that jemalloc takes, 4094.
    pub fn arenas(&self, ratio: u32) -> u32 {
        /// jemalloc's maximum of automatic arenas.
        const MOST: u32 = 4094;
        self.count().saturating_mul(ratio).clamp(1, MOST)
    }
}

/// The lowest quota from the process's own group up to the root, in thousandths of a CPU. Does not allocate.
pub fn quota(groups: ControlGroups<'_>) -> Result<Option<GroupLimit<'_>>, Trouble> {
    let mut least: Option<GroupLimit> = None;
    let mut trouble = None;
    for group in groups.of(Controller::Cpu) {
        let (found, file) = match group.is_v2 {
            true => (quota_v2(group), "cpu.max"),
            false => (quota_v1(group), "cpu.cfs_quota_us"),
        };
        match found {
            Ok(Some(value)) if least.is_none_or(|least| value < least.value) => {
                least = Some(GroupLimit { value, group, file });
            }
            Ok(_) => {}
            Err(found) => trouble = Some(found),
        }
    }
    match (least, trouble) {
        (None, Some(trouble)) => Err(trouble),
        (least, _) => Ok(least),
    }
}

/// `cpu.max`: `max 100000` or `150000 100000`.
fn quota_v2(group: GroupFolder) -> Result<Option<u64>, Trouble> {
    let mut text = [0; 128];
    let Some(text) = read(group, "cpu.max", &mut text)? else { return Ok(None) };
    if text.starts_with(b"max") {
        return Ok(None);
    }
    let mut numbers = text.split(|byte| *byte == b' ').map(whole_number);
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(quota), Some(period)) => milli(quota, period).map(Some),
        _ => Err(Trouble::Garbage),
    }
}

/// `cpu.cfs_quota_us` (-1 is no limit) divided by `cpu.cfs_period_us`.
fn quota_v1(group: GroupFolder) -> Result<Option<u64>, Trouble> {
    let (mut quota, mut period) = ([0; 128], [0; 128]);
    let Some(quota) = read(group, "cpu.cfs_quota_us", &mut quota)? else { return Ok(None) };
    if quota == b"-1" {
        return Ok(None);
    }
    let period = read(group, "cpu.cfs_period_us", &mut period)?.ok_or(Trouble::Garbage)?;
    match (whole_number(quota), whole_number(period)) {
        (Some(quota), Some(period)) => milli(quota, period).map(Some),
        _ => Err(Trouble::Garbage),
    }
}

/// The text of a file of the group; `None` if the file does not exist.
fn read<'a>(group: GroupFolder, file: &str, text: &'a mut [u8]) -> Result<Option<&'a [u8]>, Trouble> {
    match group.read(file, text) {
        Ok(text) => Ok(Some(text.trim_ascii())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(_) => Err(Trouble::Unreadable),
    }
}

fn milli(quota: u64, period: u64) -> Result<u64, Trouble> {
    match (quota, period) {
        (0, _) | (_, 0) => Err(Trouble::Zero),
        _ => Ok(quota.saturating_mul(1000) / period),
    }
}

/// The number, if the whole text is one.
fn whole_number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    if digits { first_number(text) } else { None }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The result with `groups` in /proc and `files` below the mount.
    fn found(groups: &str, files: &[(&str, &str)]) -> Cpus {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("groups"), groups).unwrap();
        for (path, text) in files {
            let path = root.join("mount").join(Path::new(path));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let path = |name: &str| root.join(name).to_str().unwrap().to_string();
        Cpus::at(&path("groups"), &path("mount"))
    }

    fn milli(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        found(groups, files).quota_milli
    }

    #[test]
    fn the_least_quota_up_the_tree_counts() {
        let v2 = "0::/a/b\n";
        assert_eq!(milli(v2, &[("a/b/cpu.max", "150000 100000\n")]), Some(1500));
        assert_eq!(milli(v2, &[("a/b/cpu.max", "max 100000\n"), ("a/cpu.max", "50000 100000\n")]), Some(500));
        assert_eq!(milli(v2, &[("a/b/cpu.max", "max 100000"), ("cpu.max", "max 100000")]), None);
        assert_eq!(milli(v2, &[("cpu.max", "200000 100000")]), Some(2000), "a container sees its group as the root");
        assert_eq!(milli(v2, &[]), None);
    }

    #[test]
    fn both_versions_are_read() {
        let v1 = "4:cpu,cpuacct:/docker/x\n0::/\n";
        let files = [("cpu/docker/x/cpu.cfs_quota_us", "50000\n"), ("cpu/docker/x/cpu.cfs_period_us", "100000\n")];
        assert_eq!(milli(v1, &files), Some(500));
        assert_eq!(milli(v1, &[("cpu/docker/x/cpu.cfs_quota_us", "-1\n")]), None);
        assert_eq!(milli("1:memory:/x\n0::/y\n", &[("unified/y/cpu.max", "300000 100000")]), Some(3000));
        assert_eq!(milli("1:cpuset:/x\n", &[("cpu/x/cpu.cfs_quota_us", "50000\n")]), None, "cpuset is not cpu");
    }

    #[test]
    fn what_cannot_be_a_quota_falls_back_and_says_so() {
        let trouble = |text| found("0::/\n", &[("cpu.max", text)]).trouble;
        assert_eq!(trouble("garbage\n"), Some(Trouble::Garbage));
        assert_eq!(trouble("100000"), Some(Trouble::Garbage));
        assert_eq!(trouble("-5 100000"), Some(Trouble::Garbage));
        assert_eq!(trouble("0 100000"), Some(Trouble::Zero));
        assert_eq!(trouble("100000 0"), Some(Trouble::Zero));
        assert_eq!(trouble("max"), None);
        // Root may read every file, but even root cannot read a folder as a file.
        for folder in ["cpu.max/x", "a/cpu.max/x"] {
            let unreadable = found("0::/a\n", &[(folder, "")]);
            assert_eq!((unreadable.trouble, unreadable.quota_milli), (Some(Trouble::Unreadable), None));
            assert_eq!(unreadable.count(), unreadable.affinity);
        }
        let v1 = found("4:cpu:/a\n", &[("cpu/a/cpu.cfs_quota_us/x", "")]);
        assert_eq!(v1.trouble, Some(Trouble::Unreadable));
        assert_eq!(
            found("4:cpu:/a\n", &[("cpu/a/cpu.cfs_quota_us", "5")]).trouble,
            Some(Trouble::Garbage),
            "no period"
        );
        let none = Cpus::at("/proc/no-such-file", "/sys/fs/cgroup");
        assert_eq!((none.trouble, none.quota_milli), (Some(Trouble::NoGroups), None));
        assert_eq!(none.count(), none.affinity);
    }

    #[test]
    fn parts_of_a_processor_count_as_one() {
        let count = |affinity, quota_milli| Cpus { affinity, quota_milli, trouble: None }.count();
        assert_eq!(
            [count(8, Some(500)), count(8, Some(1000)), count(8, Some(1500)), count(8, Some(2000))],
            [1, 1, 2, 2]
        );
        assert_eq!([count(8, None), count(2, Some(9000)), count(1, None)], [8, 2, 1]);
        let cpus = Cpus { affinity: 64, quota_milli: None, trouble: None };
        assert_eq!((cpus.arenas(4), cpus.arenas(1000), cpus.arenas(0)), (256, 4094, 1));
    }

    #[test]
    fn this_process_has_processors() {
        let cpus = Cpus::here();
        assert!(cpus.affinity >= 1 && cpus.count() >= 1 && cpus.count() <= cpus.affinity);
    }
}
