//! Figures of this process's memory group: how many processes the kernel has killed there because of memory, and the limit.

use super::{line_number, read_into};
use crate::cgroups::{ControlGroups, Controller, GroupFolder};

/// The number of processes in this process's control group (v1 or v2) that the kernel has killed for memory; 0 if
/// unknown. The kernel kills because of a limit, or because the whole machine is out of memory: v2 counts both.
pub fn memory_kills() -> u64 {
    kills_in(ControlGroups::own(&mut [0; 4096]))
}

/// The lowest memory limit of this process's control group and the groups above it, in bytes. `None` if no limit is lower
/// than the machine's memory.
pub fn memory_limit() -> Option<u64> {
    let meminfo = &mut [0; 256];
    limit_in(ControlGroups::own(&mut [0; 4096]), read_into("/proc/meminfo", meminfo).unwrap_or_default())
}

/// The kills of the nearest group that counts them.
fn kills_in(groups: ControlGroups) -> u64 {
    let kills = |group: GroupFolder| {
        let file = if group.is_v2 { "memory.events" } else { "memory.oom_control" };
        line_number(group.read(file, &mut [0; 512]).ok()?, b"oom_kill ")
    };
    groups.of(Controller::Memory).find_map(kills).unwrap_or(0)
}

fn limit_in(groups: ControlGroups, meminfo: &[u8]) -> Option<u64> {
    let machine = line_number(meminfo, b"MemTotal:").map_or(u64::MAX, |kib| kib * 1024);
    groups.memory_limit().map(|limit| limit.value).filter(|limit| *limit < machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroups::tests::mount;

    fn kills(listed: &str, files: &[(&str, &str)]) -> u64 {
        let mount = mount(files);
        kills_in(ControlGroups::new(listed, mount.path().to_str().unwrap()))
    }

    #[test]
    fn kills_for_memory_are_found_in_either_version_and_in_a_container() {
        let v2 = "0::/kubepods/pod1/x\n";
        let events = |count| format!("low 0\noom 9\noom_kill {count}\noom_group_kill 8\n");
        let (own, root) = (events(2), events(5));
        assert_eq!(kills(v2, &[("kubepods/pod1/x/memory.events", &own), ("memory.events", &root)]), 2);
        assert_eq!(kills(v2, &[("memory.events", &root)]), 5, "the path is the host's");
        let v1 = "5:cpu:/x\n4:memory:/docker/1\n0::/docker/1\n";
        let control = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(kills(v1, &[("memory/docker/1/memory.oom_control", control)]), 3);
        assert_eq!(kills(v1, &[("memory/memory.oom_control", control)]), 3, "the path is the host's");
        assert_eq!(kills(v1, &[("cpu/memory.oom_control", control)]), 0, "the processor's group is no memory's");
        assert_eq!(kills(v2, &[]), 0);
    }

    #[test]
    fn all_that_the_machine_has_is_no_limit() {
        let limit = |bytes: &str, meminfo: &str| {
            let mount = mount(&[("memory.max", bytes)]);
            limit_in(ControlGroups::new("0::/x\n", mount.path().to_str().unwrap()), meminfo.as_bytes())
        };
        let machine = "MemTotal:        1024 kB\n";
        assert_eq!(limit("1048576\n", ""), Some(1 << 20));
        assert_eq!(limit("1048576\n", machine), None);
        assert_eq!(limit("1044480\n", machine), Some(1_044_480));
        assert_eq!(limit("max\n", machine), None);
    }
}
