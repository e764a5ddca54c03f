//! The memory limit that is the nearest for this process, and what is in use under it. In: control groups. Out: two
//! numbers of bytes.
//!
//! A group is killed for what it uses, and not for what one process has: so its own count is read, and that of each group
//! above it. Pages of files do not count: the kernel reclaims them before it kills. They are in `memory.stat`, a long text,
//! which is read only where more than half of the limit is in use. Nothing is allocated.

use crate::cgroups::{Controller, Group, Groups};
use crate::sys::line_number;

/// From here on a number is no limit: version 1 writes "no limit" as the largest number of whole pages.
const NO_LIMIT: u64 = 1 << 60;

/// Room for a group's `memory.stat`.
pub type Statistics = [u8; 8192];

/// A limit, and what counts against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// In bytes; at least 1.
    pub limit: u64,
    /// In bytes, without pages of files. With them, where less than half of the limit is in use.
    pub used: u64,
}

/// The limit of which the largest share is in use, from the process's own group up to the root; `None` if no group has a
/// limit that can be read.
pub fn nearest(groups: Groups, text: &mut Statistics) -> Option<Nearest> {
    let share = |of: &Nearest| u128::from(of.used) * (1 << 32) / u128::from(of.limit);
    let mut found: Option<Nearest> = None;
    for group in groups.of(Controller::Memory) {
        let Some((limit, _)) = limit(group).filter(|(limit, _)| (1..NO_LIMIT).contains(limit)) else { continue };
        let Some(with_files) = with_files(group) else { continue };
        let files = if with_files >= limit / 2 { files(group, text) } else { 0 };
        let one = Nearest { limit, used: with_files.saturating_sub(files) };
        if found.is_none_or(|found| share(&one) > share(&found)) {
            found = Some(one);
        }
    }
    found
}

/// A group's limit, and the file that has it. Above `memory.high` no process is killed: all are slowed down, and stop if
/// nothing can be reclaimed.
pub(crate) fn limit(group: Group) -> Option<(u64, &'static str)> {
    let files: &[_] = if group.is_v2 { &["memory.max", "memory.high"] } else { &["memory.limit_in_bytes"] };
    files.iter().filter_map(|file| Some((group.number(file)?, *file))).min()
}

/// What a group uses, with pages of files.
pub(crate) fn with_files(group: Group) -> Option<u64> {
    group.number(if group.is_v2 { "memory.current" } else { "memory.usage_in_bytes" })
}

/// A group's pages of files, in bytes.
pub(crate) fn files(group: Group, text: &mut Statistics) -> u64 {
    let kinds = match group.is_v2 {
        true => ["inactive_file ", "active_file "],
        false => ["total_inactive_file ", "total_active_file "],
    };
    let text = group.read("memory.stat", text).unwrap_or_default();
    kinds.iter().filter_map(|kind| line_number(text, kind.as_bytes())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroups::tests::mount;

    fn found(listed: &str, files: &[(&str, &str)]) -> Option<(u64, u64)> {
        let mount = mount(files);
        let found = nearest(Groups::new(listed, mount.path().to_str().unwrap()), &mut [0; 8192]);
        found.map(|Nearest { limit, used }| (limit, used))
    }

    #[test]
    fn the_limit_with_the_largest_share_in_use_counts_whichever_is_the_lowest() {
        let files = |own: &'static str, above: &'static str| {
            [
                ("a/b/memory.max", "1000\n"),
                ("a/b/memory.current", own),
                ("a/memory.max", "2000\n"),
                ("a/memory.current", above),
                ("memory.current", "9000\n"),
            ]
        };
        assert_eq!(found("0::/a/b\n", &files("400\n", "700\n")), Some((1000, 400)));
        assert_eq!(found("0::/a/b\n", &files("400\n", "1900\n")), Some((2000, 1900)), "by its neighbours");
        assert_eq!(found("0::/\n", &files("400\n", "1900\n")), None, "the root has no limit");
    }

    #[test]
    fn pages_of_files_do_not_count_and_are_read_only_where_they_matter() {
        let files = |current| {
            [
                ("memory.max", "max\n"),
                ("memory.high", "1000\n"),
                ("memory.current", current),
                ("memory.stat", "anon 1\ninactive_file 100\nactive_file 250\n"),
            ]
        };
        assert_eq!(found("0::/x\n", &files("950\n")), Some((1000, 600)));
        assert_eq!(found("0::/x\n", &files("499\n")), Some((1000, 499)));
        assert_eq!(found("0::/x\n", &files("")), None, "what is in use is not known");
    }

    #[test]
    fn version_1_has_other_names_and_a_number_for_no_limit() {
        let files = |limit| {
            [
                ("memory/m/memory.limit_in_bytes", limit),
                ("memory/m/memory.usage_in_bytes", "800\n"),
                ("memory/m/memory.stat", "inactive_file 9\ntotal_inactive_file 50\ntotal_active_file 60\n"),
            ]
        };
        let listed = "4:memory:/m\n0::/\n";
        assert_eq!(found(listed, &files("1000\n")), Some((1000, 690)));
        assert_eq!(found(listed, &files("9223372036854771712\n")), None);
        assert_eq!(found(listed, &files("0\n")), None, "nothing can be a share of nothing");
        assert_eq!(found("", &files("1000\n")), None, "no control group");
    }
}
