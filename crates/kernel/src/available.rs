//! The available memory of this process. A workload that needs more would be killed, or make the whole machine swap.
//! In: /proc/meminfo and the limits of the control groups. Out: the available bytes, and the limit that sets them.

use std::fs;
use std::path::Path;

use crate::sys::{first_number, line_number};
use crate::units::Bytes;

/// The available memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// In bytes.
    pub bytes: u64,
    /// The lowest limit: `MemAvailable`, or the path of a control group's file.
    pub limit: String,
}

impl Available {
    /// The available memory of this process; `None` if nothing can be read.
    pub fn here() -> Option<Available> {
        Available::at(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
    }

    /// Fails if fewer than `wanted` bytes are available. `what` names the part that needs them, for the error.
    pub fn check(wanted: u64, what: &str) -> Result<(), String> {
        match Available::here() {
            Some(available) if available.bytes < wanted => Err(format!(
                "{what}: wanted {} of memory, found {} available under {}: ask for less, or raise the limit",
                Bytes(wanted),
                Bytes(available.bytes),
                available.limit
            )),
            _ => Ok(()),
        }
    }

    /// Checks the memory for blocks of `held` bytes in total. Every allocator needs more than the blocks: this adds a
    /// quarter. A program whose allocator needs more than that is killed by the kernel.
    pub fn check_blocks(held: u64, what: &str) -> Result<(), String> {
        Available::check_blocks_and_files(held, 0, what)
    }

    /// As [`check_blocks`](Available::check_blocks), plus `files` bytes of files that are in memory.
    pub fn check_blocks_and_files(held: u64, files: u64, what: &str) -> Result<(), String> {
        Available::check(held + held / 4 + files, &format!("{what}, and a quarter for the allocator"))
    }

    /// Checks the memory for blocks of many sizes that are allocated and freed all the time: this asks for twice
    /// `held`. A page of one block size cannot serve another size at once. Measured with 50 to 100 MiB of `server`,
    /// `bleed`, `handoff` and `small`: 1.1 to 1.5 times with glibc and jemalloc, 1.2 to 1.7 times with mimalloc.
    pub fn check_mixed(held: u64, what: &str) -> Result<(), String> {
        Available::check(held * 2, &format!("{what}, and as much again for the allocator"))
    }

    /// As [`here`](Available::here), with `proc` and the control groups mounted at these paths.
    fn at(proc: &Path, groups: &Path) -> Option<Available> {
        let available = line_number(&fs::read(proc.join("meminfo")).ok()?, b"MemAvailable:");
        let mut limits: Vec<Available> =
            available.map(|kib| Available { bytes: kib * 1024, limit: "MemAvailable".into() }).into_iter().collect();
        let own = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
        for (controllers, path) in own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':')) {
            let v1 = controllers.split(',').any(|name| name == "memory");
            if !v1 && !controllers.is_empty() {
                continue;
            }
            let mount = if v1 { groups.join("memory") } else { groups.to_path_buf() };
            // The limit of every group up to the root applies. In a container the path may be the host's: then its
            // parts do not exist, and the root of the mount is our group.
            let mut path = Path::new(path.trim_matches('/'));
            loop {
                limits.extend(left(&mount.join(path), v1));
                let Some(parent) = path.parent() else { break };
                path = parent;
            }
        }
        limits.into_iter().min_by_key(|available| available.bytes)
    }
}

/// The memory available under a group's limit. Page cache does not count as used: the kernel reclaims it before it
/// kills a process.
fn left(group: &Path, v1: bool) -> Option<Available> {
    let (limits, used, prefix) = match v1 {
        true => (["memory.limit_in_bytes"].as_slice(), "memory.usage_in_bytes", "total_"),
        // Above `memory.high` no process is killed: all are slowed down, and stop if nothing can be reclaimed.
        false => (["memory.max", "memory.high"].as_slice(), "memory.current", ""),
    };
    let limits = limits.iter().filter_map(|name| {
        let limit = group.join(name);
        Some((first_number(&fs::read(&limit).ok()?)?, limit)) // `max` has no digits
    });
    let (most, limit) = limits.min()?;
    let used = first_number(&fs::read(group.join(used)).ok()?)?;
    let statistics = fs::read(group.join("memory.stat")).unwrap_or_default();
    let pages = |kind| line_number(&statistics, format!("{prefix}{kind}_file ").as_bytes()).unwrap_or(0);
    let cache = pages("inactive") + pages("active");
    Some(Available { bytes: most.saturating_sub(used.saturating_sub(cache)), limit: limit.display().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn available(files: &[(&str, &str)]) -> Option<(u64, String)> {
        let folder = tree(files);
        let available = Available::at(&folder.path().join("proc"), &folder.path().join("groups"))?;
        let name = Path::new(&available.limit).strip_prefix(folder.path()).unwrap_or(Path::new(&available.limit));
        Some((available.bytes, name.display().to_string()))
    }

    #[test]
    fn the_least_of_all_limits_counts() {
        let host = [("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   4 kB\n"), ("proc/self/cgroup", "0::/a/b\n")];
        assert_eq!(available(&host), Some((4096, "MemAvailable".into())));
        let v2 = |max| {
            [
                ("groups/a/memory.max", max),
                ("groups/a/memory.current", "1500\n"),
                ("groups/a/memory.stat", "anon 1\ninactive_file 300\nactive_file 200\n"),
                ("groups/a/b/memory.max", "max\n"),
                ("groups/a/b/memory.current", "1000\n"),
            ]
        };
        let all: Vec<_> = host.iter().copied().chain(v2("3000\n")).collect();
        assert_eq!(available(&all), Some((2000, "groups/a/memory.max".into())), "a limit above us holds");
        let all: Vec<_> = host.iter().copied().chain(v2("900\n")).collect();
        assert_eq!(available(&all), Some((0, "groups/a/memory.max".into())));
        for (max, high, wanted) in [
            ("3000\n", "2500\n", Some((1500, "groups/a/memory.high".into()))),
            ("max\n", "2500\n", Some((1500, "groups/a/memory.high".into()))),
            ("3000\n", "3500\n", Some((2000, "groups/a/memory.max".into()))),
            ("3000\n", "max\n", Some((2000, "groups/a/memory.max".into()))),
            ("max\n", "max\n", Some((4096, "MemAvailable".into()))),
        ] {
            let high = ("groups/a/memory.high", high);
            let all: Vec<_> = host.iter().copied().chain(v2(max)).chain([high]).collect();
            assert_eq!(available(&all), wanted, "{max}, {high:?}");
        }
    }

    #[test]
    fn version_1_and_a_container_whose_path_is_the_hosts() {
        let files = [
            ("proc/meminfo", "MemAvailable: 9000 kB\n"),
            ("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/1\n0::/\n"),
            ("groups/memory/memory.limit_in_bytes", "5000\n"),
            ("groups/memory/memory.usage_in_bytes", "4000\n"),
            ("groups/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 60\ntotal_active_file 40\n"),
            // In a group that limits only processors.
            ("groups/x/memory.max", "1\n"),
            ("groups/x/memory.current", "0\n"),
        ];
        assert_eq!(available(&files), Some((1100, "groups/memory/memory.limit_in_bytes".into())));
        assert_eq!(available(&[]), None);
    }

    #[test]
    fn what_there_is_not_is_refused_with_both_numbers() {
        assert_eq!(Available::check(1, "a byte"), Ok(()));
        let said = Available::check(u64::MAX, "`high`").unwrap_err();
        assert!(said.starts_with("`high`: wanted 16777216 TiB of memory, found "), "{said}");
        assert!(said.contains("iB available under "), "{said}");
    }
}
