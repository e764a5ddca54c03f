//! Messages to the person who started the canary. In: a line. Out: the line on standard error, if possible.
//!
//! The reader may have ended, and a disk may be full. Then the line is lost, without further harm, while `eprintln!` would panic and end
//! the task. A full pipe without a reader blocks this thread. So nothing is written while the mesh is locked, and nothing that would be
//! repeated with every probe.

use std::io::{Write, stderr};

/// Says one line.
pub fn say(line: &str) {
    let _ = stderr().write_all(format!("kube_canary: {line}\n").as_bytes());
}
