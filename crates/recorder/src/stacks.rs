//! The stacks of allocations. In: the calling thread's stack. Out: its number, and its nodes and modules in the mapped file.
//!
//! The tables are on pages that a fork wipes: a child finds no tables and begins its own. If a signal handler interrupts an event and
//! forks, the event continues in the child with empty tables. It then finds no file, gets no stack, and counts nothing.

mod modules;
mod nodes;
mod room;

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use allocanary_stacks::object::MappedObject;
use allocanary_stacks::rules::{RuleCache, Rules};
use allocanary_stacks::walk::{self, StackWalker, WalkHost, here};

use self::modules::Modules;
use self::nodes::Nodes;
use self::room::Room;
use super::config;
use super::memory::map_wiped;
use super::process::{self, Process};
use allocanary_trace::format::at;
use allocanary_trace::predictor::Predictor;
use allocanary_trace::stacks::StackId;

/// The part of a thread's state that stacks need. All zeros is the first state.
#[repr(C)]
pub(super) struct Kept {
    walker: StackWalker,
    predictor: Predictor,
}

/// The state that all threads share. All zeros is the first state.
#[repr(C)]
struct Tables {
    /// The file with the nodes.
    base: AtomicPtr<u8>,
    /// The address range of the recorder's own library, whose frames are left out. Empty in a program that records
    /// itself.
    own: [AtomicU64; 2],
    nodes: Nodes,
    modules: Modules,
    rules: Rules,
}

/// Whether stacks can be walked. It is set when the functions have been looked up.
static POSSIBLE: AtomicBool = AtomicBool::new(false);

/// Whether the recorder is in its own library, as in a preload.
static IS_LIBRARY: AtomicBool = AtomicBool::new(false);

/// Looks up the functions that walks need, which may allocate. It runs before the allocator's functions are looked up.
pub(super) fn look_up() {
    IS_LIBRARY.store(true, SeqCst);
    POSSIBLE.store(walk::look_up(), SeqCst);
}

/// Looks up the same functions for a program that records itself, before its `main`. The recorder's functions are part of this program.
/// They stay in the stacks, and a reader recognises them by name.
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
    // SAFETY: an address of this library's own code, which is running.
    if let Some(own) = unsafe { MappedObject::of(begin as *const () as u64) }.filter(|_| IS_LIBRARY.load(SeqCst)) {
        made.own[0].store(own.start, Relaxed);
        made.own[1].store(own.end, Relaxed);
    }
    made.base.store(base, SeqCst);
    process.tables.store(tables.cast::<c_void>(), SeqCst);
    true
}

fn tables(process: &Process) -> Option<&Tables> {
    // SAFETY: the pointer that `begin` has stored. This memory is never unmapped.
    unsafe { process.tables.load(SeqCst).cast::<Tables>().as_ref() }
}

/// Gives back the memory of the tables. A thread that is inside of a walk finds them empty, as the child of a fork does.
pub(super) fn leave(process: &Process) {
    if let Some(tables) = tables(process) {
        // SAFETY: `begin` has mapped the tables.
        unsafe { tables.rules.empty() };
        tables.nodes.empty();
    }
}

/// Bytes of the tables that are resident.
pub(super) fn own_bytes(process: &Process) -> u64 {
    /// Bytes of the list of modules and of the nodes' chunks that a program usually makes resident.
    const OTHERS: u64 = 8 << 10;
    tables(process).map_or(0, |tables| tables.rules.resident() + tables.nodes.index_bytes() + OTHERS)
}

/// Begins a chunk of a window. Each chunk is read by itself, so the predictor starts again.
///
/// # Safety
///
/// `kept` is the calling thread's own state, with room for what stacks need.
pub(super) unsafe fn begin_chunk(kept: *mut Kept) {
    // SAFETY: the caller's promise; all zeros is the first state.
    unsafe { (&raw mut (*kept).predictor).write_bytes(0, 1) };
}

/// Called after a library was closed, because another one may get its addresses.
pub fn library_closed() {
    if let Some(tables) = process::present().and_then(tables) {
        tables.rules.forget();
    }
}

/// The number of the present allocation's stack, and whether it was predicted. Call it once for each block that has a stack. `size` is the
/// size of the block in bytes.
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
        // SAFETY: the caller promises that this is the thread's own walker; the walk begins here. If another call
        // interrupts this one, it finds the thread's cursor taken, and does not use the walker.
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

/// The data that a walk needs.
struct Site<'a> {
    tables: &'a Tables,
    room: Room<'a>,
    /// Whether a node had no room.
    is_full: Cell<bool>,
}

impl WalkHost for Site<'_> {
    type Rules = Rules;

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

    fn object(&self, object: &MappedObject) -> bool {
        self.tables.modules.find_or_add(&self.room, object, self.tables.rules.forgotten())
    }
}
