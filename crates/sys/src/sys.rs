//! System calls, and files of the kernel, without allocation: numbers and texts are on the caller's stack.

mod at_exit;
mod carried;
mod children;
mod columns;
mod huge_pages;
mod kills;
mod lock;
mod long_files;
mod shared_page;
mod signals;
mod whole;

pub use at_exit::AtExit;
pub use carried::Carried;
pub use children::{Watched, adopt_orphans, go_on, prepare, reap, signal, stopped_for_terminal};
pub use columns::columns;
pub use huge_pages::{HugePagePolicy, HugePages, may_have_unadvised};
pub use kills::{memory_kills, memory_limit};
pub use lock::try_lock;
pub use long_files::{longest_file, survive_long_files, without_write_signals};
pub use signals::{HeldSignal, HeldSignals, asks_to_end, hold_signals, keep_signals, pass_signals_on};
pub use whole::{read_whole, read_whole_of};

use std::ffi::CStr;
use std::fs::File;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::FromRawFd;

/// Reads the beginning of `path` into `buffer`; `None` if it cannot be read.
#[inline]
pub fn read_into<'a>(path: &str, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    try_read_into(path, buffer).ok()
}

/// As [`read_into`], with the system's error.
///
/// Does not allocate: std opens paths under 384 bytes from the stack, and /proc returns a file in one read.
#[inline]
pub fn try_read_into<'a>(path: &str, buffer: &'a mut [u8]) -> std::io::Result<&'a [u8]> {
    let length = read_from(File::open(path)?, buffer)?;
    Ok(&buffer[..length])
}

/// Reads the beginning of `file` into `buffer`. Returns the number of bytes.
pub(crate) fn read_from(mut file: File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Opens a file to read it. Never allocates; std allocates for paths of 384 bytes or more.
pub(crate) fn open(path: &CStr) -> std::io::Result<File> {
    // SAFETY: the path ends in NUL.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: a descriptor that is open, and nobody else's.
    Ok(unsafe { File::from_raw_fd(file) })
}

/// Reads the beginning of `path` into `buffer` with three system calls. Returns the number of bytes; 0 if it cannot be read. For code at
/// the start of a process: std's functions load 64 KiB more of the program's file.
#[inline]
pub fn read_once(path: &CStr, buffer: &mut [u8]) -> usize {
    // SAFETY: the path ends in NUL, and the kernel writes at most the buffer's length into it.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return 0;
        }
        let length = libc::read(file, buffer.as_mut_ptr().cast(), buffer.len());
        libc::close(file);
        usize::try_from(length).unwrap_or(0)
    }
}

/// The number in the line of `text` that begins with `key`, as in `VmRSS:      1234 kB`.
pub fn line_number(text: &[u8], key: &[u8]) -> Option<u64> {
    text.split(|byte| *byte == b'\n').find_map(|line| first_number(line.strip_prefix(key)?))
}

/// The number of this process's resident pages without a file (RssAnon), read with three system calls; 0 if they cannot be read. This takes
/// a tenth of the time of `/proc/self/status`.
pub fn anonymous_pages() -> u64 {
    let mut text = [0; 128];
    let length = read_once(c"/proc/self/statm", &mut text);
    anonymous_of(&text[..length])
}

/// The second number of `statm` (resident pages) minus the third (pages of files and shared memory).
fn anonymous_of(statm: &[u8]) -> u64 {
    let mut numbers = statm.split(|byte| *byte == b' ').skip(1).map(|word| first_number(word).unwrap_or(0));
    let (resident, of_files) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    resident.saturating_sub(of_files)
}

/// The first run of digits in `text`, as a number.
pub fn first_number(text: &[u8]) -> Option<u64> {
    let start = text.iter().position(u8::is_ascii_digit)?;
    let digits = text[start..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.copied().try_fold(0_u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// The resources that this process has used, from getrusage.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceUsage {
    /// Page faults without a disk read.
    pub minor_faults: u64,
    /// Page faults with a disk read.
    pub major_faults: u64,
    /// Processor time in the program, in microseconds.
    pub user_us: u64,
    /// Processor time in the kernel for the program, in microseconds.
    pub system_us: u64,
    /// Context switches, voluntary and not.
    pub switches: u64,
    /// The most resident memory of one process, in bytes. Linux keeps this maximum when a process calls exec. So for a child it is at least
    /// the memory that the fork copied from its parent.
    pub most_rss: u64,
}

impl ResourceUsage {
    fn of(usage: &libc::rusage) -> ResourceUsage {
        let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        ResourceUsage {
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            user_us: micros(usage.ru_utime),
            system_us: micros(usage.ru_stime),
            switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
            most_rss: usage.ru_maxrss as u64 * 1024,
        }
    }
}

/// The usage of all threads of this process so far.
pub fn usage() -> ResourceUsage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a whole rusage, which all-zero bytes are a valid value of.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    ResourceUsage::of(&usage)
}

/// The number of CPUs that the affinity mask allows for this process; at least 1.
pub fn affinity() -> u32 {
    affinity_of(0)
}

/// As [`affinity`], for another process; 0 is this one. Returns 1 if the mask cannot be read.
pub fn affinity_of(pid: u32) -> u32 {
    // Room for 8192 CPUs, more than any kernel is built for. With a mask shorter than the kernel's, the call fails (EINVAL).
    let mut mask = [0_u64; 128];
    // SAFETY: the kernel writes at most the size that we give, into memory that is ours.
    let written = unsafe { libc::syscall(libc::SYS_sched_getaffinity, pid, size_of_val(&mask), mask.as_mut_ptr()) };
    if written <= 0 {
        return 1;
    }
    mask.iter().map(|word| word.count_ones()).sum::<u32>().max(1)
}

/// Allocates disk blocks for the first `bytes` bytes of `file`, and makes the file that long if it is shorter. Without
/// blocks, a write to a mapped file on a full disk causes a signal, not an error.
pub fn allocate_blocks(file: &File, bytes: u64) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let length = libc::off_t::try_from(bytes).map_err(|_| std::io::ErrorKind::FileTooLarge)?;
    // A file longer than this process may write (`ulimit -f`) would make the kernel end the process by a signal.
    if bytes > longest_file() {
        return Err(std::io::Error::from_raw_os_error(libc::EFBIG));
    }
    loop {
        // SAFETY: the descriptor is the file's, which is borrowed meanwhile.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
            0 => return Ok(()),
            libc::EINTR => {}
            error => return Err(std::io::Error::from_raw_os_error(error)),
        }
    }
}

/// Whether `folder` is on a tmpfs, so that its files are in memory.
pub fn is_memory(folder: &std::path::Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else { return false };
    let mut found = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the path ends in a zero, the pointer is to a whole statfs, and all zeros are one.
    let (known, found) = unsafe { (libc::statfs(path.as_ptr(), found.as_mut_ptr()) == 0, found.assume_init()) };
    // The sign of this type differs between C libraries.
    known && found.f_type as u64 == libc::TMPFS_MAGIC as u64
}

/// The size of a page in bytes.
pub fn page_bytes() -> u64 {
    // SAFETY: sysconf reads a constant.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// Asks the kernel to kill this process when its parent dies, so that no cell outlives its study.
pub fn die_with_parent() {
    // SAFETY: sets one attribute of this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// An environment variable, for code that runs before `main` and must not allocate. `None` in a program that runs with more rights than its
/// user (set-user-id), as in jemalloc.
///
/// # Safety
///
/// No thread changes the environment while the text is used. Before `main` this is so.
#[inline]
pub unsafe fn variable<'a>(name: &CStr) -> Option<&'a [u8]> {
    // SAFETY: the name ends in NUL, and the caller promises that the text stays.
    unsafe {
        let text = libc::getenv(name.as_ptr());
        if text.is_null() || libc::getauxval(libc::AT_SECURE) != 0 {
            None
        } else {
            Some(CStr::from_ptr(text).to_bytes())
        }
    }
}

/// Zeroed memory from the kernel, `length` bytes, for code that must not call the allocator; `None` if there is none.
pub fn map_zeroed(length: usize) -> Option<std::ptr::NonNull<u8>> {
    // SAFETY: a new private mapping, of no file, where the kernel likes.
    let start = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    if start == libc::MAP_FAILED { None } else { std::ptr::NonNull::new(start.cast()) }
}

/// Gives the memory of [`map_zeroed`] back to the kernel.
///
/// # Safety
///
/// The memory is from `map_zeroed` with that length, and nobody uses it any more.
pub unsafe fn unmap(start: std::ptr::NonNull<u8>, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(start.as_ptr().cast(), length) };
}

/// Kills every process of the group that `leader` leads. Does nothing for 0 and 1: to the kernel these mean the
/// caller's own group and every process.
pub fn kill_group(leader: u32) {
    if let Some(leader) = i32::try_from(leader).ok().filter(|leader| *leader > 1) {
        // SAFETY: sends a signal. If the group has ended, the call returns an error and changes nothing.
        unsafe { libc::kill(-leader, libc::SIGKILL) };
    }
}

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    fn gnu_get_libc_version() -> *const std::ffi::c_char;
}

/// The version of the glibc of this process: `2.36`.
#[cfg(target_env = "gnu")]
#[inline]
pub fn glibc_version() -> &'static str {
    // SAFETY: gives a static string that ends in NUL.
    unsafe { std::ffi::CStr::from_ptr(gnu_get_libc_version()) }.to_str().unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_lines() {
        let text = b"Name:\tcat\nVmRSS:\t    1234 kB\nThreads:\t7\n";
        assert_eq!(line_number(text, b"VmRSS:"), Some(1234));
        assert_eq!(line_number(text, b"Threads:"), Some(7));
        assert_eq!(line_number(text, b"VmHWM:"), None);
        assert_eq!(first_number(b"max"), None);
        assert_eq!(first_number(b"99999999999999999999999"), None);
    }

    #[test]
    fn pages_of_files_and_shared_memory_are_not_anonymous() {
        assert_eq!(anonymous_of(b"9000 700 120 1 0 800 0\n"), 580);
        assert_eq!(anonymous_of(b""), 0);
        assert!(anonymous_pages() > 0);
    }

    #[test]
    fn a_missing_file_is_none_and_a_long_one_is_cut() {
        let mut buffer = [0; 8];
        assert_eq!(read_into("/proc/no-such-file", &mut buffer), None);
        assert_eq!(read_into("/proc/self/status", &mut buffer).map(<[u8]>::len), Some(8));
        assert_eq!(
            (read_once(c"/proc/no-such-file", &mut buffer), read_once(c"/proc/self/status", &mut buffer)),
            (0, 8)
        );
    }

    #[test]
    fn neither_the_own_group_nor_every_process_is_killed() {
        kill_group(0);
        kill_group(1);
        kill_group(u32::MAX); // -1 as a signed number
    }

    #[test]
    fn usage_rises_with_pages_touched() {
        // Directly from the kernel: another test may have touched the memory of an allocator.
        let length = 64 * page_bytes() as usize;
        let start = map_zeroed(length).expect("64 pages");
        let before = usage().minor_faults;
        // SAFETY: as long as it was mapped, and nobody else has it.
        unsafe { start.write_bytes(1, length) };
        assert!(usage().minor_faults > before);
        // SAFETY: it is of that length, and not used any more.
        unsafe { unmap(start, length) };
        assert!(page_bytes().is_power_of_two());
    }
}
