//! The source of all that the agent reads: the kernel, or a test.

use std::fs;
use std::path::Path;

use allocanary_sys::cgroups::{ControlGroups, Controller, MOUNT};
use allocanary_sys::container::quota;
use allocanary_sys::input;
use allocanary_sys::proc::files::{ProcEntry, own_path, path};
use allocanary_sys::proc::{ProcStatus, Stat, hidden, pids, stat};
use allocanary_sys::sys::{line_number, read_whole};

use crate::group::{Membership, down_to_own, from_the_root};

/// The facts that the agent asks for.
pub trait World {
    /// The PIDs of all processes.
    fn pids(&self) -> Vec<u32>;

    /// Who a process is. `None` if the process has ended.
    fn stat(&self, pid: u32) -> Option<Stat>;

    /// Its memory. `None` if the process has ended.
    fn status(&self, pid: u32) -> Option<ProcStatus>;

    /// The control groups that it belongs to, as the kernel lists them. `None` if the process has ended.
    fn groups(&self, pid: u32) -> Option<String>;

    /// The memory that the kernel charges to the group in such a list, and its CPU quota.
    fn group(&self, listed: &str) -> Charged;

    /// What cannot be seen from here, one sentence each.
    fn problems(&self) -> Vec<String>;

    /// The mount option that hides processes of other users, such as `hidepid=invisible`. `None` if none does.
    fn hides_by(&self) -> Option<String>;

    /// The time now, in milliseconds since 1970.
    fn time(&self) -> u64;

    /// When the machine was started, in milliseconds since 1970. It is the same at each call, so that the start time of a process does not
    /// change.
    fn booted(&self) -> u64;

    /// The kernel's ID of this boot. Empty if the kernel tells none.
    fn boot(&self) -> String;
}

/// What the kernel charges to a control group, and its quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// Anonymous bytes, if they are known. The root group has none: its bytes are those of the whole node.
    pub anonymous: Option<u64>,
    /// The CPU quota, if it is known.
    pub quota: Option<Quota>,
}

/// A CPU quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Quota {
    /// Thousandths of a processor.
    Milli(u64),
    /// No quota is set.
    None,
}

impl Charged {
    /// The quota in thousandths of a processor, if one is set.
    pub fn quota_milli(&self) -> Option<u64> {
        match self.quota {
            Some(Quota::Milli(milli)) => Some(milli),
            _ => None,
        }
    }
}

/// The kernel of this machine.
#[derive(Clone, Debug)]
pub struct HostKernel {
    /// Where the host's control groups are mounted, if that is known.
    mount: Option<String>,
    /// Whether this process has a name space of control groups of its own: then `/` is its own group, and not the host's root.
    is_apart: bool,
    booted: u64,
    /// Whether it sees only the processes of its own pod.
    is_alone: bool,
}

/// The host's control groups, as the first process sees them. An agent in a container has a view of its own.
const OF_HOST: &str = "/proc/1/root/sys/fs/cgroup";
/// The first name space of control groups, which each kernel begins with.
const FIRST: &str = "cgroup:[4026531835]";
/// The first name space of process IDs, which each kernel begins with.
const FIRST_OF_PIDS: &str = "pid:[4026531836]";

impl HostKernel {
    /// Finds the host's mount of control groups. If the first process may not be asked, this process' own mount is used, unless that
    /// belongs to a name space of its own.
    pub fn new() -> HostKernel {
        let space = |path: String| fs::read_link(path).ok();
        let is_apart = match (space(own_path(ProcEntry::CgroupSpace)), space(path(1, ProcEntry::CgroupSpace))) {
            (Some(own), Some(first)) => own != first,
            (Some(own), None) => own.as_os_str() != FIRST,
            // The kernel has no name spaces of control groups.
            (None, _) => false,
        };
        let booted = stat::booted(&read_whole("/proc/stat").unwrap_or_default()).unwrap_or(0);
        let of_host = fs::read_dir(OF_HOST).is_ok().then_some(OF_HOST);
        HostKernel {
            mount: of_host.or((!is_apart).then_some(MOUNT)).map(String::from),
            is_apart,
            booted: booted.saturating_mul(1000),
            is_alone: is_alone(
                space(own_path(ProcEntry::PidSpace)).is_none_or(|own| own.as_os_str() == FIRST_OF_PIDS),
                std::process::id(),
                read_whole(own_path(ProcEntry::Cgroup)).ok().zip(read_whole(path(1, ProcEntry::Cgroup)).ok()),
            ),
        }
    }
}

/// Whether the first process of the name space belongs to the agent's own pod. On a host it does not. On a node that is itself a container
/// it does not either, since its first process has a control group of its own. `groups` are those of the agent and of the first process.
fn is_alone(is_first_space: bool, pid: u32, groups: Option<(Vec<u8>, Vec<u8>)>) -> bool {
    let place = |listed: &[u8]| Membership::parse(&String::from_utf8_lossy(listed));
    let is_same = |(own, first): (Vec<u8>, Vec<u8>)| match (place(&own).pod, place(&first).pod) {
        (None, None) => place(&own) == place(&first),
        (own, first) => own == first,
    };
    !is_first_space && (pid == 1 || groups.is_some_and(is_same))
}

impl Default for HostKernel {
    fn default() -> HostKernel {
        HostKernel::new()
    }
}

impl World for HostKernel {
    fn pids(&self) -> Vec<u32> {
        pids::pids()
    }

    fn stat(&self, pid: u32) -> Option<Stat> {
        Stat::of(pid).ok()
    }

    fn status(&self, pid: u32) -> Option<ProcStatus> {
        ProcStatus::of(pid).ok()
    }

    fn groups(&self, pid: u32) -> Option<String> {
        let text = read_whole(path(pid, ProcEntry::Cgroup)).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    fn group(&self, listed: &str) -> Charged {
        let Some(mount) = &self.mount else { return Charged::default() };
        let exists = |path: &str| {
            ["", "/unified", "/memory"].iter().any(|folder| fs::metadata(format!("{mount}{folder}{path}")).is_ok())
        };
        let listed = from_the_root(&down_to_own(listed), exists);
        // Only groups that exist: for a missing one, a folder above it would answer, which may be another container's.
        let there: Vec<&str> = listed.lines().filter(|line| is_there(line, mount)).collect();
        let there = there.join("\n");
        let groups = ControlGroups::new(&there, mount);
        let anonymous = groups.of(Controller::Memory).next().and_then(|group| {
            let mut text = [0; 8192];
            let stat = group.read("memory.stat", &mut text).ok()?;
            // In version 1 this count covers only the group itself. The sum with all groups below has another name.
            line_number(stat, if group.is_v2 { b"anon " } else { b"total_rss " })
        });
        let set = quota(groups).ok().flatten().map(|limit| Quota::Milli(limit.value));
        Charged { anonymous, quota: set.or(self.knows_cpu(&listed, &there).then_some(Quota::None)) }
    }

    fn problems(&self) -> Vec<String> {
        let no_groups = self.mount.is_none().then(|| {
            format!(
                "charged bytes and CPU quotas are not known: {OF_HOST} may not be read. Wanted: CAP_SYS_PTRACE, and no profile of \
                 AppArmor that forbids it (Unconfined)"
            )
        });
        let alone = self.is_alone.then(|| {
            "only the processes of the agent's own pod are seen, and those of the node are in no figure. Wanted: the host's process IDs \
             (hostPID: true)"
                .to_string()
        });
        alone.into_iter().chain(no_groups).collect()
    }

    fn hides_by(&self) -> Option<String> {
        hidden::hides_by().ok().flatten()
    }

    fn time(&self) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |since| since.as_millis() as u64)
    }

    fn booted(&self) -> u64 {
        self.booted
    }

    fn boot(&self) -> String {
        input::text(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default().trim().to_string()
    }
}

impl HostKernel {
    /// Whether the group that limits processors was found, or is the root, which has no limit.
    fn knows_cpu(&self, listed: &str, there: &str) -> bool {
        let of_cpu = |line: &&str| line.split(':').nth(1).is_some_and(|all| all.split(',').any(|one| one == "cpu"));
        let of_version_2 = |line: &&str| line.split(':').nth(1) == Some("");
        let line = listed.lines().find(of_cpu).or_else(|| listed.lines().find(of_version_2));
        let is_root = |line: &str| line.ends_with(":/") && !self.is_apart;
        line.is_some_and(|line| is_root(line) || there.lines().any(|one| one == line))
    }
}

/// Whether the group in this line exists, and is not the root.
fn is_there(line: &str, mount: &str) -> bool {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { return false };
    let folders: Vec<&str> = match controllers {
        "" => vec!["", "unified"],
        all => std::iter::once(all).chain(all.split(',')).collect(),
    };
    path != "/" && folders.into_iter().any(|folder| fs::metadata(format!("{mount}/{folder}{path}")).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mount with groups of version 2, each with its `memory.stat` and `cpu.max`.
    fn mount(groups: &[(&str, u64, &str)]) -> tempfile::TempDir {
        let mount = tempfile::tempdir().unwrap();
        for (path, anonymous, quota) in groups {
            let folder = mount.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("memory.stat"), format!("anon {anonymous}\nfile 1\n")).unwrap();
            fs::write(folder.join("cpu.max"), quota).unwrap();
        }
        mount
    }

    fn kernel(mount: Option<&tempfile::TempDir>, is_apart: bool) -> HostKernel {
        HostKernel {
            mount: mount.map(|mount| mount.path().to_str().unwrap().into()),
            is_apart,
            booted: 0,
            is_alone: false,
        }
    }

    #[test]
    fn a_group_below_a_container_is_charged_as_the_container() {
        let own = format!("/kubepods/pod{}/{}", "ab".repeat(16), "cd".repeat(32));
        let below = format!("{own}/worker");
        let mount = mount(&[("/", 999, "max 100000"), (&own, 50, "50000 100000"), (&below, 7, "max 100000")]);
        let told = kernel(Some(&mount), false).group(&format!("0::{below}\n"));
        assert_eq!(told, Charged { anonymous: Some(50), quota: Some(Quota::Milli(500)) });
    }

    #[test]
    fn the_root_is_not_charged_with_the_node_and_a_group_that_is_not_there_not_with_one_above() {
        let mount = mount(&[("/", 999, "50000 100000"), ("/a.slice/x.service", 5, "max 100000")]);
        let told = |is_apart, listed: &str| kernel(Some(&mount), is_apart).group(listed);
        assert_eq!(told(false, "0::/\n"), Charged { anonymous: None, quota: Some(Quota::None) });
        assert_eq!(told(true, "0::/\n"), Charged::default(), "its own group, of which the host's name is not known");
        assert_eq!(told(false, "0::/kubepods/gone\n"), Charged::default());
        assert_eq!(told(true, "0::/../x.service\n"), Charged::default());
        let unit = Charged { anonymous: Some(5), quota: Some(Quota::Milli(500)) };
        assert_eq!(told(false, "0::/a.slice/x.service\n"), unit, "the quota of a folder above holds for it");
    }

    #[test]
    fn an_agent_that_sees_its_own_pod_alone_is_told_from_one_on_a_node() {
        let pod = |pod: &str, id: &str| format!("0::/kubepods/pod{}/{}\n", pod.repeat(16), id.repeat(32)).into_bytes();
        let with = |own: &str, first: &str| Some((own.as_bytes().to_vec(), first.as_bytes().to_vec()));
        assert!(!is_alone(true, 700, with("0::/\n", "0::/\n")), "a host without units");
        assert!(is_alone(false, 1, None), "the only process of its container");
        assert!(is_alone(false, 7, Some((pod("ab", "cd"), pod("ab", "ef")))), "a pod that shares its processes");
        assert!(is_alone(false, 7, with("0::/\n", "0::/\n")), "it sees no groups but its own");
        assert!(
            !is_alone(false, 700, Some((pod("ab", "cd"), b"0::/init.scope\n".to_vec()))),
            "a node that is a container"
        );
        let alone = HostKernel { is_alone: true, ..kernel(None, false) };
        assert!(alone.problems()[0].contains("hostPID: true"));
    }

    #[test]
    fn without_the_hosts_groups_nothing_is_known_and_that_is_told() {
        let kernel = kernel(None, true);
        assert_eq!(kernel.group("0::/kubepods/x\n"), Charged::default());
        assert!(kernel.problems()[0].contains("CAP_SYS_PTRACE"));
    }
}
