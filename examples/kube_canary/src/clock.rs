//! The canary's clock. In: nothing. Out: nanoseconds that never step back.

use std::sync::OnceLock;
use std::time::Instant;

static START: OnceLock<Instant> = OnceLock::new();

/// Nanoseconds since the first call in this process, by a clock that does not step.
pub fn now() -> u64 {
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
