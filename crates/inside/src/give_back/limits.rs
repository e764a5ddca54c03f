//! Limits on what the calls may cost the process.

use std::time::Duration;

/// The time limits of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long to wait for a call that sleeps.
    pub patience: Duration,
    /// The interval at which the calls are repeated, if they are. A thread is not borrowed if its time-out starts again at each
    /// call and is longer than this.
    pub every: Option<Duration>,
}
