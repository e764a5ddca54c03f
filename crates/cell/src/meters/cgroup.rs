//! The memory of the control group (container) that this process is in, v2 or v1.
//!
//! It counts everything in the group: page cache, kernel memory, and whoever else is there. Inside a container of
//! its own that is the figure that the limit acts on; in a session on a shared host it says little.

use crate::meter::{Meter, Reading, reading};
use allocanary_kernel::sys::{first_number, read_into};
use allocanary_kernel::units::Unit;

/// The meter.
pub const METER: Meter = Meter {
    name: "cgroup",
    about: "the control group's memory.current and memory.peak, or v1's usage and max_usage",
    readings: READINGS,
    read: |_, slots| {
        let mut groups = [0; 2048];
        let Some(groups) = read_into("/proc/self/cgroup", &mut groups) else { return };
        let files = match memory_group(groups) {
            Some(Group::V2(path)) => {
                [("/sys/fs/cgroup", path, "/memory.current"), ("/sys/fs/cgroup", path, "/memory.peak")]
            }
            Some(Group::V1(path)) => [
                ("/sys/fs/cgroup/memory", path, "/memory.usage_in_bytes"),
                ("/sys/fs/cgroup/memory", path, "/memory.max_usage_in_bytes"),
            ],
            None => return,
        };
        for (slot, (root, path, file)) in slots.iter_mut().zip(files) {
            // Inside a container the path may be the host's, and the group stands at the root of the mount.
            *slot = number(root, path, file).or_else(|| number(root, "", file));
        }
    },
};

const READINGS: &[Reading] = &[
    reading("cgroup_bytes", Unit::Bytes, "memory charged to the control group"),
    reading("cgroup_peak_bytes", Unit::Bytes, "most memory ever charged to the control group"),
];

/// The group that memory is charged to.
#[derive(Debug, PartialEq)]
enum Group<'a> {
    V1(&'a str),
    V2(&'a str),
}

/// The memory controller's group in the text of `/proc/self/cgroup`. Where v1 has a memory controller it is the one
/// that counts, even if a v2 hierarchy is mounted beside it.
fn memory_group(text: &[u8]) -> Option<Group<'_>> {
    let text = std::str::from_utf8(text).ok()?;
    let groups = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let has_memory = |controllers: &str| controllers.split(',').any(|name| name == "memory");
    let v1 = groups().find(|(controllers, _)| has_memory(controllers));
    let v2 = || groups().find(|(controllers, _)| controllers.is_empty());
    v1.map(|(_, path)| Group::V1(path)).or_else(|| v2().map(|(_, path)| Group::V2(path)))
}

/// The number in a file of the group, its path put together on the stack.
fn number(root: &str, path: &str, file: &str) -> Option<u64> {
    let mut joined = [0; 380];
    let mut length = 0;
    for part in [root, path.trim_end_matches('/'), file] {
        joined.get_mut(length..length + part.len())?.copy_from_slice(part.as_bytes());
        length += part.len();
    }
    let mut buffer = [0; 64];
    first_number(read_into(std::str::from_utf8(&joined[..length]).ok()?, &mut buffer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_controller_is_found_in_either_version() {
        let hybrid = b"5:cpu:/\n4:memory:/a/b\n0::/c\n";
        assert_eq!(memory_group(hybrid), Some(Group::V1("/a/b")));
        assert_eq!(memory_group(b"0::/system.slice/x\n"), Some(Group::V2("/system.slice/x")));
        assert_eq!(memory_group(b"5:cpu:/\n"), None);
        assert_eq!(memory_group(b"\xff"), None);
    }

    #[test]
    fn a_path_too_long_for_the_stack_is_none() {
        assert_eq!(number("/proc", &"x".repeat(1000), "/y"), None);
        assert!(number("/proc", "", "/sys/kernel/threads-max").is_some());
    }
}
