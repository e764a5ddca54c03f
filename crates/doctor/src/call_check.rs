//! The results of checking, without stopping a thread, whether the call that gives memory back can be made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Whether a heap's call can be made, as far as this can be checked without stopping a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "check", content = "why", rename_all = "snake_case")]
pub enum CallCheck {
    /// All checks that are possible in this way allow the call.
    Passed,
    /// Something can be checked only by stopping a thread. The text says what, as a part of a sentence. It is empty if nothing was checked.
    NotTried(String),
    /// It cannot be made. The reason is a part of a sentence.
    Refused(String),
}

/// The checks of a process, by the names of allocators in its reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallChecks(BTreeMap<String, CallCheck>);

impl CallChecks {
    /// Stores the result for an allocator.
    pub fn add(&mut self, allocator: &str, check: CallCheck) {
        self.0.insert(allocator.into(), check);
    }

    /// The result for an allocator.
    pub fn of(&self, allocator: &str) -> CallCheck {
        self.0.get(allocator).cloned().unwrap_or_else(|| CallCheck::NotTried(String::new()))
    }
}
