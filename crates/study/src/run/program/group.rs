//! A control group for one cell, with the limits of the container that the program will run in. In: a memory limit and a
//! number of CPUs. Out: a new group, v1 or v2, that is removed with the cell; or why it is not allowed here.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use allocanary_kernel::sys::line_number;

/// The limits of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContainerLimits {
    /// Memory, in bytes.
    pub memory: Option<u64>,
    /// CPU time, in CPUs.
    pub cpus: Option<f64>,
}

/// The group of a cell.
#[derive(Debug)]
pub struct ControlGroup {
    folders: Vec<PathBuf>,
    kills: Option<PathBuf>,
}

/// A controller's hierarchy, as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    /// The folder in which a group can be made.
    parent: PathBuf,
    is_v2: bool,
}

impl ControlGroup {
    /// Makes a group with these limits.
    pub fn make(limits: ContainerLimits) -> Result<ControlGroup, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("allocanary-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (groups, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mounts"));
        let mut group = ControlGroup { folders: Vec::new(), kills: None };
        let find = |controller: &str| {
            hierarchy(controller, &groups, &mounts)
                .ok_or_else(|| format!("no control group of `{controller}` is mounted here"))
        };
        if let Some(memory) = limits.memory {
            let found = find("memory")?;
            let folder = group.add(&found, "memory", &name)?;
            let (limit, swap, kills) = match found.is_v2 {
                true => ("memory.max", ("memory.swap.max", "0".to_string()), "memory.events"),
                false => {
                    ("memory.limit_in_bytes", ("memory.memsw.limit_in_bytes", memory.to_string()), "memory.oom_control")
                }
            };
            put(&folder.join(limit), &memory.to_string())?;
            // Without swap there is no such file.
            let _ = fs::write(folder.join(swap.0), swap.1);
            group.kills = Some(folder.join(kills));
        }
        if let Some(cpus) = limits.cpus {
            const PERIOD: f64 = 100_000.0;
            let found = find("cpu")?;
            let folder = group.add(&found, "cpu", &name)?;
            let quota = (cpus * PERIOD).round().max(1000.0);
            match found.is_v2 {
                true => put(&folder.join("cpu.max"), &format!("{quota} {PERIOD}"))?,
                false => {
                    put(&folder.join("cpu.cfs_period_us"), &PERIOD.to_string())?;
                    put(&folder.join("cpu.cfs_quota_us"), &quota.to_string())?;
                }
            }
        }
        Ok(group)
    }

    /// Makes the group's folder in a hierarchy. In v2 one folder serves all controllers, and each is turned on.
    fn add(&mut self, found: &Hierarchy, controller: &str, name: &str) -> Result<PathBuf, String> {
        let folder = found.parent.join(name);
        if found.is_v2 {
            let on = fs::read_to_string(found.parent.join("cgroup.subtree_control")).unwrap_or_default();
            if !on.split_whitespace().any(|known| known == controller) {
                put(&found.parent.join("cgroup.subtree_control"), &format!("+{controller}"))?;
            }
        }
        if !self.folders.contains(&folder) {
            fs::create_dir(&folder).map_err(|error| refused(&folder, &error))?;
            self.folders.push(folder.clone());
        }
        Ok(folder)
    }

    /// The open files by which a process enters.
    pub fn entries(&self) -> Result<Vec<File>, String> {
        let open = |folder: &PathBuf| {
            let path = folder.join("cgroup.procs");
            OpenOptions::new().write(true).open(&path).map_err(|error| refused(&path, &error))
        };
        self.folders.iter().map(open).collect()
    }

    /// How many processes the kernel has killed for memory in this group.
    pub fn kills(&self) -> u64 {
        let text = self.kills.as_ref().and_then(|path| fs::read(path).ok());
        text.and_then(|text| line_number(&text, b"oom_kill ")).unwrap_or(0)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        for folder in &self.folders {
            // The kernel may need a moment after the last process was waited for.
            for _ in 0..200 {
                match fs::remove_dir(folder) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// Where a group of a controller can be made: below our own group in v1; next to it in v2, where a group with processes
/// cannot have groups with limits.
fn hierarchy(controller: &str, groups: &str, mounts: &str) -> Option<Hierarchy> {
    let of = |wanted: &dyn Fn(&str) -> bool| {
        let mut lines = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        lines.find(|(controllers, _)| wanted(controllers)).map(|(_, path)| path)
    };
    let mount = |kind: &str, option: Option<&str>| {
        let mut lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let has = |fields: &[&str]| {
            fields.get(2) == Some(&kind)
                && option.is_none_or(|option| fields.get(3).is_some_and(|all| all.split(',').any(|one| one == option)))
        };
        lines.find(|fields| has(fields)).and_then(|fields| fields.get(1).map(PathBuf::from))
    };
    let below = |root: PathBuf, path: &str| {
        let own = root.join(path.trim_matches('/'));
        // In a container the path may be the host's. Then it does not exist, and the root of the mount is the group.
        if own.is_dir() { own } else { root }
    };
    let v1 = of(&|controllers: &str| controllers.split(',').any(|one| one == controller));
    if let Some((path, root)) = v1.zip(mount("cgroup", Some(controller))) {
        return Some(Hierarchy { parent: below(root, path), is_v2: false });
    }
    let path = of(&|controllers: &str| controllers.is_empty())?;
    let root = mount("cgroup2", None)?;
    let own = below(root.clone(), path);
    let parent = if own == root { own } else { own.parent().map_or(root, Path::to_path_buf) };
    Some(Hierarchy { parent, is_v2: true })
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &std::io::Error) -> String {
    format!(
        "{}: {error}: a control group cannot be made here: run as root, or below \
         `systemd-run --user --scope -p Delegate=yes`, or leave out --memory and --cpus",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found_in_their_mounts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display().to_string();
        fs::create_dir_all(folder.path().join("memory/own")).unwrap();
        fs::create_dir_all(folder.path().join("v2/a/own")).unwrap();
        let mounts =
            format!("cgroup {root}/memory cgroup rw,nosuid,memory 0 0\ncgroup2 {root}/v2 cgroup2 rw,nosuid 0 0\n");
        let v1 = hierarchy("memory", "4:memory:/own\n0::/a/own\n", &mounts).unwrap();
        assert_eq!((v1.parent, v1.is_v2), (folder.path().join("memory/own"), false));
        let container = hierarchy("memory", "4:memory:/docker/9\n", &mounts).unwrap();
        assert_eq!(container.parent, folder.path().join("memory"));
        let v2 = hierarchy("memory", "0::/a/own\n", &mounts).unwrap();
        assert_eq!((v2.parent, v2.is_v2), (folder.path().join("v2/a"), true));
        let root_of_v2 = hierarchy("cpu", "4:memory:/own\n0::/\n", &mounts).unwrap();
        assert_eq!(root_of_v2.parent, folder.path().join("v2"));
        assert_eq!(hierarchy("cpu", "", ""), None);
    }

    #[test]
    fn each_controller_of_a_group_of_v2_is_turned_on() {
        let folder = tempfile::tempdir().unwrap();
        let on = folder.path().join("cgroup.subtree_control");
        let found = Hierarchy { parent: folder.path().into(), is_v2: true };
        let mut group = ControlGroup { folders: Vec::new(), kills: None };
        for controller in ["memory", "cpu"] {
            let made = group.add(&found, controller, "x").unwrap();
            assert_eq!((made, group.folders.len()), (folder.path().join("x"), 1));
            assert_eq!(fs::read_to_string(&on).unwrap(), format!("+{controller}"));
        }
    }

    #[test]
    fn what_is_not_allowed_says_what_to_do() {
        let found = Hierarchy { parent: "/proc".into(), is_v2: false };
        let mut group = ControlGroup { folders: Vec::new(), kills: None };
        let said = group.add(&found, "memory", "x").unwrap_err();
        assert!(said.contains("/proc/x") && said.contains("leave out --memory"), "{said}");
    }
}
