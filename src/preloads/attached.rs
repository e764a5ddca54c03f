//! The recorder in a process that already runs. In: the request that the command outside has written to [`REQUEST`]. Out: tables that are
//! changed or restored, and an answer.
//!
//! The command makes a thread of the process look up `allocanary_act`. The loader calls such a symbol's resolver with its own lock
//! held. So no other thread opens or closes a library during the call, and the tables of all modules are complete.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use allocanary_recorder::attached::{AttachedConfig, attach, detach};
use allocanary_recorder::got::{Changed, Definition, GotSlots, Replacement, comes_before, definition};
use allocanary_trace::request::{
    ATTACH, DETACH, LOOK_AGAIN, PatchRequest, Reply, STATE_ATTACHED, STATE_DETACHED, STATE_NEVER,
};

use crate::functions;

/// The jump to `act`. The instruction before it is a valid target of a call, if the processor checks this (BTI).
#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    () => {
        "jmp {resolver}"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    () => {
        "hint #34; b {resolver}"
    };
}

core::arch::global_asm!(
    ".pushsection .text.allocanary_act,\"ax\",@progbits",
    ".globl allocanary_act",
    ".type allocanary_act, %gnu_indirect_function",
    "allocanary_act:",
    jump!(),
    ".size allocanary_act, . - allocanary_act",
    ".popsection",
    resolver = sym act,
);

/// A place that only one thread at a time uses: the thread that holds the loader's lock.
#[repr(transparent)]
pub struct Place<T>(UnsafeCell<T>);

// SAFETY: only the thread that holds the loader's lock uses it.
unsafe impl<T> Sync for Place<T> {}

/// The request. The command writes it from outside, before it makes a thread act.
#[unsafe(export_name = "allocanary_request")]
pub static REQUEST: Place<PatchRequest> = Place(UnsafeCell::new(PatchRequest::NONE));

static REPLY: Place<Reply> = Place(UnsafeCell::new(Reply {
    state: STATE_NEVER,
    error: 0,
    step: 0,
    modules: 0,
    words: 0,
    left: 0,
    others: 0,
    gone: 0,
}));
static FUNCTIONS: Place<[Replacement; NAMES.len()]> =
    Place(UnsafeCell::new([Replacement { name: c"", real: [0; 2], ours: 0 }; NAMES.len()]));
static SLOTS: GotSlots = GotSlots::new();
static STATE: AtomicU32 = AtomicU32::new(STATE_NEVER);

/// The functions of the program, and the functions that replace them. The first five are those that the recorder itself calls, in the
/// recorder's order.
const NAMES: [(&CStr, *const c_void); 14] = [
    (c"malloc", functions::malloc as *const c_void),
    (c"calloc", functions::calloc as *const c_void),
    (c"realloc", functions::realloc as *const c_void),
    (c"free", functions::free as *const c_void),
    (c"posix_memalign", functions::posix_memalign as *const c_void),
    (c"reallocarray", functions::reallocarray as *const c_void),
    (c"cfree", functions::cfree as *const c_void),
    (c"memalign", functions::memalign as *const c_void),
    (c"aligned_alloc", functions::aligned_alloc as *const c_void),
    (c"valloc", functions::valloc as *const c_void),
    (c"pvalloc", functions::pvalloc as *const c_void),
    (c"prctl", functions::prctl as *const c_void),
    (c"syscall", functions::syscall as *const c_void),
    (c"dlclose", functions::dlclose as *const c_void),
];

/// These functions are replaced whichever library has them. The recorder must know of closed libraries, and must end before a call that
/// forbids the process what the recorder needs.
const OF_ANY: [&CStr; 3] = [c"prctl", c"syscall", c"dlclose"];

/// The functions of the malloc family that the recorder calls.
const CALLED: usize = 5;

fn own() -> usize {
    act as *const () as usize
}

/// Whether a running process opened this library, and `LD_PRELOAD` did not name it.
pub fn is_opened() -> bool {
    !comes_before(own(), functions::libc_errno as *const () as usize)
}

/// Carries out the request. The result is the address of the answer.
extern "C" fn act() -> *const Reply {
    // SAFETY: the loader's lock makes this thread the only one.
    let request = unsafe { &*REQUEST.0.get() };
    let state = STATE.load(SeqCst);
    let mut reply = match (request.act, state) {
        _ if !is_opened() => failed(7, 0),
        (ATTACH, STATE_NEVER | STATE_DETACHED) => begin(request).unwrap_or_else(|failed| failed),
        (LOOK_AGAIN, STATE_ATTACHED) => change().unwrap_or_else(|failed| failed),
        (DETACH, STATE_ATTACHED) => end(),
        _ => failed(6, 0),
    };
    reply.state = STATE.load(SeqCst);
    // SAFETY: as above.
    unsafe { REPLY.0.get().write(reply) };
    REPLY.0.get()
}

fn failed(step: u32, error: i32) -> Reply {
    Reply { step, error, ..Reply::default() }
}

/// Finds the allocator, begins the trace, and changes the tables.
fn begin(request: &PatchRequest) -> Result<Reply, Reply> {
    let allocator = definition(c"malloc", own()).ok_or(failed(1, 0))?;
    if allocator.module == 0 {
        return Err(failed(2, 0));
    }
    let found = NAMES.map(|(name, _)| definition(name, own()));
    let is_its_own = |one: &Option<Definition>| one.is_some_and(|one| one.module == allocator.module);
    if !found[..CALLED].iter().all(is_its_own) {
        return Err(failed(3, 0));
    }
    // SAFETY: as in `act`.
    let functions = unsafe { &mut *FUNCTIONS.0.get() };
    for (function, ((name, ours), found)) in functions.iter_mut().zip(NAMES.into_iter().zip(found)) {
        let is_used = OF_ANY.contains(&name) || is_its_own(&found);
        let real = found.filter(|_| is_used).map_or([0; 2], |one| one.at);
        *function = Replacement { name: if real[0] == 0 { c"" } else { name }, real, ours: ours.addr() };
    }
    functions::DLCLOSE.store(functions[NAMES.len() - 1].real[0], SeqCst);
    let folder = request.folder.get(..request.length as usize).unwrap_or_default();
    let asked = AttachedConfig { folder, limit: request.limit, rate: request.rate, stacks: request.stacks };
    let mut real = [0; CALLED];
    real.iter_mut().zip(functions.iter()).for_each(|(real, function)| *real = function.real[0]);
    // SAFETY: this thread waited outside of the allocator, and is the only one here; these functions are the program's.
    unsafe { attach(&asked, real) }.map_err(|error| failed(4, error))?;
    STATE.store(STATE_ATTACHED, SeqCst);
    change().inspect_err(|_| _ = end())
}

/// Changes the tables of all modules that are not changed yet.
fn change() -> Result<Reply, Reply> {
    // SAFETY: as in `act`.
    let functions = unsafe { &*FUNCTIONS.0.get() };
    // The allocator's own library must call its own functions.
    let allocator = functions[0].real[0];
    let is_c_library =
        definition(c"getppid", own()).map(|one| one.module) == definition(c"malloc", own()).map(|one| one.module);
    let skipped = [allocator];
    let skipped = if is_c_library { &[][..] } else { &skipped };
    // SAFETY: the loader's lock is held. The recorder's functions have the contracts of the program's functions.
    let changed = unsafe { SLOTS.change(functions, own(), skipped) };
    let Changed { modules, words, left } = changed.map_err(|error| failed(5, error))?;
    Ok(Reply { modules, words, left, ..Reply::default() })
}

/// Restores the tables, and ends the trace.
fn end() -> Reply {
    // SAFETY: as in `change`.
    let back = match unsafe { SLOTS.put_back() } {
        Ok(back) => back,
        Err(error) => return failed(5, error),
    };
    // SAFETY: as in `begin`.
    unsafe { detach() };
    STATE.store(STATE_DETACHED, SeqCst);
    Reply { words: back.words, others: back.others, gone: back.gone, ..Reply::default() }
}
