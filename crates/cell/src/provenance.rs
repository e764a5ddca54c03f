//! The origin of a number: the build and the host. In: the variables of build.rs, and /proc. Out: a value in every row.

use std::fs;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use allocanary_kernel::sys::{first_number, line_number, page_bytes};

/// The build and the host behind a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The program that measured.
    pub build: Build,
    /// The machine on which it ran.
    pub host: Host,
}

impl Provenance {
    /// The provenance of this process.
    pub fn here() -> Self {
        Provenance { build: Build::this(), host: Host::this() }
    }
}

/// The package of the command and of its cells.
pub const PACKAGE: &str = "allocanary";

/// The hash over sources, compiler and profile of this build, [`Build::id`].
pub const BUILD: &str = env!("ALLOCANARY_BUILD");

static REVISION: OnceLock<&str> = OnceLock::new();

/// Says the git revision of this program, once, before its first row. A binary knows it, and no library: see the crate
/// `allocanary-revision`.
pub fn built_from(revision: &'static str) {
    let _ = REVISION.set(revision);
}

/// A build of allocanary, or of an outside cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The package: `allocanary`.
    pub package: String,
    /// The package's version.
    pub version: String,
    /// The git revision, with `-dirty` if the tree differed from it; `unknown` where the program has not said it ([`built_from`]).
    pub revision: String,
    /// A hash over sources, compiler and profile. Two builds have the same hash only if all of these are equal.
    pub id: String,
    /// The compiler's version line.
    pub rustc: String,
    /// The cargo profile.
    pub profile: String,
    /// The features of the package, separated by commas, if known. Builds of allocanary had them until it was split
    /// into crates.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub features: String,
    /// The target triple.
    pub target: String,
}

impl Build {
    /// This build.
    pub fn this() -> Self {
        Build {
            package: PACKAGE.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            revision: REVISION.get().copied().unwrap_or("unknown").into(),
            id: BUILD.into(),
            rustc: env!("ALLOCANARY_RUSTC").into(),
            profile: env!("ALLOCANARY_PROFILE").into(),
            features: String::new(),
            target: env!("ALLOCANARY_TARGET").into(),
        }
    }

    /// A build of another package with this library: an outside cell, identified by its own package and version.
    pub fn of_package(package: &str, version: &str) -> Self {
        Build { package: package.into(), version: version.into(), ..Build::this() }
    }

    /// Whether this is a cross build.
    pub fn is_cross(&self) -> bool {
        self.target != env!("ALLOCANARY_HOST")
    }
}

/// The properties of the machine that affect memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The kernel's release.
    pub kernel: String,
    /// The CPU's model.
    pub cpu: String,
    /// CPUs that are online.
    pub cores: u32,
    /// CPUs on which this process may run.
    pub affinity: u32,
    /// `available_parallelism` of std: the available CPUs. A container's quota counts, rounded down.
    pub parallelism: u32,
    /// Total memory, in bytes.
    pub memory_bytes: u64,
    /// Size of a page, in bytes.
    pub page_bytes: u64,
    /// The mode of transparent huge pages: always, madvise or never.
    pub thp: String,
}

impl Host {
    /// This machine.
    pub fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let first_line = |path| read(path).lines().next().unwrap_or("unknown").trim().to_string();
        let status = read("/proc/self/status");
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let model = read("/proc/cpuinfo");
        let model = model.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let thp = read("/sys/kernel/mm/transparent_hugepage/enabled");
        let thp = thp.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        Host {
            name: first_line("/proc/sys/kernel/hostname"),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            cpu: model.map_or("unknown", |(_, name)| name).to_string(),
            cores: count_list(&read("/sys/devices/system/cpu/online")),
            affinity: count_list(allowed.unwrap_or_default()),
            parallelism: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
            memory_bytes: line_number(read("/proc/meminfo").as_bytes(), b"MemTotal:").unwrap_or(0) * 1024,
            page_bytes: page_bytes(),
            thp: thp.map_or("unknown", |(mode, _)| mode).to_string(),
        }
    }
}

/// How many numbers a kernel list such as `0-3,8` contains; at least 1.
fn count_list(list: &str) -> u32 {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first_number(first.as_bytes())?, first_number(last.as_bytes())?);
        Some(last.checked_sub(first)? as u32 + 1)
    };
    list.split(',').filter_map(count).sum::<u32>().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lists_are_counted() {
        for (list, count) in [("0-3,8\n", 5), ("0", 1), ("\t0-1", 2), ("", 1), ("3-1", 1)] {
            assert_eq!(count_list(list), count, "{list:?}");
        }
    }

    #[test]
    fn this_host_and_build_are_known() {
        let here = Provenance::here();
        assert!(here.host.memory_bytes > 1 << 20 && here.host.page_bytes >= 4096);
        assert!(here.host.affinity <= here.host.cores);
        assert_eq!(here.build.id.len(), 16);
        assert!(here.build.rustc.starts_with("rustc "));
    }
}
