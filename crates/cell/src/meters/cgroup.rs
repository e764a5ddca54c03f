//! The memory of the control group (container) that this process is in, v2 or v1.
//!
//! It counts everything in the group: page cache, kernel memory and all other processes. In a separate container this
//! is the figure that the memory limit applies to. In a session on a shared host it is not informative.

use crate::meter::{Meter, Reading, reading};
use allocanary_kernel::sys::{first_number, read_into};
use allocanary_kernel::units::Unit;

/// The meter.
pub const METER: Meter = Meter {
    name: "cgroup",
    about: "the control group's memory.current and memory.peak, or v1's usage and max_usage",
    readings: READINGS,
    at: None,
    read: |_, slots| read_at("/proc/self/cgroup", "/sys/fs/cgroup", slots),
};

/// Reads the control groups that the file `groups` names and that are mounted at `mount`.
fn read_at(groups: &str, mount: &str, slots: &mut [Option<u64>]) {
    let mut text = [0; 2048];
    let Some(text) = read_into(groups, &mut text) else { return };
    let (folder, path, used, peak) = match memory_group(text) {
        Some(MemoryGroup::V2(path)) => ("", path, "/memory.current", "/memory.peak"),
        Some(MemoryGroup::V1(path)) => ("/memory", path, "/memory.usage_in_bytes", "/memory.max_usage_in_bytes"),
        None => return,
    };
    // Inside a container the path may be the host's; the group is then at the root of the mount.
    let at = |file| {
        number(mount, folder, path, file).map_or_else(|| (number(mount, folder, "", file), ""), |n| (Some(n), path))
    };
    let (used, path) = at(used);
    let peak = is_alone([mount, folder, path, "/cgroup.procs"]).then(|| number(mount, folder, path, peak)).flatten();
    for (slot, value) in slots.iter_mut().zip([used, peak]) {
        *slot = value;
    }
}

/// Whether this process is the only one that the file names. If the group has or had other processes, such as the
/// command that starts the cells, its peak includes them.
fn is_alone(file: [&str; 4]) -> bool {
    let mut text = [0; 32];
    let Some(text) = read_joined(file, &mut text) else { return false };
    text.ends_with(b"\n")
        && text.iter().filter(|byte| **byte == b'\n').count() == 1
        && first_number(text) == Some(u64::from(std::process::id()))
}

const READINGS: &[Reading] = &[
    reading("cgroup_bytes", Unit::Bytes, "memory charged to the control group"),
    reading("cgroup_peak_bytes", Unit::Bytes, "most ever, if the cell is alone in the group"),
];

/// The group to which memory is charged.
#[derive(Debug, PartialEq)]
enum MemoryGroup<'a> {
    V1(&'a str),
    V2(&'a str),
}

/// The memory controller's group in the text of `/proc/self/cgroup`. If v1 has a memory controller, that one counts,
/// even if a v2 hierarchy is mounted as well.
fn memory_group(text: &[u8]) -> Option<MemoryGroup<'_>> {
    let text = std::str::from_utf8(text).ok()?;
    let groups = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let has_memory = |controllers: &str| controllers.split(',').any(|name| name == "memory");
    let v1 = groups().find(|(controllers, _)| has_memory(controllers));
    let v2 = || groups().find(|(controllers, _)| controllers.is_empty());
    v1.map(|(_, path)| MemoryGroup::V1(path)).or_else(|| v2().map(|(_, path)| MemoryGroup::V2(path)))
}

/// The number in a file of the group.
fn number(mount: &str, folder: &str, path: &str, file: &str) -> Option<u64> {
    first_number(read_joined([mount, folder, path, file], &mut [0; 64])?)
}

/// The beginning of the file with the path `parts`, joined on the stack.
fn read_joined<'a>(parts: [&str; 4], text: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut joined = [0; 380];
    let mut length = 0;
    for part in parts {
        let part = part.trim_end_matches('/');
        joined.get_mut(length..length + part.len())?.copy_from_slice(part.as_bytes());
        length += part.len();
    }
    read_into(std::str::from_utf8(&joined[..length]).ok()?, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_controller_is_found_in_either_version() {
        let hybrid = b"5:cpu:/\n4:memory:/a/b\n0::/c\n";
        assert_eq!(memory_group(hybrid), Some(MemoryGroup::V1("/a/b")));
        assert_eq!(memory_group(b"0::/system.slice/x\n"), Some(MemoryGroup::V2("/system.slice/x")));
        assert_eq!(memory_group(b"5:cpu:/\n"), None);
        assert_eq!(memory_group(b"\xff"), None);
    }

    #[test]
    fn a_path_too_long_for_the_stack_is_none() {
        assert_eq!(number("/proc", "", &"x".repeat(1000), "/y"), None);
        assert!(number("/proc", "", "/", "/sys/kernel/threads-max").is_some());
    }

    /// The readings with these files below the mount.
    fn readings(groups: &str, files: &[(&str, &str)]) -> [Option<u64>; 2] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("groups"), groups).unwrap();
        for (path, text) in files {
            let path = folder.path().join("mount").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
        let mut slots = [None; 2];
        read_at(&path("groups"), &path("mount"), &mut slots);
        slots
    }

    #[test]
    fn the_peak_counts_only_where_the_process_is_alone() {
        let own = format!("{}\n", std::process::id());
        let others = format!("1\n{own}");
        let longer = format!("{own}2147483647\n2147483646\n2147483645\n");
        for (procs, peak) in [(own.as_str(), Some(9)), (&others, None), (&longer, None), ("1\n", None), ("", None)] {
            let v2 = [("a/memory.current", "7\n"), ("a/memory.peak", "9\n"), ("a/cgroup.procs", procs)];
            assert_eq!(readings("0::/a\n", &v2), [Some(7), peak], "{procs:?}");
            let v1 = [
                ("memory/a/memory.usage_in_bytes", "7\n"),
                ("memory/a/memory.max_usage_in_bytes", "9\n"),
                ("memory/a/cgroup.procs", procs),
            ];
            assert_eq!(readings("4:memory:/a\n0::/\n", &v1), [Some(7), peak], "{procs:?}");
            // A container that has its own group at the root of the mount, while the path is the host's.
            let root = [("memory.current", "7\n"), ("memory.peak", "9\n"), ("cgroup.procs", procs)];
            assert_eq!(readings("0::/docker/1\n", &root), [Some(7), peak], "{procs:?}");
        }
        let v2 = [("a/memory.current", "7\n"), ("a/memory.peak", "9\n")];
        assert_eq!(readings("0::/a\n", &v2), [Some(7), None], "who is in it is not known");
    }
}
