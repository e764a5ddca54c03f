//! What a test says that cannot run here.

use std::fmt::Display;
use std::io::{self, Write};
use std::thread;

/// Says that this test is skipped, and why. Written past the harness, which keeps to itself what tests print that pass.
pub fn skipped(why: impl Display) {
    let _ = writeln!(io::stderr(), "skipped {}: {why}", thread::current().name().unwrap_or("a test"));
}
