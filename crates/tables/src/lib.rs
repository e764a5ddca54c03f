//! Internal to [allocanary](https://docs.rs/allocanary): this crate has no stable API, and any release may change it.
//!
//! The words by which the modules of a process (the program and its libraries) reach functions of others: changed from inside while the
//! process runs, and put back. It runs inside of other programs: it allocates nothing, and takes no lock but the loader's. Data flow in
//! one direction:
//!
//! 1. `module` reads a module as the loader has it in memory: its tables of symbols and relocations.
//! 2. [`definition()`] finds who has a function: the first module of the list, as the loader itself does.
//! 3. [`Slots::change`] stores another function's address in each word that has this one, and [`Slots::put_back`] what was there.
//! 4. [`Request`] and [`Reply`] are what a command outside and the recorder inside tell each other.
//!
//! Only x86-64 is supported: elsewhere no word is found.

// This crate runs inside of other programs.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::dbg_macro)]

mod definition;
mod module;
mod request;
mod slots;

pub use definition::{Definition, comes_before, definition};
pub use request::{ATTACH, DETACH, LOOK_AGAIN, Reply, Request, STATE_ATTACHED, STATE_DETACHED, STATE_NEVER};
pub use slots::{Changed, Function, PutBack, Slots};
