//! The walkers, one folder or file each, and the list of them.

use crate::Walker;

/// Every walker.
pub const ALL: &[&Walker] = &[];
