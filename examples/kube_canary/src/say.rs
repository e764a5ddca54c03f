//! What a canary says to the person who started it. In: a line. Out: the line on standard error, where that can be.
//!
//! Whoever reads it may have gone, and a disk may be full: a line that cannot be written is lost, and nothing else. `eprintln!`
//! would panic, and end what it stands in. A pipe that is full and that nobody reads is waited for, with all that this thread
//! does; so nothing is said while the mesh is locked, and nothing that repeats itself with every probe.

use std::io::{Write, stderr};

/// Says one line.
pub fn say(line: &str) {
    let _ = stderr().write_all(format!("kube_canary: {line}\n").as_bytes());
}
