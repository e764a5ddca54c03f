//! Where the agent reads from: the kernel, or a test.

use std::fs;

use allocanary_heap::counters::{Counters, Place, Remote};
use allocanary_kernel::cgroups::{Controller, Groups};
use allocanary_kernel::container::quota;
use allocanary_kernel::sys::{line_number, read_whole};

use crate::group::from_the_root;

/// A file of a process that is read each minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum File {
    /// Who it is.
    Stat,
    /// What is resident.
    Status,
    /// Where it belongs.
    Groups,
}

/// What can be asked.
pub trait World {
    /// The numbers of all processes.
    fn pids(&self) -> Vec<u32>;

    /// A file of a process. `None` if it has ended.
    fn file(&self, pid: u32, file: File) -> Option<Vec<u8>>;

    /// Whether its memory may be read.
    fn may_read(&self, pid: u32) -> bool;

    /// What its allocator counts.
    fn counters(&self, pid: u32, places: &[Place]) -> Vec<Counters>;

    /// What the kernel charges to the group of such a list, and its CPU quota in thousandths.
    fn group(&self, listed: &str) -> Charged;

    /// The time, in milliseconds since 1970.
    fn time(&self) -> u64;

    /// When the machine was started, in milliseconds since 1970. The same at each call, so that a process keeps its time.
    fn booted(&self) -> u64;
}

/// What is asked of a control group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// Anonymous bytes.
    pub anonymous: Option<u64>,
    /// The CPU quota, in thousandths of a processor.
    pub quota_milli: Option<u64>,
}

/// The kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    mount: String,
    booted: u64,
}

/// The hierarchies of the host: an agent in a container has a view of its own, and the first process has the host's.
const OF_HOST: &str = "/proc/1/root/sys/fs/cgroup";

impl Kernel {
    /// Control groups are where the host has them mounted, if that can be read.
    pub fn new() -> Kernel {
        let mount = if fs::read_dir(OF_HOST).is_ok() { OF_HOST } else { allocanary_kernel::cgroups::MOUNT };
        let booted = line_number(&fs::read("/proc/stat").unwrap_or_default(), b"btime ").unwrap_or(0);
        Kernel { mount: mount.into(), booted: booted.saturating_mul(1000) }
    }
}

impl Default for Kernel {
    fn default() -> Kernel {
        Kernel::new()
    }
}

impl World for Kernel {
    fn pids(&self) -> Vec<u32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    fn file(&self, pid: u32, file: File) -> Option<Vec<u8>> {
        let name = match file {
            File::Stat => "stat",
            File::Status => "status",
            File::Groups => "cgroup",
        };
        read_whole(format!("/proc/{pid}/{name}")).ok()
    }

    fn may_read(&self, pid: u32) -> bool {
        fs::read_link(format!("/proc/{pid}/exe")).is_ok()
    }

    fn counters(&self, pid: u32, places: &[Place]) -> Vec<Counters> {
        if places.is_empty() {
            return Vec::new();
        }
        let Ok(remote) = Remote::open(pid) else { return Vec::new() };
        places.iter().filter_map(|place| place.read(&remote)).collect()
    }

    fn group(&self, listed: &str) -> Charged {
        let listed = from_the_root(listed, |path| {
            ["", "/unified", "/memory"]
                .iter()
                .any(|folder| fs::metadata(format!("{}{folder}{path}", self.mount)).is_ok())
        });
        let groups = Groups::new(&listed, &self.mount);
        let anonymous = groups.of(Controller::Memory).next().and_then(|group| {
            let mut text = [0; 8192];
            let stat = group.read("memory.stat", &mut text).ok()?;
            // The root of version 1 counts only itself, and has the sum of all under another name.
            line_number(stat, if group.is_v2 { b"anon " } else { b"total_rss " })
        });
        Charged { anonymous, quota_milli: quota(groups).ok().flatten().map(|limit| limit.value) }
    }

    fn time(&self) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |since| since.as_millis() as u64)
    }

    fn booted(&self) -> u64 {
        self.booted
    }
}
