//! Whether the call that gives memory back can be made. In: what was found without stopping a thread. Out: its words.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Whether a heap's call can be made, as far as this is known without stopping a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "check", content = "why", rename_all = "snake_case")]
pub enum CallCheck {
    /// Everything that can be checked so allows it.
    Passed,
    /// Something can be found out only by stopping a thread: the reason, as a part of a sentence. Without a reason nothing was checked.
    NotTried(String),
    /// It cannot be made. The reason is a part of a sentence.
    Refused(String),
}

/// The checks of a process, by the names of allocators in its reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallChecks(BTreeMap<String, CallCheck>);

impl CallChecks {
    /// Notes what was found for an allocator.
    pub fn add(&mut self, allocator: &str, check: CallCheck) {
        self.0.insert(allocator.into(), check);
    }

    /// What was found for an allocator.
    pub fn of(&self, allocator: &str) -> CallCheck {
        self.0.get(allocator).cloned().unwrap_or_else(|| CallCheck::NotTried(String::new()))
    }
}
