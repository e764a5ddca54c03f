//! Makes a frame as the kernel writes it for a signal's handler: the state that a thread has after `rt_sigreturn`.
//!
//! The kernel itself reads and checks such a frame. So a thread whose registers were changed can restore them by its own system call, even
//! if no other process can set them any more.
//!
//! Each machine has its own frame.

#[cfg(any(target_arch = "aarch64", test))]
pub mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
