//! What the child is asked, and what it answers: a line of JSON each.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cost::Cost;
use crate::{Reading, Shares, Trouble};

/// What is to be read, and in which time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// What is to be read.
    pub of: Of,
    /// The time for it. What is not read by then is not divided.
    pub time: Duration,
    /// Whether the map of its memory is wanted.
    pub map: bool,
}

/// What is to be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Of {
    /// A process, by its number.
    Process {
        /// The number.
        pid: u32,
        /// Whether it is stopped meanwhile.
        stopped: bool,
        /// What is read of how many processes have a page.
        shares: Shares,
    },
    /// A core file.
    Core(PathBuf),
    /// Something that only the program knows.
    Other(String),
}

impl Request {
    /// When the child is killed. At the end of its time it reads no more, and it needs a moment to tell what it has read until then.
    pub fn time_with_grace(&self) -> Duration {
        self.time
            .saturating_add((self.time / 10).clamp(Duration::from_millis(500), Duration::from_secs(2)))
            // A clock cannot tell a later time than this.
            .min(Duration::from_secs(1 << 32))
    }

    /// The error of one that costs too much.
    pub(super) fn costly(&self, cost: Cost) -> Trouble {
        match &self.of {
            Of::Process { pid, .. } => Trouble::Costly { pid: *pid, cost },
            Of::Core(path) => Trouble::Told(format!("{}: {cost}; --timeout and --memory allow more", path.display())),
            Of::Other(_) => Trouble::Told(cost.to_string()),
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It was read.
    Reading(Box<Reading>),
    /// It could not be read.
    Trouble(Told),
    /// There was not enough memory for it.
    Memory,
    /// The answer to something that only the program knows.
    Other(String),
}

/// A [`Trouble`] on its way: those that a caller tells from others, and the text of the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    /// [`Trouble::Gone`].
    Gone(u32),
    /// [`Trouble::Denied`].
    Denied(u32),
    /// [`Trouble::Changed`].
    Changed(u32),
    /// [`Trouble::Late`].
    Late(u32),
    /// Any other.
    Text(String),
}

impl From<&Trouble> for Told {
    fn from(trouble: &Trouble) -> Told {
        match trouble {
            Trouble::Gone(pid) => Told::Gone(*pid),
            Trouble::Denied(pid) => Told::Denied(*pid),
            Trouble::Changed(pid) => Told::Changed(*pid),
            Trouble::Late(pid) => Told::Late(*pid),
            other => Told::Text(other.to_string()),
        }
    }
}

impl From<Told> for Trouble {
    fn from(told: Told) -> Trouble {
        match told {
            Told::Gone(pid) => Trouble::Gone(pid),
            Told::Denied(pid) => Trouble::Denied(pid),
            Told::Changed(pid) => Trouble::Changed(pid),
            Told::Late(pid) => Trouble::Late(pid),
            Told::Text(text) => Trouble::Told(text),
        }
    }
}
