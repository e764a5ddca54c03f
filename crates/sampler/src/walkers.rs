//! The data for walks of stacks, within the table: the walkers of a process, and the rules that they have looked up. The types are valid as
//! zeros.

use std::cell::UnsafeCell;
use std::sync::atomic::AtomicU32;

use allocanary_stacks::rules;
use allocanary_stacks::walk::StackWalker;

use allocanary_profile::layout::FRAMES;

/// A cache of half as many rules as there are frames. A rule that was replaced by another one is looked up again.
pub(super) type Rules = rules::Rules<{ FRAMES / 2 }>;

/// The number of walkers of a process. If a thread or a signal handler finds all of them taken, its sample has no stack.
const WALKERS: usize = 6;

/// The walkers. If all is zeros, no walker is taken.
#[repr(C)]
pub(super) struct Walkers(pub(super) [Place; WALKERS]);

/// A walker, and whether it is taken.
#[repr(C)]
pub(super) struct Place {
    pub(super) taken: AtomicU32,
    pub(super) walker: UnsafeCell<StackWalker>,
}

// SAFETY: only the thread that has changed `taken` from 0 to 1 uses the walker.
unsafe impl Sync for Place {}
