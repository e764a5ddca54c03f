//! A process's host and container, from /proc, /sys and the control groups: cores, affinity, limits, pages, C library.

use std::path::{Path, PathBuf};

use allocanary_facts::system;
use allocanary_sys::cgroups::{self, ControlGroups};
use allocanary_sys::container::{Cpus, Trouble, quota};
use allocanary_sys::host::Host;
use allocanary_sys::proc::Stat;
use allocanary_sys::proc::files::{ProcEntry, path};
use allocanary_sys::proc::pids::children;
use allocanary_sys::sys;
use allocanary_text::units::Bytes;
use serde::{Deserialize, Serialize};

/// A memory limit and its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub bytes: u64,
    /// The file that contains it.
    pub file: PathBuf,
}

/// A process's host and container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Surroundings {
    /// The machine.
    pub host: Host,
    /// The CPUs available to the process.
    pub cpus: Cpus,
    /// The file with the CPU quota.
    pub quota_file: Option<PathBuf>,
    /// The lowest memory limit.
    pub memory: Option<MemoryLimit>,
    /// The C library, with its version if known.
    pub libc: String,
    /// Whether it was forked from its parent or has forked children, and both still run the same program. A thread that an allocator has
    /// started before a fork does not exist in the child.
    pub forks: bool,
}

impl Surroundings {
    /// The surroundings of this process.
    pub fn here() -> Self {
        Surroundings::read("/proc/self/cgroup", cgroups::MOUNT, sys::affinity(), system::version())
    }

    /// The surroundings of another process. Its C library is not known yet.
    pub fn of(pid: u32) -> Self {
        let at =
            Surroundings::read(&path(pid, ProcEntry::Cgroup), cgroups::MOUNT, sys::affinity_of(pid), String::new());
        Surroundings { forks: forks(pid), ..at }
    }

    fn read(groups: &str, mount: &str, affinity: u32, libc: String) -> Self {
        let mut text = [0; 4096];
        let groups = ControlGroups::read(groups, mount, &mut text);
        let quota = groups.as_ref().map_or(Err(Trouble::NoGroups), |groups| quota(*groups));
        let memory = groups.ok().and_then(ControlGroups::memory_limit);
        let (quota, trouble) = quota.map_or_else(|trouble| (None, Some(trouble)), |quota| (quota, None));
        Surroundings {
            host: Host::this(),
            cpus: Cpus::new(affinity, quota.map(|limit| limit.value)).with_trouble(trouble),
            quota_file: quota.map(|limit| limit.path()),
            memory: memory.map(|limit| MemoryLimit { bytes: limit.value, file: limit.path() }),
            libc,
            forks: false,
        }
    }

    /// Whether the C library is glibc.
    pub fn has_glibc(&self) -> bool {
        self.libc.starts_with(system::HEAP)
    }

    /// A label and a text for each fact.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let Surroundings { host, cpus, .. } = self;
        let file = |file: &Path| file.display().to_string();
        let quota = match (cpus.quota_milli, cpus.trouble, &self.quota_file) {
            (Some(milli), _, path) => {
                format!("{} CPUs, from {}", milli as f64 / 1000.0, path.as_deref().map_or_else(String::new, file))
            }
            (None, Some(trouble), _) => trouble.text().to_string(),
            (None, None, _) => "none".to_string(),
        };
        let processors = if cpus.count() == 1 { "processor" } else { "processors" };
        let usable = format!("{} {processors}: the least of these, a part counts as one", cpus.count());
        let all = Bytes(host.memory_bytes);
        let memory = match &self.memory {
            Some(limit) => format!("{} of {all}, from {}", Bytes(limit.bytes), file(&limit.file)),
            None => format!("{all}, no limit"),
        };
        vec![
            ("cores", format!("{} online ({})", host.cores, host.cpu)),
            ("affinity", format!("{} of them", cpus.affinity)),
            ("CPU quota", quota),
            ("usable", usable),
            ("memory", memory),
            ("page", format!("{}, transparent huge pages: {}", Bytes(host.page_bytes), host.thp)),
            ("C library", self.libc.clone()),
            ("kernel", host.kernel.clone()),
        ]
    }
}

/// The most children that are looked at.
const CHILDREN: usize = 64;

/// Whether a process has the same code and stack addresses as its parent or a child: an `exec` would have changed the address of the stack.
fn forks(pid: u32) -> bool {
    let Some(own) = Stat::of(pid).ok().filter(|own| own.stack != 0) else { return false };
    let is_same = |other: u32| Stat::of(other).is_ok_and(|other| (other.code, other.stack) == (own.code, own.stack));
    is_same(own.parent) || children(pid).unwrap_or_default().into_iter().take(CHILDREN).any(is_same)
}

/// Surroundings for tests: 40 cores, all of them in the affinity mask.
#[cfg(test)]
pub(crate) fn sample(quota_milli: Option<u64>, thp: &str) -> Surroundings {
    let host = Host { cores: 40, affinity: 40, thp: thp.into(), ..Host::this() };
    let cpus = Cpus::new(40, quota_milli);
    Surroundings {
        host,
        cpus,
        quota_file: Some("/x/cpu.max".into()),
        memory: None,
        libc: "glibc 2.36".into(),
        forks: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_memory_and_trouble_are_said() {
        let mut at = sample(Some(500), "madvise");
        at.memory = Some(MemoryLimit { bytes: 512 << 20, file: "/x/memory.max".into() });
        let text = |at: &Surroundings, label| at.lines().into_iter().find(|(name, _)| *name == label).unwrap().1;
        assert_eq!(text(&at, "CPU quota"), "0.5 CPUs, from /x/cpu.max");
        assert!(text(&at, "memory").starts_with("512 MiB of ") && text(&at, "memory").ends_with("/x/memory.max"));
        assert!(text(&at, "usable").starts_with("1 processor:"));
        at.cpus = Cpus::new(40, None).with_trouble(Some(Trouble::Zero));
        assert_eq!(text(&at, "CPU quota"), Trouble::Zero.text());
    }

    #[test]
    fn limits_are_named_with_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let (list, mount) = (put("list", "3:cpu,cpuacct:/x\n0::/a/b\n"), folder.path().to_str().unwrap());
        let read = || Surroundings::read(list.to_str().unwrap(), mount, 4, String::new());
        assert_eq!((read().cpus, read().quota_file, read().memory), (Cpus::new(4, None), None, None));
        put("a/b/cpu.max", "soon");
        assert_eq!(read().cpus.trouble, Some(Trouble::Garbage));
        put("cpu,cpuacct/x/cpu.cfs_period_us", "100000");
        let quota = put("cpu,cpuacct/x/cpu.cfs_quota_us", "150000");
        let memory = put("a/memory.max", "4096\n");
        put("a/b/memory.max", "8192\n");
        assert_eq!((read().cpus, read().quota_file), (Cpus::new(4, Some(1500)), Some(quota)));
        assert_eq!(read().memory, Some(MemoryLimit { bytes: 4096, file: memory }));
        let none = Surroundings::read("/proc/no-such-file", mount, 4, String::new());
        assert_eq!((none.cpus.trouble, none.memory), (Some(Trouble::NoGroups), None));
    }

    #[test]
    fn a_process_that_forks_is_told_from_one_that_starts_programs() {
        use std::io::{BufRead, BufReader};
        use std::process::{Command, Stdio};
        // A shell forks for what stands in parentheses, and starts no program there.
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec 3<&0; (read line <&3) & echo $!; wait"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        // `spawn` returns when the program has been executed.
        let mut started = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let found = [shell.id(), line.trim().parse().unwrap(), started.id()].map(forks);
        // Both end with their input.
        drop((shell.stdin.take(), started.stdin.take()));
        shell.wait().unwrap();
        started.wait().unwrap();
        assert_eq!(found, [true, true, false]);
    }

    #[test]
    fn this_process_stands_somewhere() {
        let here = Surroundings::here();
        assert!(here.cpus.count() >= 1 && here.host.cores >= here.cpus.affinity);
        let lines = here.lines();
        assert!(!lines.is_empty() && lines.iter().all(|(label, text)| !label.is_empty() && !text.is_empty()));
    }
}
