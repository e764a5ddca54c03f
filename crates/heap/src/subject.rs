//! Describes the process that is read: its name, its executable and its start. Also lists the processes of this host.

use std::time::Duration;

use allocanary_process::{HostFile, ProcFile, kernel, link, text};
use allocanary_sys::proc::{Stat, pids, stat};
use allocanary_sys::sys::read_whole_of;
use allocanary_text::Foreign;
use serde::{Deserialize, Serialize};

/// A process, described by properties that do not change while it runs one program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSubject {
    /// The process ID.
    pub pid: u32,
    /// The process ID of the process that started it, or of the process that adopted it.
    pub parent: u32,
    /// Its name, as `ps` shows it.
    pub name: Foreign,
    /// The path of its executable. Empty if it may not be read, or for a thread of the kernel.
    pub executable: Foreign,
    /// When it started, in seconds since 1970.
    #[serde(rename = "started_timestamp_seconds")]
    pub started: u64,
    /// The number of its threads.
    pub threads: u64,
}

impl ProcessSubject {
    /// Reads a process. `None` if there is no such process.
    pub fn of(pid: u32) -> Option<ProcessSubject> {
        let stat = Stat::parse(&text(pid, ProcFile::Stat).ok()?)?;
        let boot = kernel(HostFile::Stat).and_then(|mut file| read_whole_of(&mut file)).unwrap_or_default();
        let boot = stat::booted(&boot).unwrap_or_default();
        Some(ProcessSubject {
            pid: stat.pid,
            parent: stat.parent,
            executable: link(pid).unwrap_or_default().into(),
            started: boot.saturating_add(stat::time(stat.start).as_secs()),
            threads: stat.threads,
            name: stat.name.into(),
        })
    }

    /// The path of its executable, without the kernel's note that the file is deleted. Use it for comparisons, not to open the file.
    pub fn raw_path(&self) -> &str {
        let path = self.executable.raw();
        path.strip_suffix(" (deleted)").unwrap_or(path)
    }

    /// The file name of its executable, for comparisons.
    pub fn raw_file(&self) -> &str {
        self.raw_path().rsplit('/').next().unwrap_or_default()
    }

    /// How long the process had run at the time `at`, in seconds since 1970.
    pub fn age(&self, at: u64) -> Duration {
        Duration::from_secs(at.saturating_sub(self.started))
    }

    /// Whether both are the same program in the same process.
    pub fn is_same(&self, other: &ProcessSubject) -> bool {
        // The time of boot is rounded, so it may differ by a second.
        self.pid == other.pid && self.executable == other.executable && self.started.abs_diff(other.started) <= 1
    }
}

/// Every process that can be seen from here, in the order of process IDs.
#[expect(clippy::disallowed_methods, reason = "the command lists the processes, and no child")]
pub fn processes() -> Vec<ProcessSubject> {
    let mut all: Vec<ProcessSubject> = pids::pids().into_iter().filter_map(ProcessSubject::of).collect();
    all.sort_by_key(|one| one.pid);
    all
}

/// The processes with this name, which may be the name of the process or the file name of its executable.
pub fn named<'a>(all: &'a [ProcessSubject], name: &str) -> Vec<&'a ProcessSubject> {
    all.iter().filter(|one| one.name == name || one.raw_file() == name).collect()
}

/// A process and all processes that it started, directly or not. The process is first.
pub fn tree(all: &[ProcessSubject], root: u32) -> Vec<&ProcessSubject> {
    let mut found: Vec<&ProcessSubject> = all.iter().filter(|one| one.pid == root).collect();
    let mut at = 0;
    while let Some(parent) = found.get(at).map(|one| one.pid) {
        // Process IDs may be used again while the list is read, so the list may contain a circle.
        let is_new = |one: &ProcessSubject| found.iter().all(|known| known.pid != one.pid);
        let children: Vec<&ProcessSubject> = all.iter().filter(|one| one.parent == parent && is_new(one)).collect();
        found.extend(children);
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(pid: u32, parent: u32, name: &str, executable: &str) -> ProcessSubject {
        ProcessSubject { pid, parent, name: name.into(), executable: executable.into(), ..ProcessSubject::default() }
    }

    #[test]
    fn this_process_is_read_with_its_name_and_its_start() {
        let own = ProcessSubject::of(std::process::id()).unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        assert!(own.threads > 0 && own.parent > 0 && !own.name.is_empty() && !own.executable.is_empty(), "{own:?}");
        // The time of boot is rounded.
        assert!(own.started > 0 && own.started <= now + 1, "{own:?} at {now}");
        assert_eq!(ProcessSubject::of(u32::MAX), None);
    }

    #[test]
    fn processes_are_found_by_name_and_by_their_parents() {
        let all = [
            one(1, 0, "init", "/sbin/init"),
            one(5, 1, "server", "/opt/bin/server (deleted)"),
            one(6, 5, "worker 1", "/opt/bin/server"),
            one(7, 6, "sh", "/bin/dash"),
            one(8, 1, "other", "/bin/other"),
        ];
        let pids = |found: Vec<&ProcessSubject>| found.into_iter().map(|one| one.pid).collect::<Vec<_>>();
        assert_eq!(pids(named(&all, "server")), [5, 6]);
        assert_eq!(pids(named(&all, "sh")), [7]);
        assert_eq!(pids(tree(&all, 5)), [5, 6, 7]);
        assert_eq!(pids(tree(&all, 9)), [0; 0]);
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let all = [one(5, 6, "a", ""), one(6, 7, "b", ""), one(7, 6, "c", "")];
        assert_eq!((tree(&all, 5).len(), tree(&all, 6).len()), (1, 3));
    }
}
