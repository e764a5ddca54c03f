//! The memory of the control group (container) that this process is in, v2 or v1.
//!
//! It counts everything in the group: page cache, kernel memory and all other processes. If the container has a group
//! of its own, the memory limit applies to this figure. In a session on a shared host it is not informative.

use crate::meter::{Column, Meter, column};
use allocanary_sys::cgroups::{ControlGroups, Controller, GroupFolder};
use allocanary_sys::sys::first_number;
use allocanary_text::units::Unit;

pub const METER: Meter = Meter {
    name: "cgroup",
    about: "the control group's memory.current and memory.peak, or v1's usage and max_usage",
    columns: COLUMNS,
    at: None,
    read: |_, slots| read(ControlGroups::own(&mut [0; 4096]), slots),
};

fn read<'a>(groups: ControlGroups<'a>, slots: &mut [Option<u64>]) {
    // Memory is charged to the nearest group that has the file. If the controller is off in a group, the group has no
    // such file.
    let used = |group: GroupFolder<'a>| {
        let file = if group.is_v2 { "memory.current" } else { "memory.usage_in_bytes" };
        Some((group.number(file)?, group))
    };
    let Some((used, group)) = groups.of(Controller::Memory).find_map(used) else { return };
    let peak = if group.is_v2 { "memory.peak" } else { "memory.max_usage_in_bytes" };
    let peak = is_alone(group).then(|| group.number(peak)).flatten();
    for (slot, value) in slots.iter_mut().zip([Some(used), peak]) {
        *slot = value;
    }
}

/// Whether this process is the only one in the group. If the group has or had other processes, such as the command that
/// starts the cells, the group's peak includes them.
fn is_alone(group: GroupFolder) -> bool {
    let mut text = [0; 32];
    let Ok(text) = group.read("cgroup.procs", &mut text) else { return false };
    text.ends_with(b"\n")
        && text.iter().filter(|byte| **byte == b'\n').count() == 1
        && first_number(text) == Some(u64::from(std::process::id()))
}

const COLUMNS: &[Column] = &[
    column("charged_bytes", Unit::Bytes, "memory charged to the control group"),
    column("peak_charged_bytes", Unit::Bytes, "most ever, if the cell is alone in the group"),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The readings with these files below the mount.
    fn readings(groups: &str, files: &[(&str, &str)]) -> [Option<u64>; 2] {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut slots = [None; 2];
        read(ControlGroups::new(groups, folder.path().to_str().unwrap()), &mut slots);
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
        assert_eq!(readings("0::/a/b\n", &v2), [Some(7), None], "the group above is charged");
        let hybrid = [("memory/m/memory.usage_in_bytes", "7\n"), ("unified/a/memory.current", "8\n")];
        assert_eq!(readings("0::/a\n4:memory:/m\n", &hybrid), [Some(7), None]);
        assert_eq!(readings("5:cpu:/\n", &[("memory.current", "7\n")]), [None, None]);
    }
}
