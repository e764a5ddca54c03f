//! Starts and ends the processes of a user's program, and waits for them. Gives their exit statuses, and the resources that they used.
//!
//! A program may leave its process group, fork and exit. Its orphans become children of the nearest subreaper. A parent
//! that is a subreaper can still find and end them.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::{Carried, HugePages, ResourceUsage};

/// Makes this process the new parent of all its orphaned descendants.
pub fn adopt_orphans() {
    // SAFETY: sets one attribute of this process.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// Prepares a command to be started as a program. The program gets its own process group, and joins the control groups whose
/// `cgroup.procs` files are open in `groups`. It is killed when the calling thread ends. If memory runs out, the kernel kills the
/// program first (`oom_score_adj`, proc(5)), and not the process that measures it. `huge_pages` limits the huge pages that it may get.
/// After the start, the returned value has the part of the program's `most_rss` that comes from its parent.
pub fn prepare(
    command: &mut Command,
    groups: Vec<File>,
    huge_pages: Option<HugePages>,
) -> std::io::Result<Arc<Carried>> {
    command.process_group(0);
    let carried = Arc::new(Carried::new()?);
    let childs = carried.clone();
    let enter = move || {
        for group in &groups {
            // SAFETY: writes two bytes from a constant to an open file.
            if unsafe { libc::write(group.as_raw_fd(), b"0\n".as_ptr().cast(), 2) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        super::die_with_parent();
        killed_first();
        huge_pages.map_or(Ok(()), HugePages::limit)?;
        childs.write();
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls only, and allocates nothing: an error of the system is a number.
    unsafe { command.pre_exec(enter) };
    Ok(carried)
}

/// Makes the calling process the first that the kernel kills when memory runs out. If it has no right to do this, nothing changes.
fn killed_first() {
    // SAFETY: opens a file by a constant path, writes four bytes from a constant, and closes it. Nothing is allocated.
    unsafe {
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file >= 0 {
            libc::write(file, b"1000".as_ptr().cast(), 4);
            libc::close(file);
        }
    }
}

/// Sends a signal to a process, or with `group` to all processes of the group that it leads. The IDs 0 and 1 are never
/// signalled: to the kernel they mean other groups.
pub fn signal(pid: u32, group: bool, signal: i32) {
    if let Some(pid) = i32::try_from(pid).ok().filter(|pid| *pid > 1) {
        // SAFETY: sends a signal. If the process has ended, the call returns an error and changes nothing.
        unsafe { libc::kill(if group { -pid } else { pid }, signal) };
    }
}

/// Reaps a child that has ended: its raw status, and the resources that were used by it and by the descendants for
/// which it has waited. `None` if it still runs.
pub fn reap(pid: u32) -> std::io::Result<Option<(i32, ResourceUsage)>> {
    if !has_ended(pid)? {
        return Ok(None);
    }
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: the kernel fills a status and a whole rusage, which all-zero bytes are a valid value of.
        let ended = unsafe { libc::wait4(pid as i32, &mut status, libc::WNOHANG, usage.as_mut_ptr()) };
        match ended {
            0 => return Ok(None),
            ended if ended > 0 => break,
            _ => {
                let error = std::io::Error::last_os_error();
                if error.kind() != std::io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    // SAFETY: filled above.
    let usage = unsafe { usage.assume_init() };
    Ok(Some((status, ResourceUsage::of(&usage))))
}

/// Whether a child has ended. A child that [`AtExit`](super::AtExit) traces also stops, and `wait4` would take these stops away from
/// its tracer. The kernel tells of them without being asked for stops.
fn has_ended(pid: u32) -> std::io::Result<bool> {
    let change = change_of(pid, libc::WEXITED | libc::WNOWAIT)?;
    Ok(change.is_some_and(|(code, _)| [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED].contains(&code)))
}

/// A change of a child, if there is one of the kinds in `flags` (those of `waitid`): its code, and the signal or exit status.
pub(super) fn change_of(pid: u32, flags: libc::c_int) -> std::io::Result<Option<(i32, i32)>> {
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the kernel fills the siginfo. If it does not, all-zero bytes are a valid value. After `waitid` the fields of a child are
        // valid.
        let (failed, child, change) = unsafe {
            let failed = libc::waitid(libc::P_PID, pid, info.as_mut_ptr(), flags | libc::WNOHANG) != 0;
            let info = info.assume_init();
            (failed, info.si_pid(), (info.si_code, info.si_status()))
        };
        if !failed {
            return Ok((child != 0).then_some(change));
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Whether a child was stopped, since the last call, because it used the terminal from the background.
pub fn stopped_for_terminal(pid: u32) -> bool {
    matches!(stopped_by(pid), Some(libc::SIGTTIN | libc::SIGTTOU))
}

/// Continues all stopped processes of the group that a child leads.
pub fn go_on(pid: u32) {
    signal(pid, true, libc::SIGCONT);
}

/// The signal that has stopped a child since the last call.
fn stopped_by(pid: u32) -> Option<i32> {
    change_of(pid, libc::WSTOPPED).ok().flatten().map(|(_, signal)| signal)
}

/// A child that is waited for.
#[derive(Debug)]
pub struct Watched {
    pid: u32,
    /// A descriptor that becomes readable when the child ends. An old kernel has none.
    handle: Option<OwnedFd>,
}

impl Watched {
    /// The child with this process ID.
    pub fn of(pid: u32) -> Watched {
        // SAFETY: the kernel returns a new descriptor or an error.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        // SAFETY: the descriptor is new, and nobody else has it.
        Watched { pid, handle: (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) }) }
    }

    /// Waits for its end, as [`reap`]. While it runs, `pause` is called before each sleep and returns the longest time to
    /// sleep; `None` ends the waiting. The end of the child ends the sleep.
    pub fn wait(&self, mut pause: impl FnMut() -> Option<Duration>) -> std::io::Result<Option<(i32, ResourceUsage)>> {
        loop {
            if let Some(ended) = reap(self.pid)? {
                return Ok(Some(ended));
            }
            let Some(most) = pause() else { return Ok(None) };
            self.sleep(most);
        }
    }

    /// Sleeps until the process ends, at most for this long. A signal ends the sleep as well.
    pub fn sleep(&self, most: Duration) {
        let Some(fd) = &self.handle else { return std::thread::sleep(most) };
        let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let time = libc::timespec { tv_sec: most.as_secs() as _, tv_nsec: most.subsec_nanos() as _ };
        // SAFETY: one pollfd and one timespec, both ours.
        unsafe { libc::ppoll(&mut poll, 1, &time, std::ptr::null()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::zombie_processes, reason = "`reap` waits for it")]
    fn a_child_is_waited_for_with_what_it_used() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        prepare(&mut command, Vec::new(), None).unwrap();
        let child = command.spawn().unwrap();
        let watched = Watched::of(child.id());
        let (status, usage) = watched.wait(|| Some(Duration::from_secs(5))).unwrap().unwrap();
        assert_eq!(libc::WEXITSTATUS(status), 3);
        assert!(usage.minor_faults > 0);
        assert!(reap(child.id()).is_err(), "it was waited for");
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "`wait` waits for it")]
    fn the_waiting_is_given_up_when_the_caller_says_so() {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let watched = Watched::of(child.id());
        let mut asked = 0;
        let given_up = watched.wait(|| {
            asked += 1;
            (asked < 3).then_some(Duration::ZERO)
        });
        assert!(given_up.unwrap().is_none() && asked == 3);
        signal(child.id(), false, libc::SIGKILL);
        let (status, _) = watched.wait(|| Some(Duration::from_secs(5))).unwrap().unwrap();
        assert_eq!(libc::WTERMSIG(status), libc::SIGKILL);
        assert!(watched.wait(|| None).is_err(), "it was waited for");
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "`wait` waits for it")]
    fn what_has_stopped_a_child_is_told_once() {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        assert_eq!(stopped_by(child.id()), None, "it runs");
        signal(child.id(), false, libc::SIGSTOP);
        let stopped = std::iter::repeat_with(|| stopped_by(child.id())).find_map(|signal| signal);
        assert_eq!((stopped, stopped_by(child.id())), (Some(libc::SIGSTOP), None));
        signal(child.id(), false, libc::SIGKILL);
        let (status, _) = Watched::of(child.id()).wait(|| Some(Duration::from_secs(5))).unwrap().unwrap();
        assert_eq!(libc::WTERMSIG(status), libc::SIGKILL, "it was not waited for before");
    }

    #[test]
    fn no_signal_goes_to_everybody() {
        signal(0, true, libc::SIGKILL);
        signal(1, true, libc::SIGKILL);
        signal(u32::MAX, false, libc::SIGKILL);
    }
}
