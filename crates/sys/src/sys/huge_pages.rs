//! Transparent huge pages: what this host gives, what a process may get, and how its parent can limit them.
//!
//! `prctl(PR_SET_THP_DISABLE)` survives fork and exec. So it reaches every program, static ones and those of Go too.

use crate::proc::maps::MapsEntry;
use crate::proc::smaps;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The flag of Linux 6.18 that still allows advised huge pages; the crate libc does not have it yet.
const EXCEPT_ADVISED: i64 = 1 << 1;

/// The huge pages that a process may get, if they are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// None.
    Never,
    /// Only in memory for which the program advised them (`MADV_HUGEPAGE`).
    Advised,
}

impl HugePages {
    /// The limit with this name in settings.
    pub fn named(name: &str) -> Option<HugePages> {
        [HugePages::Never, HugePages::Advised].into_iter().find(|limit| limit.name() == name)
    }

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            HugePages::Never => "never",
            HugePages::Advised => "advised",
        }
    }

    /// Limits the huge pages of the calling process, and of the programs that it becomes and starts. It makes one system call and nothing
    /// else, so it may be called between fork and exec.
    pub fn limit(self) -> io::Result<()> {
        let [call, option, on, flags, ..] = self.system_call();
        // SAFETY: sets one attribute of this process.
        match unsafe { libc::syscall(call, option, on, flags, 0_i64, 0_i64) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The number of the system call and its arguments, for a program of the user that makes this call.
    pub const fn system_call(self) -> [i64; 6] {
        let flags = match self {
            HugePages::Never => 0,
            HugePages::Advised => EXCEPT_ADVISED,
        };
        [libc::SYS_prctl, libc::PR_SET_THP_DISABLE as i64, 1, flags, 0, 0]
    }

    /// Whether this kernel supports the limit. A child of this process tries it, and does not exec.
    pub fn can_be_limited(self) -> io::Result<()> {
        /// The child's answer if the call succeeded. It is an error, so that the child does not exec.
        const DONE: i32 = libc::ECANCELED;
        let mut command = Command::new("/proc/self/exe");
        let attempt = move || self.limit().and(Err(io::Error::from_raw_os_error(DONE)));
        // SAFETY: between fork and exec it makes one system call, and allocates nothing: an error of the system is a number.
        unsafe { command.pre_exec(attempt) };
        match command.spawn() {
            Err(error) if error.raw_os_error() == Some(DONE) => Ok(()),
            Err(error) => Err(error),
            Ok(mut child) => child.wait().and(Err(io::Error::other("the child did not try it"))),
        }
    }
}

/// The huge pages that the kernel gives to processes without a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HugePagePolicy {
    /// Huge pages in any memory.
    pub always: bool,
    /// Huge pages in memory for which the program advised them.
    pub advised: bool,
}

impl HugePagePolicy {
    /// Reads what this host gives.
    pub fn here() -> HugePagePolicy {
        const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let sizes = fs::read_dir(FOLDER).into_iter().flatten().flatten();
        let sizes: Vec<String> = sizes
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("hugepages-"))
            .map(|entry| read(&entry.path().join("enabled").to_string_lossy()))
            .collect();
        HugePagePolicy::of(&read(&format!("{FOLDER}/enabled")), &sizes)
    }

    /// Computes it from the switch for all sizes, and from the switches of each size, which Linux has since 6.8.
    fn of(all: &str, sizes: &[String]) -> HugePagePolicy {
        let mode = |text: &str| -> String {
            let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            inside.map_or(String::new(), |(mode, _)| mode.to_string())
        };
        let all = mode(all);
        let one = |size: &String| match mode(size).as_str() {
            "inherit" => all.clone(),
            other => other.to_string(),
        };
        let modes: Vec<String> = if sizes.is_empty() { vec![all] } else { sizes.iter().map(one).collect() };
        let always = modes.iter().any(|mode| mode == "always");
        HugePagePolicy { always, advised: always || modes.iter().any(|mode| mode == "madvise") }
    }
}

/// Whether the kernel may give huge pages to memory for which the process did not advise them, from the text of its `smaps`. `None` if the
/// process has no such memory that is large enough, or before Linux 5.0.
pub fn may_have_unadvised(smaps: &[u8]) -> Option<bool> {
    let all = smaps::parse(smaps).into_iter();
    let unadvised = all.filter(|(line, counts)| is_large_heap(line) && !counts.is_advised && !counts.is_refused);
    unadvised.filter_map(|(_, counts)| counts.may_have_huge_pages).reduce(|one, other| one || other)
}

/// Whether a mapping is writable memory without a file, and so large that it contains a whole huge page at any alignment.
fn is_large_heap(line: &MapsEntry) -> bool {
    const LARGE: u64 = 4 << 20;
    let is_heap = line.readable && line.writable && !line.executable && !line.shared && line.inode == 0;
    line.to - line.from >= LARGE && is_heap && matches!(line.name, b"" | b"[heap]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::ProcStatus;

    #[test]
    fn each_size_has_a_switch_of_its_own_and_may_follow_that_of_all() {
        let given = |all: &str, sizes: &[&str]| {
            let sizes: Vec<String> = sizes.iter().map(|size| size.to_string()).collect();
            let found = HugePagePolicy::of(all, &sizes);
            (found.always, found.advised)
        };
        assert_eq!(given("[always] madvise never", &[]), (true, true));
        assert_eq!(given("always [madvise] never", &[]), (false, true));
        assert_eq!(given("always madvise [never]", &[]), (false, false));
        assert_eq!(given("", &[]), (false, false), "a kernel without huge pages");
        let inherits = "always [inherit] madvise never";
        let never = "always inherit madvise [never]";
        assert_eq!(given("[always] madvise never", &[never, inherits]), (true, true));
        assert_eq!(given("[always] madvise never", &[never]), (false, false));
        assert_eq!(given("always madvise [never]", &["[always] inherit madvise never", inherits]), (true, true));
    }

    #[test]
    fn a_child_that_was_limited_says_so_after_its_exec_and_this_process_is_not() {
        let status = |limit: bool| {
            let mut command = Command::new("cat");
            command.arg("/proc/self/status");
            if limit {
                // SAFETY: one system call.
                unsafe { command.pre_exec(|| HugePages::Never.limit()) };
            }
            ProcStatus::parse(&command.output().unwrap().stdout).may_have_huge_pages
        };
        let before = status(false);
        HugePages::Never.can_be_limited().unwrap();
        assert_eq!(status(false), before, "trying it limits nobody");
        assert_eq!(status(true), before.map(|_| false));
    }

    #[test]
    fn memory_without_advice_decides_if_it_is_large() {
        let mapping = |header: &str, eligible: u32, flags: &str| {
            format!("{header}\nSize: 1 kB\nRss: 1 kB\nTHPeligible:    {eligible}\nVmFlags: rd wr {flags}\n")
        };
        let heap = |eligible, flags| mapping("7f0000000000-7f0000800000 rw-p 00000000 00:00 0 ", eligible, flags);
        let small = mapping("7f1000000000-7f1000001000 rw-p 00000000 00:00 0 ", 1, "mr");
        let file = mapping("7f2000000000-7f2000800000 rw-p 00000000 08:01 77 /lib/x", 1, "mr");
        let stack = mapping("7f3000000000-7f3000800000 rw-p 00000000 00:00 0 [stack]", 1, "mr");
        assert_eq!(may_have_unadvised(format!("{small}{file}{stack}").as_bytes()), None);
        assert_eq!(may_have_unadvised(heap(1, "hg").as_bytes()), None, "it was advised");
        assert_eq!(may_have_unadvised(heap(0, "nh").as_bytes()), None, "the program refuses them itself");
        assert_eq!(may_have_unadvised(format!("{}{small}", heap(0, "mr")).as_bytes()), Some(false));
        assert_eq!(may_have_unadvised(format!("{}{}", heap(0, "mr"), heap(1, "mr")).as_bytes()), Some(true));
        let broken = mapping("556000000000-556000800000 rw-p 00000000 00:00 0    [heap]", 0, "mr");
        assert_eq!(may_have_unadvised(broken.as_bytes()), Some(false));
        let older = broken.replace("THPeligible:    0\n", "");
        assert_eq!(may_have_unadvised(older.as_bytes()), None, "a kernel before 5.0 does not say it");
    }
}
