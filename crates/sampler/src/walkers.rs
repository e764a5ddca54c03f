//! What the walks of stacks need, as the table keeps it: the walkers of a process, and the rules that they have looked up. In: nothing. Out:
//! types that are valid as zeros.

use std::cell::UnsafeCell;
use std::sync::atomic::AtomicU32;

use allocanary_stacks::rules;
use allocanary_stacks::walk::StackWalker;

use allocanary_profile::layout::FRAMES;

/// A cache of half as many rules as there are frames. A rule that another one has replaced is looked up again.
pub(super) type Rules = rules::Rules<{ FRAMES / 2 }>;

/// Walkers of a process. A thread, or a handler, that finds all of them taken has no stack for its sample.
const WALKERS: usize = 6;

/// The walkers. All zeros: none is taken.
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
