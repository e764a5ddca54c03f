//! The number of processes that the kernel has killed for memory. In: the control group's files. Out: that number.

use std::path::Path;

use super::line_number;

/// The number of processes in this process's control group (v1 or v2) that the kernel has killed for memory; 0 if
/// unknown.
pub fn memory_kills() -> u64 {
    memory_kills_at(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

/// As [`memory_kills`], with `proc` and the control groups at these paths.
fn memory_kills_at(proc: &Path, mount: &Path) -> u64 {
    let groups = std::fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let group = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (roots, file) = match controllers {
            // If v1 is in use as well, v2 is mounted one folder deeper.
            "" => ([mount.to_path_buf(), mount.join("unified")], "memory.events"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ([mount.join("memory"), mount.join(controllers)], "memory.oom_control")
            }
            _ => return None,
        };
        // In a container the path may be the host's. Then it does not exist, and the root of the mount is the group.
        let own = path.trim_matches('/');
        let folders = roots.iter().map(|root| root.join(own)).chain(roots.iter().cloned());
        folders.filter_map(|folder| std::fs::read(folder.join(file)).ok()).next()
    };
    groups.lines().filter_map(group).filter_map(|text| line_number(&text, b"oom_kill ")).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of kills with these files below `proc` and `groups`.
    fn kills(files: &[(&str, &str)]) -> u64 {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        memory_kills_at(&folder.path().join("proc"), &folder.path().join("groups"))
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
}
