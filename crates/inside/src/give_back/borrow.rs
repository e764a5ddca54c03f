//! Borrows a thread of a running process for calls, on x86-64 and aarch64. The modules work in this order:
//!
//! 1. `safety` refuses a process whose state makes a call unsafe. `way_back` finds the code by which a thread returns.
//! 2. `threads` lists the threads that wait in a call that can be made again. `waits` is the table of these calls. A child ([`walks`])
//!    walks their stacks, and `standing` decides by these which threads can be borrowed. `room` measures the free part of a stack, and
//!    `locks` looks for mutexes that the threads hold.
//! 3. `Borrowed` is such a thread while it makes the calls. `chain` and `frame` make the bytes for its stack. When the value is dropped,
//!    the thread's state is restored. If this command ends before, the thread restores its state itself.
//! 4. [`carry_out()`] does all of this, and returns the result of each call.
//!
//! `chain`, `frame`, `way_back` and `borrowed` have a file for each machine, and the rest is the same.

mod borrowed;
mod carry_out;
mod chain;
mod checked;
mod filter;
mod frame;
mod handlers;
mod held;
mod locks;
mod needs;
mod places;
mod reader;
mod room;
mod safety;
mod sockets;
mod standing;
pub mod steps;
mod stopping;
mod threads;
mod waits;
mod walker;
pub mod walks;
mod way_back;

pub use carry_out::{BorrowedCaller, call_inside, carry_out, has_function};
pub use checked::check;

/// Whether a function is wanted because a thread is borrowed.
pub fn is_for_borrowing(name: &str) -> bool {
    places::is_wanted(name) || way_back::is_wanted(name)
}
