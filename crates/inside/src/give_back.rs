//! Makes a running process give free memory back, without a restart. One of its threads, which waits in a system call, makes the
//! allocator's own call (`malloc_trim(0)` for glibc) and then waits again. The other threads continue to run:
//!
//! 1. [`remedy`] gives the functions to call for each allocator. [`symbols`] finds their addresses in the process.
//! 2. `borrow` finds a thread that can be borrowed, and makes the calls. [`check`] does the part that needs no stopped thread.
//! 3. [`plan`] computes the forecast from a reading, and an [`account`] compares it with the result.

// This crate returns values. Only the command writes to a terminal.

pub mod account;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod borrow;
pub mod condition;
mod done;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod elsewhere;
mod functions;
mod limits;
mod name_space;
pub mod plan;
mod refusal;
pub mod remedy;
pub mod settings;
pub mod symbols;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use borrow::is_for_borrowing;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[doc(hidden)]
pub use borrow::steps;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use borrow::{BorrowedCaller, call_inside, carry_out, check, has_function, walks};
pub use done::{CallDone, GiveBackResult};
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use elsewhere::is_for_borrowing;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use elsewhere::{BorrowedCaller, call_inside, carry_out, check, has_function};
pub use limits::Limits;
pub use refusal::Refusal;
pub use remedy::ReleaseCall;
