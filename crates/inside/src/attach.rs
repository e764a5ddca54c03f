//! Puts the recorder into a running process and takes it out again, without a restart. It does so in three steps:
//!
//! 1. `check` refuses a process if the recorder would not be safe in it, or if the library cannot be opened.
//! 2. `AttachedRecorder::ask` borrows a thread of the process. The thread opens the library and calls its function for the request. The
//!    library itself changes the tables of the process's modules (module `got` of the recorder).
//! 3. `answer` puts the reply of the library into words.

// This crate returns values. Only the command writes to a terminal.

#![forbid(unsafe_code)]

mod answer;
mod check;
mod recorder;

pub use crate::give_back::Refusal;
pub use allocanary_trace::request::Reply;
pub use check::{check, modules};
pub use recorder::{AttachedRecorder, RecorderRequest};
