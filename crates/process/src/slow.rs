//! Opens files on file systems that may not answer: servers in user space (FUSE) or in the network. Each open has a time limit.
//!
//! If such a file system does not answer, the open waits in the kernel, and even SIGKILL may not end it. So a separate child opens the
//! file. If the child does not answer, this process no longer waits for it, and does not try the file system again for a while.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use allocanary_sys::sys::read_whole;
use rustix::fs::{OFlags, ResolveFlags};

/// The types of file systems that answer at once.
const QUICK: [&str; 12] =
    ["ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "ramfs", "overlay", "erofs", "squashfs", "f2fs", "zfs"];

/// How long a slow file system may take to open a file.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a file system that did not answer is not tried again.
const PAUSE: Duration = Duration::from_secs(60);

/// For each device whether its file system is quick, and the devices that did not answer recently.
#[derive(Default)]
struct Known {
    quick: BTreeMap<(u32, u32), bool>,
    dead: BTreeMap<(u32, u32), Instant>,
    /// Children that did not answer and have not ended.
    left: Vec<i32>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { quick: BTreeMap::new(), dead: BTreeMap::new(), left: Vec::new() });

fn known() -> std::sync::MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a file system answers at once. Its type is taken from the mounts of this process and of process `pid`, which may be in a
/// container.
pub(crate) fn is_quick(pid: u32, device: (u32, u32)) -> bool {
    let mut known = known();
    let mounted_by = |who: &str| read_whole(format!("/proc/{who}/mountinfo")).unwrap_or_default();
    for who in ["self", &pid.to_string()] {
        if !known.quick.contains_key(&device) {
            known.quick.extend(mounts(&String::from_utf8_lossy(&mounted_by(who))));
            known.quick.extend(of_memory().map(|device| (device, true)));
        }
    }
    // A device that no mount shows, such as a volume of btrfs, counts as slow.
    *known.quick.entry(device).or_insert(false)
}

/// The device of files from `memfd_create` and of shared memory without a file, which no mount shows.
fn of_memory() -> Option<(u32, u32)> {
    let file = rustix::fs::memfd_create("device", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
    let device = rustix::fs::fstat(file).ok()?.st_dev;
    Some((rustix::fs::major(device), rustix::fs::minor(device)))
}

/// The devices of a text of `mountinfo`, and whether their file systems are quick:
/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`.
fn mounts(text: &str) -> impl Iterator<Item = ((u32, u32), bool)> {
    text.lines().filter_map(|line| {
        let (about, file_system) = line.split_once(" - ")?;
        let (major, minor) = about.split(' ').nth(2)?.split_once(':')?;
        let kind = file_system.split(' ').next()?;
        Some(((major.parse().ok()?, minor.parse().ok()?), QUICK.contains(&kind)))
    })
}

/// Used in place of the device when a path is looked up, since its device is not yet known.
const BY_NAME: (u32, u32) = (u32::MAX, 0);

/// Opens a file for reading in a child. If the child does not answer in time, it is abandoned.
pub(crate) fn reopened(place: &OwnedFd, device: (u32, u32)) -> io::Result<File> {
    let path = format!("/proc/self/fd/{FOLDER}");
    let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let how = How { flags: flags as u64, mode: 0, resolve: 0 };
    opened(place, &path, how, device).map(File::from)
}

/// Looks up a path in a child. If the child does not answer in time, it is abandoned.
pub(crate) fn looked_up(root: &OwnedFd, path: &str, flags: OFlags, resolve: ResolveFlags) -> io::Result<OwnedFd> {
    let how = How { flags: flags.bits().into(), mode: 0, resolve: resolve.bits() };
    opened(root, path, how, BY_NAME)
}

/// The structure `struct open_how`.
#[repr(C)]
struct How {
    flags: u64,
    mode: u64,
    resolve: u64,
}

fn opened(folder: &OwnedFd, path: &str, how: How, device: (u32, u32)) -> io::Result<OwnedFd> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "its file system does not answer");
    {
        let mut known = known();
        // SAFETY: asks for the state of a child of this process, and waits for none.
        known.left.retain(|pid| unsafe { libc::waitpid(*pid, std::ptr::null_mut(), libc::WNOHANG) } == 0);
        if known.dead.get(&device).is_some_and(|since| since.elapsed() < PAUSE) {
            return Err(late());
        }
    }
    let path = std::ffi::CString::new(path).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (ours, theirs) = UnixStream::pair()?;
    // SAFETY: the child calls only what is allowed after a fork of a process with threads, and ends.
    let child = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => in_child(folder.as_raw_fd(), &path, &how, theirs.as_raw_fd()),
        child => child,
    };
    drop(theirs);
    let received = received(&ours);
    // SAFETY: the child was made above, and nothing has waited for it. A child that waits in the kernel is left behind.
    let has_ended = unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), if received.is_some() { 0 } else { libc::WNOHANG }) == child
    };
    match received {
        Some(found) => found,
        None => {
            let mut known = known();
            known.dead.insert(device, Instant::now());
            known.left.extend((!has_ended).then_some(child));
            Err(late())
        }
    }
}

/// The numbers of the child's descriptors.
const SOCKET: i32 = 0;
const FOLDER: i32 = 1;

/// Opens the path, and sends the descriptor or the number of the error. It closes all other descriptors: an abandoned child would otherwise
/// keep the command's output open, and its reader waiting.
fn in_child(folder: i32, path: &CStr, how: &How, socket: i32) -> ! {
    // SAFETY: all of these functions may be called between a fork and the end of the child; nothing allocates. The
    // message and its parts live until it is sent.
    unsafe {
        let (folder, socket) = (libc::fcntl(folder, libc::F_DUPFD, 64), libc::fcntl(socket, libc::F_DUPFD, 64));
        libc::dup2(socket, SOCKET);
        libc::dup2(folder, FOLDER);
        if libc::syscall(libc::SYS_close_range, 2, u32::MAX, 0) != 0 {
            // Linux before 5.9.
            for other in 2..1024 {
                libc::close(other);
            }
        }
        let mut file = libc::syscall(libc::SYS_openat2, FOLDER, path.as_ptr(), how, size_of::<How>()) as i32;
        if file < 0 && *libc::__errno_location() == libc::ENOSYS && how.resolve == 0 {
            file = libc::openat(FOLDER, path.as_ptr(), how.flags as i32);
        }
        let mut number = if file < 0 { *libc::__errno_location() } else { 0 };
        let mut part = libc::iovec { iov_base: (&raw mut number).cast(), iov_len: size_of::<i32>() };
        let mut room = [0_u64; 4];
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        if file >= 0 {
            message.msg_control = room.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of::<i32>() as u32) as _;
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as _;
            libc::CMSG_DATA(head).cast::<i32>().write_unaligned(file);
        }
        libc::sendmsg(SOCKET, &raw const message, libc::MSG_NOSIGNAL);
        libc::_exit(0)
    }
}

/// The child's answer. `None` if it did not come in time.
fn received(socket: &UnixStream) -> Option<io::Result<OwnedFd>> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut bytes = [0; 4];
    let mut room = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let mut parts = [io::IoSliceMut::new(&mut bytes)];
    let got = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    let mut files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    match files.next().and_then(|mut files| files.next()) {
        Some(file) => Some(Ok(file)),
        None if got.bytes == 4 => Some(Err(io::Error::from_raw_os_error(i32::from_ne_bytes(bytes)))),
        None => Some(Err(io::Error::other("the child that was to open it ended"))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn the_kind_of_a_file_system_is_that_of_its_device() {
        let text = "36 35 98:0 / / rw,noatime master:1 - ext4 /dev/root rw\n\
                    40 36 0:52 / /mnt/a\\040b rw - fuse.sshfs host:/ rw\n41 36 0:53 / /srv rw - nfs4 host:/srv rw\nx\n";
        let found: Vec<_> = mounts(text).collect();
        assert_eq!(found, [((98, 0), true), ((0, 52), false), ((0, 53), false)]);
        assert!(!is_quick(std::process::id(), (4094, 77)));
    }

    #[test]
    fn a_child_opens_what_may_take_long() {
        let place: OwnedFd = File::open(std::env::current_exe().unwrap()).unwrap().into();
        let file = reopened(&place, (4094, 78)).unwrap();
        let mut head = [0; 4];
        file.read_exact_at(&mut head, 0).unwrap();
        assert_eq!(&head, b"\x7fELF");
        let (_, closed) = UnixStream::pair().unwrap();
        let error = reopened(&closed.into(), (4094, 79)).unwrap_err();
        assert!(error.raw_os_error().is_some(), "{error}");
        let root: OwnedFd = File::open("/proc/self").unwrap().into();
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        assert!(looked_up(&root, "status", OFlags::PATH | OFlags::CLOEXEC, resolve).is_ok());
        assert!(looked_up(&root, "exe", OFlags::PATH | OFlags::CLOEXEC, resolve).is_err());
    }
}
