//! Why there is no profile. In: what was found. Out: a text for the user.

use std::fmt;

use crate::layout::VERSION;

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileTrouble {
    /// There is no such process, or it may not be read.
    #[error("process {pid}: {what}: {error}")]
    Unreadable {
        /// The process.
        pid: u32,
        /// What was tried, and failed.
        what: &'static str,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// The process has no table.
    #[error(
        "process {0} has no profile: start it with LD_PRELOAD of `allocanary preload profile`, or with another preload and \
         ALLOCANARY_PRELOAD=profile=512KiB"
    )]
    None(u32),
    /// This program does not sample itself.
    #[error(
        "this program has no profile: write `profile = \"512KiB\"` in its install!, or `profile = off` there and start it with \
         ALLOCANARY_PROFILE=512KiB"
    )]
    Off,
    /// The process was forked while another thread had the lock under which functions are named.
    #[error(
        "process {0} was forked while its parent looked up names for a profile, which it can no longer do: use `allocanary who {0}`, \
         which reads it from outside"
    )]
    Forked(u32),
    /// The process has given itself a filter of system calls.
    #[error(
        "process {0} has given itself a filter of system calls, which may end it where names are looked up: use `allocanary who {0}`, which \
         reads it from outside"
    )]
    Filtered(u32),
    /// The process's table is of another version.
    #[error(
        "process {pid}: wanted a profile of version {VERSION}, found {found}: take the allocanary that its preload came with"
    )]
    Version {
        /// The process.
        pid: u32,
        /// The version that was found.
        found: u64,
    },
    /// The process's table is not valid.
    #[error("process {pid}: its profile is damaged: {what}")]
    Damaged {
        /// The process.
        pid: u32,
        /// What is wrong.
        what: Wrong,
    },
}

/// What is wrong with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The header says more places than a reader accepts, or a part at an address that does not exist.
    Sizes,
    /// A part could not be read: the process may have ended.
    Unread,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wrong::Sizes => "its header has sizes that no table has",
            Wrong::Unread => "a part of it could not be read, perhaps because the process has ended",
        })
    }
}
