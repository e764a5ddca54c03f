//! The walkers, one folder or file each, and the list of them.

use crate::Walker;

#[cfg(test)]
mod fake;
pub mod glibc;

/// Every walker.
pub const ALL: &[&Walker] = &[&glibc::WALKER];
