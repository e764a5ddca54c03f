//! The limits of control groups, and their files. In: a `/proc/<pid>/cgroup` and the mount. Out: the lowest CPU quota
//! and the lowest memory limit from the process's group up to the root.

use std::fs;
use std::path::{Path, PathBuf};

use allocanary_kernel::container::{Trouble, quota_v1, quota_v2};

/// A limit and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Thousandths of a CPU, or bytes.
    pub value: u64,
    /// The file that contains it.
    pub file: PathBuf,
}

/// The limits of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// CPU quota, in thousandths of a CPU.
    pub cpu: Option<Limit>,
    /// Memory limit, in bytes.
    pub memory: Option<Limit>,
    /// Why a quota that exists could not be read.
    pub trouble: Option<Trouble>,
}

/// The limits of the process whose groups are listed in `groups`, under the hierarchy at `mount`.
pub fn limits(groups: &str, mount: &Path) -> Limits {
    let mut found = Limits::default();
    for (v1, path) in tree(groups, "cpu") {
        let mount_text = mount.to_string_lossy();
        match if v1 { quota_v1(&mount_text, &path) } else { quota_v2(&mount_text, &path) } {
            Ok(Some(value)) if found.cpu.as_ref().is_none_or(|least| value < least.value) => {
                let (folders, name) = match v1 {
                    true => (["cpu", "cpu,cpuacct"], "cpu.cfs_quota_us"),
                    false => (["", "unified"], "cpu.max"),
                };
                let file = files(mount, folders, &path, name).find(|file| file.exists()).unwrap_or_default();
                found.cpu = Some(Limit { value, file });
            }
            Ok(_) => {}
            Err(trouble) => found.trouble = Some(trouble),
        }
    }
    for (v1, path) in tree(groups, "memory") {
        let (folders, name) = match v1 {
            true => (["memory", "memory"], "memory.limit_in_bytes"),
            false => (["", "unified"], "memory.max"),
        };
        let mut read = files(mount, folders, &path, name)
            .filter_map(|file| Some((fs::read_to_string(&file).ok()?.trim().parse().ok()?, file)));
        // v1 writes "no limit" as the largest number of whole pages, and v2 as `max`, which is not a number.
        if let Some((value, file)) = read.next().filter(|(value, _)| *value < 1 << 60)
            && found.memory.as_ref().is_none_or(|least| value < least.value)
        {
            found.memory = Some(Limit { value, file });
        }
    }
    if found.cpu.is_some() {
        found.trouble = None;
    }
    found
}

/// The groups for `controller`, from the process's own up to the root: whether it is a v1 group, and its path.
fn tree(groups: &str, controller: &str) -> Vec<(bool, String)> {
    let lines = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let mut found = Vec::new();
    for (controllers, path) in lines {
        let v1 = controllers.split(',').any(|name| name == controller);
        if v1 || controllers.is_empty() {
            let mut path = path.trim_end_matches('/');
            loop {
                found.push((v1, path.to_string()));
                let Some(slash) = path.rfind('/') else { break };
                path = &path[..slash];
            }
        }
    }
    found
}

/// A group's file below each of the `folders` where a hierarchy may be mounted.
fn files(mount: &Path, folders: [&str; 2], group: &str, name: &str) -> impl Iterator<Item = PathBuf> {
    folders.map(|folder| mount.join(folder).join(group.trim_start_matches('/')).join(name)).into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(groups: &str, texts: &[(&str, &str)]) -> (Limits, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in texts {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (limits(groups, folder.path()), folder.path().to_path_buf())
    }

    #[test]
    fn the_least_limit_up_the_tree_counts_and_is_named() {
        let (limits, root) = found(
            "0::/a/b\n",
            &[
                ("a/b/cpu.max", "max 100000\n"),
                ("a/cpu.max", "50000 100000\n"),
                ("a/b/memory.max", "536870912\n"),
                ("a/memory.max", "1073741824\n"),
            ],
        );
        assert_eq!(limits.cpu, Some(Limit { value: 500, file: root.join("a/cpu.max") }));
        assert_eq!(limits.memory, Some(Limit { value: 512 << 20, file: root.join("a/b/memory.max") }));
    }

    #[test]
    fn v1_is_read_and_its_way_to_say_none() {
        let texts = [
            ("cpu,cpuacct/x/cpu.cfs_quota_us", "150000"),
            ("cpu,cpuacct/x/cpu.cfs_period_us", "100000"),
            ("memory/x/memory.limit_in_bytes", "9223372036854771712"),
            ("memory/memory.limit_in_bytes", "4096"),
        ];
        let (limits, root) = found("3:cpu,cpuacct:/x\n2:memory:/x\n", &texts);
        assert_eq!(limits.cpu.unwrap(), Limit { value: 1500, file: root.join("cpu,cpuacct/x/cpu.cfs_quota_us") });
        assert_eq!(limits.memory.unwrap(), Limit { value: 4096, file: root.join("memory/memory.limit_in_bytes") });
    }

    #[test]
    fn garbage_is_trouble_and_nothing_is_nothing() {
        assert_eq!(found("0::/\n", &[("cpu.max", "soon")]).0.trouble, Some(Trouble::Garbage));
        assert_eq!(found("0::/a\n", &[]).0, Limits::default());
    }
}
