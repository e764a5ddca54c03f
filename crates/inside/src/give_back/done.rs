//! The result of giving back memory in a process: which thread made which calls, and what they returned.

use std::fmt;
use std::time::Duration;

use crate::give_back::symbols;

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveBackResult {
    /// The thread that made the calls.
    pub tid: u32,
    /// The system call that it waits in.
    pub wait: &'static str,
    /// The function, and its file.
    pub function: symbols::CodeFunction,
    /// The calls that were made.
    pub calls: Vec<CallDone>,
    /// How long they took.
    pub took: Duration,
}

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallDone {
    /// The call as in source code.
    pub name: String,
    /// The system's error number, or 0.
    pub error: i32,
    /// Whether a failure may be ignored.
    pub may_fail: bool,
    /// The bytes that its second argument points to, after the call.
    pub out: Vec<u8>,
}

impl GiveBackResult {
    /// The first failed call whose failure may not be ignored, with the system's error.
    pub fn failure(&self) -> Option<(&str, std::io::Error)> {
        let failed = self.calls.iter().find(|made| made.error != 0 && !made.may_fail)?;
        Some((&failed.name, std::io::Error::from_raw_os_error(failed.error)))
    }
}

impl fmt::Display for GiveBackResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls: Vec<&str> = self.calls.iter().map(|made| made.name.as_str()).collect();
        write!(f, "{} by thread {}, which waits in {}, in {:?}", calls.join(", "), self.tid, self.wait, self.took)
    }
}
