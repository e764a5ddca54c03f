//! The stacks of allocations. In: the calling thread's stack. Out: its number, and its nodes and modules in the mapped file.
//!
//! The tables lie on pages that a fork wipes: a child finds none and begins its own. An event that a signal's handler has interrupted,
//! which then forks, goes on in the child with empty tables: it finds no place in a file there, has no stack, and counts nothing.

mod modules;
mod nodes;
mod room;

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use allocanary_stacks::object::Object;
use allocanary_stacks::rules::Rules;
use allocanary_stacks::walk::{self, Host, Walker, here};

use self::modules::Modules;
use self::nodes::Nodes;
use self::room::Room;
use super::config;
use super::memory::map_wiped;
use super::process::{self, Process};
use crate::format::at;
use crate::predictor::Predictor;
use crate::stacks::StackId;

/// What a thread keeps. All zeros is its first state.
#[repr(C)]
pub(super) struct Kept {
    walker: Walker,
    predictor: Predictor,
}

/// What all threads share. All zeros is its first state.
#[repr(C)]
struct Tables {
    /// The file that the nodes lie in.
    base: AtomicPtr<u8>,
    /// The recorder's own library: its frames are left out. Nothing in a program that records itself.
    own: [AtomicU64; 2],
    nodes: Nodes,
    modules: Modules,
    rules: Rules,
}

/// Whether stacks can be walked, once that was looked up.
static POSSIBLE: AtomicBool = AtomicBool::new(false);

/// Whether the recorder is in a library of its own, which a preload is.
static IS_LIBRARY: AtomicBool = AtomicBool::new(false);

/// Looks up what walks need, which may allocate: with the allocator's functions, and before them.
pub(super) fn look_up() {
    IS_LIBRARY.store(true, SeqCst);
    POSSIBLE.store(walk::look_up(), SeqCst);
}

/// The same for a program that records itself, before its `main`. The recorder's functions lie among the program's: they stay in the
/// stacks, and a reader knows them by name.
pub fn look_up_in_program() {
    if !config::is_asked() {
        return;
    }
    POSSIBLE.store(walk::look_up(), SeqCst);
}

pub(super) fn are_possible() -> bool {
    POSSIBLE.load(SeqCst)
}

/// Makes the tables of a process whose file is mapped at `base`. False if there is no memory.
pub(super) fn begin(process: &Process, base: *mut u8) -> bool {
    let tables: *mut Tables = map_wiped(size_of::<Tables>().next_multiple_of(4096)).cast();
    // SAFETY: zeros are a valid state, and the mapping stays.
    let Some(made) = (unsafe { tables.as_ref() }) else { return false };
    // SAFETY: this library's own, which runs.
    if let Some(own) = unsafe { Object::of(begin as *const () as u64) }.filter(|_| IS_LIBRARY.load(SeqCst)) {
        made.own[0].store(own.start, Relaxed);
        made.own[1].store(own.end, Relaxed);
    }
    made.base.store(base, SeqCst);
    process.tables.store(tables.cast::<c_void>(), SeqCst);
    true
}

fn tables(process: &Process) -> Option<&Tables> {
    // SAFETY: what `begin` has stored, which is never unmapped.
    unsafe { process.tables.load(SeqCst).cast::<Tables>().as_ref() }
}

/// Bytes of the tables that are resident.
pub(super) fn own_bytes(process: &Process) -> u64 {
    /// Pages of the list of modules and of the nodes' chunks that a program usually needs.
    const OTHERS: u64 = 8 << 10;
    tables(process).map_or(0, |tables| tables.rules.resident() + tables.nodes.index_bytes() + OTHERS)
}

/// A chunk of a window begins, which is read by itself: nothing is foretold from the one before.
///
/// # Safety
///
/// The calling thread's own state, with room for what stacks need.
pub(super) unsafe fn begin_chunk(kept: *mut Kept) {
    // SAFETY: the caller's promise; all zeros is the first state.
    unsafe { (&raw mut (*kept).predictor).write_bytes(0, 1) };
}

/// A library was closed: its addresses may become another one's.
pub fn library_closed() {
    if let Some(tables) = process::present().and_then(tables) {
        tables.rules.forget();
    }
}

/// The stack of the thread's allocation, and whether it was to be expected. Once for each block of this size that has a stack.
///
/// # Safety
///
/// The calling thread's own state.
#[inline(never)]
pub(super) unsafe fn stack_of_here(kept: *mut Kept, size: u64) -> (StackId, bool) {
    let site = process::present().and_then(|process| {
        let tables = tables(process)?;
        Some(Site { tables, room: Room { process, base: &tables.base }, is_full: Cell::new(false) })
    });
    let walked = site.map(|site| {
        // SAFETY: the caller's promise: the thread's own walker, and from here. A call that interrupts this one finds the thread's
        // cursor taken.
        let walked = unsafe { (*kept).walker.walk(here(), &site) };
        if walked.is_cut || walked.is_broken {
            let count = if walked.is_cut { at::CUT } else { at::BROKEN };
            site.room.count(count);
        }
        if site.is_full.get() {
            site.room.count(at::NO_ROOM);
        }
        walked.node
    });
    let stack = walked.unwrap_or(0);
    // SAFETY: as above.
    let predictor = unsafe { &mut (*kept).predictor };
    let is_foretold = predictor.foretold(size) == stack;
    predictor.keep(size, stack);
    (stack, is_foretold)
}

/// What a walk needs.
struct Site<'a> {
    tables: &'a Tables,
    room: Room<'a>,
    /// A node had no room.
    is_full: Cell<bool>,
}

impl Host for Site<'_> {
    #[inline(always)]
    fn rules(&self) -> &Rules {
        &self.tables.rules
    }

    #[inline(always)]
    fn is_own(&self, pc: u64) -> bool {
        let [start, end] = &self.tables.own;
        (start.load(Relaxed)..end.load(Relaxed)).contains(&pc)
    }

    fn node(&self, parent: u32, pc: u64) -> u32 {
        self.tables.nodes.find_or_add(&self.room, parent, pc, &self.tables.modules).unwrap_or_else(|| {
            self.is_full.set(true);
            0
        })
    }

    fn object(&self, object: &Object) -> bool {
        self.tables.modules.find_or_add(&self.room, object, self.tables.rules.forgotten())
    }
}
