//! What the calls may cost the process.

use std::time::Duration;

/// Times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A call that sleeps is waited for so long.
    pub patience: Duration,
    /// The calls are made again and again, so often. A thread whose time-out begins anew at each is not borrowed if that is longer.
    pub every: Option<Duration>,
}
