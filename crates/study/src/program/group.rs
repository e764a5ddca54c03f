//! A control group for one cell, with the limits of the container that the program will run in. In: a memory limit and a
//! number of CPUs. Out: a new group, v1 or v2, that is removed with the cell; or why it is not allowed here.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use allocanary_sys::cgroups::{ControlGroups, Controller, MOUNT};
use allocanary_sys::sys::line_number;

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
        let mut listed = [0; 4096];
        let groups = ControlGroups::own(&mut listed);
        let mut group = ControlGroup { folders: Vec::new(), kills: None };
        let find = |controller: Controller| {
            let none = || format!("no control group of `{}` is mounted in {MOUNT}", controller.name());
            hierarchy(controller, groups).ok_or_else(none)
        };
        if let Some(memory) = limits.memory {
            let found = find(Controller::Memory)?;
            let folder = group.add(&found, Controller::Memory, &name)?;
            let (limit, swap, kills) = match found.is_v2 {
                true => ("memory.max", ("memory.swap.max", "0".to_string()), "memory.events"),
                false => {
                    ("memory.limit_in_bytes", ("memory.memsw.limit_in_bytes", memory.to_string()), "memory.oom_control")
                }
            };
            put(&folder.join(limit), &memory.to_string())?;
            // A kernel without swap has no such file.
            let _ = put(&folder.join(swap.0), &swap.1);
            group.kills = Some(folder.join(kills));
        }
        if let Some(cpus) = limits.cpus {
            const PERIOD: f64 = 100_000.0;
            let found = find(Controller::Cpu)?;
            let folder = group.add(&found, Controller::Cpu, &name)?;
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
    fn add(&mut self, found: &Hierarchy, controller: Controller, name: &str) -> Result<PathBuf, String> {
        let folder = found.parent.join(name);
        if found.is_v2 {
            let on = fs::read_to_string(found.parent.join("cgroup.subtree_control")).unwrap_or_default();
            if !on.split_whitespace().any(|known| known == controller.name()) {
                put(&found.parent.join("cgroup.subtree_control"), &format!("+{}", controller.name()))?;
            }
        }
        if !self.folders.contains(&folder) {
            fs::create_dir(&folder).map_err(|error| refused(&folder, &error))?;
            self.folders.push(folder.clone());
        }
        Ok(folder)
    }

    /// The open files through which a process enters the group.
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
fn hierarchy(controller: Controller, groups: ControlGroups) -> Option<Hierarchy> {
    let own = groups.of(controller).find(|group| group.folder().is_some())?;
    let parent = if own.is_v2 { own.parent().unwrap_or(own) } else { own };
    Some(Hierarchy { parent: parent.folder()?, is_v2: own.is_v2 })
}

#[expect(clippy::disallowed_methods, reason = "a file of a control group cannot be replaced")]
fn put(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &std::io::Error) -> String {
    format!(
        "{}: {error}: a control group cannot be made here: run as root, or below \
         `systemd-run --user --scope -p Delegate=yes`, or leave out --memory-limit and --cpu-limit",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found_in_their_mounts() {
        let folder = tempfile::tempdir().unwrap();
        for group in ["memory", "memory/own", "unified", "unified/a", "unified/a/own"] {
            fs::create_dir_all(folder.path().join(group)).unwrap();
            fs::write(folder.path().join(group).join("cgroup.procs"), "").unwrap();
        }
        let found = |controller, listed| {
            let found = hierarchy(controller, ControlGroups::new(listed, folder.path().to_str().unwrap()))?;
            Some((found.parent.strip_prefix(folder.path()).unwrap().display().to_string(), found.is_v2))
        };
        let hybrid = "4:memory:/own\n0::/a/own\n";
        assert_eq!(found(Controller::Memory, hybrid), Some(("memory/own".into(), false)));
        assert_eq!(found(Controller::Memory, "4:memory:/docker/9\n"), Some(("memory".into(), false)));
        assert_eq!(found(Controller::Cpu, hybrid), Some(("unified/a".into(), true)));
        assert_eq!(found(Controller::Cpu, "0::/\n"), Some(("unified".into(), true)));
        assert_eq!(found(Controller::Cpu, "4:memory:/own\n"), None);
    }

    #[test]
    fn each_controller_of_a_group_of_v2_is_turned_on() {
        let folder = tempfile::tempdir().unwrap();
        let on = folder.path().join("cgroup.subtree_control");
        let found = Hierarchy { parent: folder.path().into(), is_v2: true };
        let mut group = ControlGroup { folders: Vec::new(), kills: None };
        for controller in [Controller::Memory, Controller::Cpu] {
            let made = group.add(&found, controller, "x").unwrap();
            assert_eq!((made, group.folders.len()), (folder.path().join("x"), 1));
            assert_eq!(fs::read_to_string(&on).unwrap(), format!("+{}", controller.name()));
        }
    }

    #[test]
    fn what_is_not_allowed_says_what_to_do() {
        let found = Hierarchy { parent: "/proc".into(), is_v2: false };
        let mut group = ControlGroup { folders: Vec::new(), kills: None };
        let said = group.add(&found, Controller::Memory, "x").unwrap_err();
        assert!(said.contains("/proc/x") && said.contains("leave out --memory-limit"), "{said}");
    }
}
