//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! Reads other processes safely. A process and the files that it names may be hostile. So two processes share the work:
//!
//! 1. The command has the rights. It opens what belongs to the process ([`BrokerRequest`]), and parses only texts of the kernel. One module
//!    opens the files that a process names: [`mod@file`].
//! 2. A child parses. It has no rights, and a filter of system calls without `open`, `execve`, `socket` or `kill` ([`confine`]). It asks
//!    the command for each descriptor, by the process ID and addresses, and never by a path of the process.
//!
//! The code that reads is the same in both: it calls [`get`], which opens a file in the command, and asks the command in a child.

// This crate returns numbers and texts. Only the command writes to a terminal.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod blocks;
mod broker;
mod channel;
pub mod child;
pub mod confine;
mod cost;
pub mod elf;
pub mod file;
mod files;
mod freeze;
mod get;
mod here;
pub mod limits;
mod living;
pub mod ptrace;
mod slow;
mod stopped;
mod trouble;
mod what;

pub use blocks::FileBlocks;
pub use broker::{Broker, RequestSubject};
pub use channel::Channel;
pub use child::HeldChild;
pub use cost::Cost;
pub use file::{Opened, Stamp};
pub use files::ProcessFiles;
pub use freeze::Frozen;
pub use get::{calls, core, file_of, get, handed_back, kernel, link, links, open, serve_by, status, text, threads};
pub use stopped::StoppedProcess;
pub use trouble::ProcessTrouble;
pub use what::{
    BrokerReply, BrokerRequest, HandedBack, HostFile, ProcFile, ProcessThread, ThreadRegisters, ThreadWait,
};
