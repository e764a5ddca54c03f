//! The stack of a sample. In: the calling thread's stack. Out: the number of its innermost frame in the table.
//!
//! A walker has 25 KiB, which is too much for each thread, and samples are rare. So a few walkers serve all threads, one thread at a time.
//! Each thread keeps the bounds of its own stack, so that it does not read the process's mappings for each sample.

use std::cell::Cell;
use std::sync::atomic::{Ordering::Relaxed, Ordering::Release, Ordering::SeqCst};

use allocanary_stacks::object::MappedObject;
use allocanary_stacks::walk::{WalkHost, here};

use super::state::{OWN, is_before_filter};
use super::table::Table;
use super::thread;
use super::walkers::{Place, Rules};
use allocanary_profile::layout::word;

/// The number of the innermost frame of the calling thread's stack, in the table; 0 if the stack could not be walked.
#[inline(never)]
pub(super) fn of_here(table: &Table) -> u32 {
    let is_free = |place: &&Place| place.taken.compare_exchange(0, 1, SeqCst, Relaxed).is_ok();
    let Some(place) = table.walkers.0.iter().find(is_free) else {
        table.count(word::NO_WALKER);
        return 0;
    };
    // Either this thread sees that a filter comes, or the thread that announces the filter sees this walker and waits for it.
    if is_before_filter() {
        place.taken.store(0, Release);
        return 0;
    }
    let site = Site { table, is_full: Cell::new(false) };
    // SAFETY: this call has the walker until it stores 0 below. The walker gets the bounds that this thread knows of its stack, and the
    // walk begins here. In the child of a fork that has interrupted this call the walker is zeros, which are valid. Rules are forgotten
    // when a library is closed: at once by a preload, and at the next profile by a program that samples itself. Until then the rule of a
    // closed library may be used for another library at its address. Such a rule leads to a wrong caller, at a word of the stack that is
    // read like any other. One case is left: this caller may lie in a third library, whose tables are read while another thread closes that
    // library.
    let walked = unsafe {
        let walker = &mut *place.walker.get();
        walker.change_thread(thread::bounds());
        let walked = walker.walk(here(), &site);
        thread::set_bounds(walker.bounds());
        walked
    };
    place.taken.store(0, Release);
    if walked.is_cut {
        table.count(word::CUT);
    }
    if walked.node == 0 {
        table.count(if site.is_full.get() { word::NO_FRAME } else { word::NO_STACK });
    }
    walked.node
}

/// Whether some thread is walking its stack.
pub(super) fn is_any_walked(table: &Table) -> bool {
    table.walkers.0.iter().any(|place| place.taken.load(SeqCst) != 0)
}

struct Site<'a> {
    table: &'a Table,
    is_full: Cell<bool>,
}

impl WalkHost for Site<'_> {
    type Rules = Rules;

    fn rules(&self) -> &Rules {
        &self.table.rules
    }

    fn is_own(&self, pc: u64) -> bool {
        (OWN[0].load(Relaxed)..OWN[1].load(Relaxed)).contains(&pc)
    }

    fn node(&self, parent: u32, pc: u64) -> u32 {
        let node = self.table.frames.find_or_add(parent, pc);
        self.is_full.set(self.is_full.get() || node == 0);
        node
    }

    /// Nothing is recorded here, because the reader finds files by the mappings of the process.
    fn object(&self, _: &MappedObject) -> bool {
        true
    }
}
