//! Opens the files that a process names: a mapping, or a path below the process's root. No other code opens these. The result is a
//! descriptor of a regular file, the same file that the process has mapped.
//!
//! A process may name anything: a FIFO or a device, whose opening waits or has effects; a link to a file of root; a file that has replaced
//! the mapped one. So the path is first opened with `O_PATH`, which has no effect, then compared, and only then opened for reading. Use
//! `pread` to read the file, not `mmap`: if a mapped file is truncated, SIGBUS would end the reader.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use allocanary_sys::proc::{Mapping, maps};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, openat, openat2, statx};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::slow;

/// Identifies a file with its present content. If the file is written to, its times change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    /// The device of its file system: major and minor number.
    pub device: (u32, u32),
    /// The number of the file in its file system.
    pub inode: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The time of the last change of its data, in seconds and nanoseconds.
    pub modified: (i64, u32),
    /// The time of the last change of its data or attributes. A user can set the time of modification back, but not this
    /// time.
    pub changed: (i64, u32),
    /// Whether its file system answers at once.
    pub is_quick: bool,
}

/// An open file of a process.
#[derive(Debug)]
pub struct Opened {
    /// The descriptor. Use only `pread` to read it.
    pub file: File,
    /// The attributes of the file when it was opened.
    pub stamp: Stamp,
}

/// Opens the file of a mapping.
pub(crate) fn mapped(pid: u32, from: u64, to: u64) -> io::Result<Opened> {
    let place = by_range(pid, from, to).or_else(|_| by_name(pid, from, to))?;
    regular(pid, place)
}

/// Opens the program that a process runs, even if its file was removed.
pub(crate) fn executable(pid: u32) -> io::Result<Opened> {
    regular(pid, at(format!("/proc/{pid}/exe"), OFlags::empty())?)
}

/// Opens a file below the root of a process. Links are not followed: one that begins with `/` would lead out of the
/// root.
pub(crate) fn below_root(pid: u32, path: &str) -> io::Result<Opened> {
    regular(pid, place_below(&root(pid)?, path)?)
}

/// Opens a file of this host that a trace or a core names. Links are followed, because a trace has the paths of the dynamic loader, and
/// these have links: `/lib` is one on most systems, and so is `libjq.so.1`. Refusing links would gain nothing: whoever made the trace could
/// name the target of a link directly. Only links of `/proc` into other processes are refused.
pub fn named(path: &Path) -> io::Result<Opened> {
    let root = at("/", OFlags::DIRECTORY)?;
    let path = path.to_str().filter(|path| path.starts_with('/'));
    let path = path.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no absolute path"))?;
    regular(std::process::id(), followed(&root, path)?)
}

/// Looks up a path below a root, and follows links on the path.
fn followed(root: &OwnedFd, path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match opened_below(root, path, flags, ResolveFlags::empty()) {
        // Without `openat2`, only a path without links is safe: links of /proc lead into other processes.
        Err(Errno::NOSYS | Errno::PERM) => walked(root, path.trim_start_matches('/')),
        done => done?,
    }
}

/// Opens the debug file of a build in a folder of this host. Distributions put links there. If it has none, a debugger may have downloaded
/// the file before. This function downloads nothing.
pub fn debug(folder: &Path, build_id: &[u8]) -> io::Result<Opened> {
    debug_in(folder, debuginfod().as_deref(), build_id)
}

fn debug_in(folder: &Path, fetched: Option<&Path>, build_id: &[u8]) -> io::Result<Opened> {
    let (first, rest) = build_id.split_first().ok_or(io::ErrorKind::NotFound)?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let installed = of_host(&folder.join(format!(".build-id/{first:02x}/{rest}.debug")));
    installed.or_else(|error| match fetched {
        Some(cache) => of_host(&cache.join(format!("{first:02x}{rest}/debuginfo"))),
        None => Err(error),
    })
}

/// The folder in which debuginfod's clients keep what they have fetched.
fn debuginfod() -> Option<PathBuf> {
    let folder = |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    folder("DEBUGINFOD_CACHE_PATH")
        .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("debuginfod_client")))
        .or_else(|| Some(folder("HOME")?.join(".cache/debuginfod_client")))
}

/// Opens a regular file of this host by a path that the user has given, or the host's own.
pub fn of_host(path: &Path) -> io::Result<Opened> {
    regular(std::process::id(), at(path, OFlags::empty())?)
}

/// The text of a link below the root of a process. `None` if the path is not a link.
pub(crate) fn link_below_root(pid: u32, path: &str) -> io::Result<Option<String>> {
    // The link itself is not followed, but `/etc` may be one, within the root.
    let place = looked_up(&root(pid)?, path, ResolveFlags::empty())?;
    match rustix::fs::readlinkat(&place, c"", Vec::new()) {
        Ok(text) => Ok(Some(text.to_string_lossy().into_owned())),
        Err(_) => Ok(None),
    }
}

fn at(path: impl rustix::path::Arg, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty())?)
}

fn root(pid: u32) -> io::Result<OwnedFd> {
    at(format!("/proc/{pid}/root"), OFlags::DIRECTORY)
}

/// The file of a mapping, by the kernel's own link to it. This needs a capability.
fn by_range(pid: u32, from: u64, to: u64) -> io::Result<OwnedFd> {
    at(format!("/proc/{pid}/map_files/{from:x}-{to:x}"), OFlags::empty())
}

/// The file of a mapping, by its path below the process's root. Another file may have this path by now: its inode must be the one that the
/// kernel shows for the mapping. The kernel writes paths without links.
fn by_name(pid: u32, from: u64, to: u64) -> io::Result<OwnedFd> {
    let mapping = mapping(pid, from, to)?;
    let place = place_below(&root(pid)?, &mapping.name)?;
    if of(&place)?.stx_ino != mapping.inode {
        return Err(io::Error::new(io::ErrorKind::NotFound, "another file has its name"));
    }
    Ok(place)
}

/// The mapping with these addresses.
pub(crate) fn mapping(pid: u32, from: u64, to: u64) -> io::Result<Mapping> {
    let text = maps::read(pid)?;
    let line = maps::lines(&text).find(|line| (line.from, line.to) == (from, to));
    line.map(Mapping::from).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the mapping has ended"))
}

/// Looks up a path below a root. The path must have no links.
fn place_below(root: &OwnedFd, path: &str) -> io::Result<OwnedFd> {
    looked_up(root, path, ResolveFlags::NO_SYMLINKS)
}

fn looked_up(root: &OwnedFd, path: &str, more: ResolveFlags) -> io::Result<OwnedFd> {
    match opened_below(root, path, OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW, more) {
        Err(Errno::NOSYS | Errno::PERM) => walked(root, path.trim_start_matches('/')),
        done => done?,
    }
}

/// Looks up a path below a root with `openat2`. The outer error is that of the call itself: Linux before 5.6, or a container, does not know
/// the call.
fn opened_below(root: &OwnedFd, path: &str, flags: OFlags, more: ResolveFlags) -> Result<io::Result<OwnedFd>, Errno> {
    let path = path.trim_start_matches('/');
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | more;
    // Tries the kernel's cache first, which needs no answer of a file system.
    match openat2(root, path, flags, Mode::empty(), resolve | ResolveFlags::CACHED) {
        Err(Errno::AGAIN | Errno::INVAL) => Ok(slow::looked_up(root, path, flags, resolve)),
        Err(error @ (Errno::NOSYS | Errno::PERM)) => Err(error),
        done => Ok(done.map_err(io::Error::from)),
    }
}

/// Looks up a path without `openat2`, one component at a time.
fn walked(root: &OwnedFd, path: &str) -> io::Result<OwnedFd> {
    let mut found = root.try_clone()?;
    let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
    while let Some(part) = parts.next() {
        if matches!(part, "." | "..") {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "its path leads upwards"));
        }
        let is_folder = if parts.peek().is_some() { OFlags::DIRECTORY } else { OFlags::empty() };
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW | is_folder;
        found = openat(&found, part, flags, Mode::empty())?;
    }
    Ok(found)
}

/// The attributes of a file. A file system that does not answer is not asked: `STATX_DONT_SYNC` uses what the kernel knows.
fn stamp(pid: u32, place: impl AsFd) -> io::Result<Stamp> {
    let found = of(place)?;
    Ok(Stamp {
        is_quick: slow::is_quick(pid, (found.stx_dev_major, found.stx_dev_minor)),
        device: (found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        bytes: found.stx_size,
        modified: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
        changed: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
    })
}

fn of(place: impl AsFd) -> io::Result<rustix::fs::Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    Ok(statx(place, c"", flags, StatxFlags::BASIC_STATS)?)
}

/// Opens a file for reading, if it is a regular file. The process may have mounted its file system.
fn regular(pid: u32, place: OwnedFd) -> io::Result<Opened> {
    let mode = of(&place)?.stx_mode;
    if rustix::fs::FileType::from_raw_mode(mode.into()) != rustix::fs::FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let stamp = stamp(pid, &place)?;
    let file = if stamp.is_quick { reopened(&place)? } else { slow::reopened(&place, stamp.device)? };
    Ok(Opened { file, stamp })
}

/// Opens a file for reading. With `O_NONBLOCK`, another process's lease does not make this wait.
fn reopened(place: &OwnedFd) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?.into())
}

impl Opened {
    /// A file that this process has opened itself, for example one that the user has named.
    pub fn of(file: File) -> io::Result<Opened> {
        let stamp = stamp(std::process::id(), &file)?;
        Ok(Opened { file, stamp })
    }

    /// The first bytes of the file, at most `most`.
    pub fn head(&self, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; most.min(usize::try_from(self.stamp.bytes).unwrap_or(most))];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(&mut bytes[filled..], filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn folder() -> (tempfile::TempDir, OwnedFd) {
        let folder = tempfile::tempdir().unwrap();
        let root = at(folder.path(), OFlags::DIRECTORY).unwrap();
        (folder, root)
    }

    fn read(opened: &Opened) -> String {
        String::from_utf8(opened.head(1000).unwrap()).unwrap()
    }

    #[test]
    fn only_regular_files_are_opened_and_links_are_not_followed() {
        let (folder, root) = folder();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("in")).unwrap();
        std::fs::write(path("in/file"), "text").unwrap();
        symlink("file", path("in/link")).unwrap();
        symlink("/etc", path("out")).unwrap();
        symlink("/dev/ptmx", path("in/device")).unwrap();
        let fifo = std::process::Command::new("mkfifo").arg(path("in/fifo")).status().unwrap();
        assert!(fifo.success());
        let open = |name: &str| place_below(&root, name).and_then(|place| regular(std::process::id(), place));
        assert_eq!(read(&open("/in/file").unwrap()), "text");
        for wrong in ["in/link", "in/device", "in/fifo", "out/passwd", "in", "in/no", "../etc/passwd"] {
            assert!(open(wrong).is_err(), "{wrong}");
            assert!(
                walked(&root, wrong).and_then(|place| regular(std::process::id(), place)).is_err(),
                "{wrong}, without openat2"
            );
        }
    }

    #[test]
    fn links_on_the_path_of_a_library_are_followed_to_a_regular_file() {
        let (folder, _) = folder();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("usr")).unwrap();
        std::fs::write(path("usr/lib.so.1.0"), "text").unwrap();
        symlink("usr", path("lib")).unwrap();
        symlink("lib.so.1.0", path("usr/lib.so.1")).unwrap();
        assert_eq!(read(&named(&path("lib/lib.so.1")).unwrap()), "text");
        let fifo = std::process::Command::new("mkfifo").arg(path("usr/fifo")).status().unwrap();
        assert!(fifo.success());
        symlink("fifo", path("usr/link")).unwrap();
        assert!(named(&path("lib/link")).is_err() && named(&path("lib")).is_err() && named(Path::new("lib")).is_err());
        let own = File::open(path("usr/lib.so.1.0")).unwrap();
        let magic = format!("/proc/self/fd/{}", own.as_raw_fd());
        assert!(named(Path::new(&magic)).is_err());
    }

    #[test]
    fn a_path_with_dots_stays_below_the_root() {
        let (folder, root) = folder();
        std::fs::write(folder.path().join("file"), "inside").unwrap();
        let found = place_below(&root, "../../file").and_then(|place| regular(std::process::id(), place));
        assert_eq!(found.map(|found| read(&found)).unwrap(), "inside");
    }

    #[test]
    fn the_file_of_a_mapping_is_that_file_even_if_another_one_has_its_name() {
        let program = std::env::current_exe().unwrap();
        let inode = std::fs::metadata(&program).unwrap().ino();
        let text = maps::own().unwrap();
        let line = maps::lines(&text).find(|line| line.inode == inode).unwrap();
        let pid = std::process::id();
        for opened in [
            mapped(pid, line.from, line.to),
            by_name(pid, line.from, line.to).and_then(|place| regular(std::process::id(), place)),
            executable(pid),
        ] {
            let opened = opened.unwrap();
            assert_eq!((opened.stamp.inode, opened.head(4).unwrap()), (inode, b"\x7fELF".to_vec()));
        }
        assert!(by_name(pid, line.from, line.to + 1).is_err(), "there is no such mapping");
    }

    /// Without the right to open the kernel's link to a mapping, the file is found by its name.
    #[test]
    fn another_file_with_the_name_of_a_mapped_one_is_not_opened() {
        let (folder, _) = folder();
        let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
        std::fs::write(path("file"), "mapped").unwrap();
        let file = File::open(path("file")).unwrap();
        let (length, pid) = (4096, std::process::id());
        // SAFETY: makes a mapping at a free address, which nobody reads.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
        };
        let open = || by_name(pid, at as u64, (at as usize + length) as u64).and_then(|place| regular(pid, place));
        assert_eq!(open().map(|opened| read(&opened)).unwrap(), "mapped");
        std::fs::remove_file(path("file")).unwrap();
        // The kernel adds this to the name of a file that is gone.
        std::fs::write(path("file (deleted)"), "another").unwrap();
        assert_eq!(open().unwrap_err().to_string(), "another file has its name");
        // SAFETY: the mapping from above.
        unsafe { libc::munmap(at, length) };
    }

    #[test]
    fn a_debug_file_is_one_that_is_installed_or_that_was_fetched() {
        let (folder, _) = folder();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let (debug, cache) = (folder.path().join("debug"), folder.path().join("cache"));
        let open = |cache| debug_in(&debug, cache, &[0xab, 0xcd]).map(|opened| read(&opened));
        assert!(open(Some(&cache)).is_err());
        write("cache/abcd/debuginfo", "fetched");
        assert_eq!(open(Some(&cache)).unwrap(), "fetched");
        assert!(open(None).is_err());
        write("debug/.build-id/ab/cd.debug", "installed");
        assert_eq!(open(Some(&cache)).unwrap(), "installed");
        assert!(debug_in(&debug, Some(&cache), &[]).is_err());
    }

    #[test]
    fn a_link_says_its_text_and_is_not_followed() {
        let pid = std::process::id();
        let (folder, _) = folder();
        let path = folder.path().canonicalize().unwrap();
        let name = |name: &str| path.join(name).display().to_string();
        symlink("narenas:3", name("link")).unwrap();
        std::fs::write(name("file"), "").unwrap();
        assert_eq!(link_below_root(pid, &name("link")).unwrap().as_deref(), Some("narenas:3"));
        assert_eq!(link_below_root(pid, &name("file")).unwrap(), None);
        assert!(link_below_root(pid, &name("none")).is_err());
        assert!(below_root(pid, &name("link")).is_err() && below_root(pid, &name("file")).is_ok());
        assert!(of_host(Path::new("/dev/null")).is_err());
    }
}
