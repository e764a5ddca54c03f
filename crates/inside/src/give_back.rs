//! Makes a running process give free memory back, without a restart. One of its threads, which waits in a system call, makes the
//! allocator's own call (`malloc_trim(0)` for glibc) and then waits again. The other threads continue to run. The modules work in this
//! order:
//!
//! 1. `safety` refuses a process whose state makes a call unsafe.
//! 2. [`remedy`] gives the functions to call for each allocator. [`symbols`] finds their addresses in the process. `way_back` finds the code
//!    by which a thread returns.
//! 3. `threads` lists the threads that wait in a call that can be made again. `waits` is the table of these calls. A child ([`walks`])
//!    walks their stacks, and `standing` decides by these which threads can be borrowed. `room` measures the free part of a stack, and
//!    `locks` looks for mutexes that the threads hold.
//! 4. `Borrowed` is such a thread while it makes the calls. `chain` and `frame` make the bytes for its stack. When the value is dropped,
//!    the thread's state is restored. If this command ends before, the thread restores its state itself.
//! 5. [`carry_out()`] does all of this, and returns the result of each call. [`check`] does the part that needs no stopped thread.
//! 6. [`plan`] computes the forecast from a reading, and an [`account`] compares it with the result.
//!
//! x86-64 and aarch64 are supported. `chain`, `frame`, `way_back` and `borrowed` have a file for each machine, and the rest is the same.

// This crate returns values. Only the command writes to a terminal.

pub mod account;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod borrowed;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod carry_out;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod chain;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod checked;
pub mod condition;
mod done;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod elsewhere;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod filter;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod frame;
mod functions;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod handlers;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod held;
mod limits;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod locks;
mod name_space;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod needs;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod places;
pub mod plan;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod reader;
mod refusal;
pub mod remedy;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod room;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod safety;
pub mod settings;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod sockets;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod standing;
#[doc(hidden)]
pub mod steps;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod stopping;
pub mod symbols;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod threads;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod waits;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod walker;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod walks;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod way_back;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use carry_out::{BorrowedCaller, call_inside, carry_out, has_function};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use checked::check;
pub use done::{CallDone, GiveBackResult};
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use elsewhere::{BorrowedCaller, call_inside, carry_out, check, has_function};
pub use limits::Limits;
pub use refusal::Refusal;
pub use remedy::ReleaseCall;
