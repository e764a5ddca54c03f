//! The memory limit that this process will reach first, and the memory in use under it, in bytes.
//!
//! The kernel kills because of the memory of a whole group, not of one process. So the counts of this process's group and of each group
//! above it are read. Pages of files do not count: the kernel reclaims them before it kills. Their count is in `memory.stat`, a long text,
//! which is read only if more than half of the limit is in use. Nothing is allocated.
//!
//! A missing file means no limit: the root has no such file, and in a container the path may be the host's. Two cases are errors: no group
//! can be seen at all, or a file exists and cannot be read (the process has no file descriptors left).

use std::io::{Error, ErrorKind, Result};

use crate::cgroups::{ControlGroups, Controller, GroupFolder};
use crate::sys::{first_number, line_number};

/// Numbers from here on mean "no limit": version 1 writes "no limit" as the largest number of whole pages.
const NO_LIMIT: u64 = 1 << 60;

/// Room for a group's `memory.stat`.
pub type StatisticsBuffer = [u8; 8192];

/// A limit, and the memory that counts towards it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// In bytes; at least 1.
    pub limit: u64,
    /// In bytes, without pages of files. These are included if less than half of the limit is in use.
    pub used: u64,
}

/// The limit with the largest share in use, from the process's own group up to the root; `None` if no group has a limit.
pub fn nearest(groups: ControlGroups, text: &mut StatisticsBuffer) -> Result<Option<Nearest>> {
    let share = |of: &Nearest| u128::from(of.used) * (1 << 32) / u128::from(of.limit);
    let mut found: Option<Nearest> = None;
    let mut is_seen = false;
    for group in groups.of(Controller::Memory) {
        let mut least: Option<u64> = None;
        for file in limit_files(group) {
            let number = there(group.read(file, &mut [0; 64]).map(first_number))?;
            is_seen |= number.is_some();
            least = least.into_iter().chain(number.flatten()).min();
        }
        let Some(limit) = least.filter(|limit| (1..NO_LIMIT).contains(limit)) else { continue };
        let with_files = first_number(group.read(used_file(group), &mut [0; 64])?).ok_or(ErrorKind::InvalidData)?;
        let files = if with_files >= limit / 2 { files(group, text) } else { 0 };
        let one = Nearest { limit, used: with_files.saturating_sub(files) };
        if found.is_none_or(|found| share(&one) > share(&found)) {
            found = Some(one);
        }
    }
    // If a group has no file of a limit, another file, which every group has, shows that it exists.
    let mut others = groups.of(Controller::Memory).peekable();
    if is_seen || others.peek().is_none() {
        return Ok(found);
    }
    for group in others {
        if there(group.read("cgroup.procs", &mut [0; 1]))?.is_some() {
            return Ok(found);
        }
    }
    Err(ErrorKind::NotFound.into())
}

/// `None` if the file does not exist, or this process may not read it.
fn there<T>(read: Result<T>) -> Result<Option<T>> {
    let is_away = |error: &Error| {
        matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied)
    };
    match read {
        Err(error) if is_away(&error) => Ok(None),
        read => read.map(Some),
    }
}

/// Above `memory.high` the kernel kills no process. It slows all of them down, and they stop if nothing can be
/// reclaimed.
fn limit_files(group: GroupFolder) -> &'static [&'static str] {
    if group.is_v2 { &["memory.max", "memory.high"] } else { &["memory.limit_in_bytes"] }
}

fn used_file(group: GroupFolder) -> &'static str {
    if group.is_v2 { "memory.current" } else { "memory.usage_in_bytes" }
}

/// A group's limit, and the file that has it.
pub(crate) fn limit(group: GroupFolder) -> Option<(u64, &'static str)> {
    limit_files(group).iter().filter_map(|file| Some((group.number(file)?, *file))).min()
}

/// The memory in use in a group, including pages of files.
pub(crate) fn with_files(group: GroupFolder) -> Option<u64> {
    group.number(used_file(group))
}

/// A group's pages of files, in bytes.
pub(crate) fn files(group: GroupFolder, text: &mut StatisticsBuffer) -> u64 {
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

    fn read(listed: &str, files: &[(&str, &str)]) -> std::result::Result<Option<(u64, u64)>, ErrorKind> {
        let mount = mount(files);
        let found = nearest(ControlGroups::new(listed, mount.path().to_str().unwrap()), &mut [0; 8192]);
        found.map(|found| found.map(|Nearest { limit, used }| (limit, used))).map_err(|error| error.kind())
    }

    fn found(listed: &str, files: &[(&str, &str)]) -> Option<(u64, u64)> {
        read(listed, files).unwrap()
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_not_no_limit() {
        let group = ("a/cgroup.procs", "1\n");
        assert_eq!(read("0::/a\n", &[group]), Ok(None), "a group without limits");
        assert_eq!(read("0::/b\n", &[("cgroup.procs", "1\n")]), Ok(None), "the path is the host's");
        assert_eq!(read("0::/a\n", &[]), Err(ErrorKind::NotFound), "no group is there: another root folder");
        assert_eq!(read("4:cpu:/a\n", &[]), Ok(None), "no group of memory");
        let folder = [group, ("a/memory.max/x", "")];
        assert_eq!(read("0::/a\n", &folder), Err(ErrorKind::IsADirectory), "it is there and cannot be read");
        assert_eq!(
            read("0::/a\n", &[("a/memory.max", "9\n")]),
            Err(ErrorKind::NotFound),
            "a limit without what is in use"
        );
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
                ("cgroup.procs", ""),
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
        assert_eq!(read("0::/x\n", &files("")), Err(ErrorKind::InvalidData), "what is in use is not known");
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
