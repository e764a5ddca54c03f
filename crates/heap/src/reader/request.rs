//! Requests to the child, and its answers. Each is a line of JSON.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Cost, RequestSubject};
use crate::{ProcessTrouble, Reading, Shares};

/// A request: what is to be read, and the time limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRequest {
    /// What is to be read.
    pub of: ReadingSource,
    /// The time for it. Parts that are not read by then are not analysed.
    pub time: Duration,
    /// Whether the reading has the map of the memory.
    pub map: bool,
}

/// The object of a reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadingSource {
    /// A process.
    Process {
        /// Its process ID.
        pid: u32,
        /// Whether the process is stopped during the reading.
        stopped: bool,
        /// Whether and how the shares of pages are read.
        shares: Shares,
    },
    /// A core file.
    Core(PathBuf),
    /// A request of another kind, which only the program itself understands, and what it is about.
    Other(String, RequestSubject),
}

impl ReadRequest {
    /// What is read.
    pub fn about(&self) -> RequestSubject {
        match &self.of {
            ReadingSource::Process { pid, .. } => RequestSubject::process(*pid),
            ReadingSource::Core(path) => RequestSubject { core: Some(path.clone()), ..RequestSubject::default() },
            ReadingSource::Other(_, about) => about.clone(),
        }
    }

    /// The time after which the child is killed. At the end of the time limit the child stops reading, and then needs a
    /// moment to send what it has read.
    pub fn time_with_grace(&self) -> Duration {
        self.time
            .saturating_add((self.time / 10).clamp(Duration::from_millis(500), Duration::from_secs(2)))
            // A clock cannot represent a later time than this.
            .min(Duration::from_secs(1 << 32))
    }

    /// The error for a request that exceeds a limit.
    pub(super) fn costly(&self, cost: Cost) -> ProcessTrouble {
        match &self.of {
            ReadingSource::Process { pid, .. } => ProcessTrouble::Costly { pid: *pid, cost },
            ReadingSource::Core(path) => {
                ProcessTrouble::Told(format!("{}: {cost}; --timeout and --reader-memory allow more", path.display()))
            }
            ReadingSource::Other(..) => ProcessTrouble::Told(cost.to_string()),
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReaderReply {
    /// The reading, if it could be made.
    Reading(Box<Reading>),
    /// Why there is no reading.
    Trouble(WireError),
    /// The child's memory was not enough.
    Memory,
    /// The answer to a request that only the program itself understands.
    Other(String),
}

/// A [`ProcessTrouble`] on its way to the parent. Kinds that callers distinguish are kept. All others become a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireError {
    /// [`ProcessTrouble::Gone`].
    Gone(u32),
    /// [`ProcessTrouble::Denied`].
    Denied(u32),
    /// [`ProcessTrouble::Changed`].
    Changed(u32),
    /// [`ProcessTrouble::Late`].
    Late(u32),
    /// Any other kind.
    Text(String),
}

impl From<&ProcessTrouble> for WireError {
    fn from(trouble: &ProcessTrouble) -> WireError {
        match trouble {
            ProcessTrouble::Gone(pid) => WireError::Gone(*pid),
            ProcessTrouble::Denied(pid) => WireError::Denied(*pid),
            ProcessTrouble::Changed(pid) => WireError::Changed(*pid),
            ProcessTrouble::Late(pid) => WireError::Late(*pid),
            other => WireError::Text(other.to_string()),
        }
    }
}

impl From<WireError> for ProcessTrouble {
    fn from(told: WireError) -> ProcessTrouble {
        match told {
            WireError::Gone(pid) => ProcessTrouble::Gone(pid),
            WireError::Denied(pid) => ProcessTrouble::Denied(pid),
            WireError::Changed(pid) => ProcessTrouble::Changed(pid),
            WireError::Late(pid) => ProcessTrouble::Late(pid),
            WireError::Text(text) => ProcessTrouble::Told(text),
        }
    }
}
