//! A module (the program or a library) reaches functions of other modules through words with their addresses. This code
//! changes these words from inside a running process, and puts them back. It runs inside other programs, so it
//! allocates nothing, and takes no lock except the loader's. Data flow in one direction:
//!
//! 1. `module` reads a module as the loader has it in memory: its symbols and relocations.
//! 2. [`definition()`] finds the module that defines a function: the first one in the list, as the loader does.
//! 3. [`GotSlots::change`] stores another function's address in each word that has the address of a given function.
//!    [`GotSlots::put_back`] restores the words.
//!
//! What a command outside the process asks, and the reply, are in the crate `trace`, module `request`.
//!
//! x86-64 and aarch64 differ only in the numbers of the relocations. A word for calls that the loader has not filled in yet has an address in
//! the module's own code on both.

// This crate runs inside other programs.

mod definition;
mod module;
mod slots;

pub use definition::{Definition, comes_before, definition};
pub use slots::{Changed, GotSlots, PutBack, Replacement};
