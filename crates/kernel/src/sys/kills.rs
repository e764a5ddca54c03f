//! What the kernel says of this process's memory group: how many processes it has killed there for memory, and the limit.
//! In: the control group's files. Out: numbers.

use std::path::{Path, PathBuf};

use super::line_number;

/// The number of processes in this process's control group (v1 or v2) that the kernel has killed for memory; 0 if
/// unknown. It kills for a limit, and if the whole machine is out of memory: v2 counts both.
pub fn memory_kills() -> u64 {
    memory_kills_at(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

/// The least memory limit of this process's control group and of those above it, in bytes; `None` if none has one that is
/// less than the machine's memory.
pub fn memory_limit() -> Option<u64> {
    memory_limit_at(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

/// As [`memory_kills`], with `proc` and the control groups at these paths.
fn memory_kills_at(proc: &Path, mount: &Path) -> u64 {
    let kills = |group: &Group| {
        let file = if group.is_v2 { "memory.events" } else { "memory.oom_control" };
        let text = group.folders.iter().find_map(|folder| std::fs::read(folder.join(file)).ok())?;
        line_number(&text, b"oom_kill ")
    };
    groups(proc, mount).iter().filter_map(kills).sum()
}

/// As [`memory_limit`], with `proc` and the control groups at these paths.
fn memory_limit_at(proc: &Path, mount: &Path) -> Option<u64> {
    /// v1 writes "no limit" as the largest number of whole pages, and v2 as `max`, which is no number.
    const NO_LIMIT: u64 = 1 << 60;
    let meminfo = std::fs::read(proc.join("meminfo")).unwrap_or_default();
    let machine = line_number(&meminfo, b"MemTotal:").map_or(NO_LIMIT, |kib| kib * 1024);
    let limit = |group: &Group| {
        let file = if group.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
        let texts = group.folders.iter().filter_map(|folder| std::fs::read_to_string(folder.join(file)).ok());
        texts.filter_map(|text| text.trim().parse().ok()).filter(|limit| *limit < machine).min()
    };
    groups(proc, mount).iter().filter_map(limit).min()
}

/// A control group that may count memory.
struct Group {
    /// Its folder and those of the groups above it, in each place where the hierarchy may be mounted. In a container the
    /// path may be the host's. Then only the root of the mount exists, and it is the group.
    folders: Vec<PathBuf>,
    is_v2: bool,
}

fn groups(proc: &Path, mount: &Path) -> Vec<Group> {
    let text = std::fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let group = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (roots, is_v2) = match controllers {
            // If v1 is in use as well, v2 is mounted one folder deeper.
            "" => ([mount.to_path_buf(), mount.join("unified")], true),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ([mount.join("memory"), mount.join(controllers)], false)
            }
            _ => return None,
        };
        let up = Path::new(path.trim_matches('/')).ancestors();
        let folders = up.flat_map(|group| roots.iter().map(move |root| root.join(group))).collect();
        Some(Group { folders, is_v2 })
    };
    text.lines().filter_map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of kills and the limit with these files below `proc` and `groups`.
    fn found(files: &[(&str, &str)]) -> (u64, Option<u64>) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let (proc, mount) = (folder.path().join("proc"), folder.path().join("groups"));
        (memory_kills_at(&proc, &mount), memory_limit_at(&proc, &mount))
    }

    fn kills(files: &[(&str, &str)]) -> u64 {
        found(files).0
    }

    #[test]
    fn kills_for_memory_are_found_in_either_version_and_in_a_container() {
        let v2 = ("proc/self/cgroup", "0::/kubepods/pod1/x\n");
        let events = |count| format!("low 0\noom 9\noom_kill {count}\noom_group_kill 8\n");
        let (own, root) = (events(2), events(5));
        assert_eq!(kills(&[v2, ("groups/kubepods/pod1/x/memory.events", &own), ("groups/memory.events", &root)]), 2);
        assert_eq!(kills(&[v2, ("groups/memory.events", &root)]), 5, "the path is the host's");
        let v1 = ("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/1\n0::/docker/1\n");
        let control = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(kills(&[v1, ("groups/memory/docker/1/memory.oom_control", control)]), 3);
        assert_eq!(kills(&[v1, ("groups/memory/memory.oom_control", control)]), 3, "the path is the host's");
        assert_eq!(kills(&[v1, ("groups/cpu/memory.oom_control", control)]), 0, "the processor's group is no memory's");
        assert_eq!(kills(&[]), 0);
    }

    #[test]
    fn the_least_limit_up_to_the_root_counts_and_no_limit_is_none() {
        let limit = |files: &[(&str, &str)]| found(files).1;
        let v2 = ("proc/self/cgroup", "0::/kubepods/pod1/x\n");
        let (own, pod) = ("groups/kubepods/pod1/x/memory.max", "groups/kubepods/pod1/memory.max");
        assert_eq!(limit(&[v2, (own, "max\n"), (pod, "max\n")]), None);
        assert_eq!(limit(&[v2, (own, "max\n"), (pod, "1048576\n")]), Some(1 << 20));
        assert_eq!(limit(&[v2, (own, "4096\n"), (pod, "1048576\n")]), Some(4096));
        assert_eq!(limit(&[v2, ("groups/memory.max", "8192\n")]), Some(8192), "the path is the host's");
        let machine = ("proc/meminfo", "MemTotal:        1024 kB\n");
        assert_eq!(limit(&[v2, machine, (own, "1048576\n")]), None, "all that the machine has is no limit");
        assert_eq!(limit(&[v2, machine, (own, "1044480\n")]), Some(1_044_480));
        let v1 = ("proc/self/cgroup", "4:memory:/docker/1\n0::/docker/1\n");
        let file = "groups/memory/docker/1/memory.limit_in_bytes";
        assert_eq!(limit(&[v1, (file, "9223372036854771712\n")]), None);
        assert_eq!(limit(&[v1, (file, "4096\n")]), Some(4096));
        assert_eq!(limit(&[]), None);
    }
}
