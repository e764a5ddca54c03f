//! The available memory of this process, from /proc/meminfo and the limits of the control groups. A workload that needs more would be
//! killed, or make the whole machine swap.

use crate::cgroups::{ControlGroups, Controller, GroupFolder};
use crate::nearest;
use crate::sys::{line_number, read_into};

/// The available memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// The available memory in bytes.
    pub bytes: u64,
    /// The lowest limit: `MemAvailable`, or the path of a control group's file.
    pub limit: String,
}

impl Available {
    /// The available memory of this process; `None` if nothing can be read.
    pub fn here() -> Option<Available> {
        Available::least(read_into("/proc/meminfo", &mut [0; 4096])?, ControlGroups::own(&mut [0; 4096]))
    }

    /// The lowest of the machine's available memory (`/proc/meminfo`) and of what is left under each group's limit.
    fn least(meminfo: &[u8], groups: ControlGroups) -> Option<Available> {
        let machine = line_number(meminfo, b"MemAvailable:");
        let machine = machine.map(|kib| Available { bytes: kib * 1024, limit: "MemAvailable".into() });
        machine
            .into_iter()
            .chain(groups.of(Controller::Memory).filter_map(left))
            .min_by_key(|available| available.bytes)
    }
}

/// The memory available under a group's limit. Page cache does not count as used: the kernel reclaims it before it
/// kills a process.
fn left(group: GroupFolder) -> Option<Available> {
    let (most, file) = nearest::limit(group)?;
    let bytes = most.saturating_sub(nearest::with_files(group)?.saturating_sub(nearest::files(group, &mut [0; 8192])));
    Some(Available { bytes, limit: group.path(file)?.display().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroups::tests::mount;

    const MEMINFO: &[u8] = b"MemTotal: 9 kB\nMemAvailable:   4 kB\n";

    fn available(listed: &str, files: &[(&str, &str)]) -> (u64, String) {
        let mount = mount(files);
        let available = Available::least(MEMINFO, ControlGroups::new(listed, mount.path().to_str().unwrap())).unwrap();
        let limit = available.limit.trim_start_matches(mount.path().to_str().unwrap()).trim_start_matches('/');
        (available.bytes, limit.to_string())
    }

    #[test]
    fn the_least_of_all_limits_counts() {
        let listed = "0::/a/b\n";
        assert_eq!(available(listed, &[]), (4096, "MemAvailable".into()));
        let with = |max, high| {
            let files = [
                ("a/memory.current", "1500\n"),
                ("a/memory.stat", "anon 1\ninactive_file 300\nactive_file 200\n"),
                ("a/b/memory.max", "max\n"),
                ("a/b/memory.current", "1000\n"),
                ("a/memory.max", max),
                ("a/memory.high", high),
            ];
            available(listed, &files)
        };
        assert_eq!(with("3000\n", "max\n"), (2000, "a/memory.max".into()), "a limit above us holds");
        assert_eq!(with("900\n", "max\n"), (0, "a/memory.max".into()));
        assert_eq!(with("3000\n", "2500\n"), (1500, "a/memory.high".into()));
        assert_eq!(with("max\n", "2500\n"), (1500, "a/memory.high".into()));
        assert_eq!(with("3000\n", "3500\n"), (2000, "a/memory.max".into()));
        assert_eq!(with("max\n", "max\n"), (4096, "MemAvailable".into()));
    }

    #[test]
    fn version_1_and_a_container_whose_path_is_the_hosts() {
        let files = [
            ("memory/memory.limit_in_bytes", "3000\n"),
            ("memory/memory.usage_in_bytes", "2000\n"),
            ("memory/memory.stat", "inactive_file 1\ntotal_inactive_file 60\ntotal_active_file 40\n"),
            // In a group that limits only processors.
            ("x/memory.max", "1\n"),
            ("x/memory.current", "0\n"),
        ];
        let listed = "5:cpu:/x\n4:memory:/docker/1\n0::/\n";
        assert_eq!(available(listed, &files), (1100, "memory/memory.limit_in_bytes".into()));
    }
}
