//! A memory budget inside a process: the allocator gives back the pages that it keeps before the kernel kills the container. In: how many
//! bytes threads allocate. Out: readings of the limit and of the bytes in use, and the orders that follow from them.
//!
//! No thread is started. Each thread counts what it allocates (in [`counted`], or in the allocator itself) and calls
//! [`at_chunk`] after each [`chunk`]. The sum of all threads decides when the next reading is due: halfway to the next level,
//! so that no burst passes a level unnoticed. One thread at a time reads and gives back; the other threads continue.
//! [`account`] decides.

pub mod account;
mod callback;
pub mod counted;
mod counts;
pub mod decays;
pub mod level;
mod purse;
mod source;
mod wanted;

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use allocanary_sys::address_space;
use allocanary_sys::clocks::monotonic_nanos;

use crate::allocator::Allocator;
use crate::error::Pages;
use account::{BudgetHistory, BudgetUsage, Orders};
use decays::Decays;
use source::Room;

pub use counts::BudgetCounters;
pub use level::Level;
pub use source::{LimitSource, WANTED};
pub use wanted::BudgetSpec;
pub(crate) use wanted::problems;

/// The minimum and the maximum of bytes after which a thread calls [`at_chunk`].
const CHUNKS: [u64; 2] = [account::FEWEST, 1 << 20];

/// A block of at least this size may make a purge due before it is touched. The size is larger than a chunk.
pub const LARGE: u64 = 2 << 20;

/// The allocator and the environment of a budget.
#[derive(Clone, Copy)]
pub struct MemoryBudget {
    /// The allocator.
    pub allocator: &'static dyn Allocator,
    /// The source of the limit.
    pub source: LimitSource,
    /// Calls the function only if its work is allowed here. In a signal handler it does not call it: the interrupted thread may hold
    /// the allocator's locks.
    pub outside: fn(&mut dyn FnMut()),
    /// Writes a line, in parts, to where the program's errors go.
    pub say: fn(&[&str]),
}

struct Desk {
    account: BudgetHistory,
    room: Room,
    /// The decay times before they were set to zero, of dirty and of muzzy pages.
    decay: [Decays; 2],
}

struct Place<T>(UnsafeCell<T>);

// SAFETY: only the thread that has taken `TURN` uses the desk; the budget is written once, before it is on.
unsafe impl<T> Sync for Place<T> {}

static BUDGET: Place<Option<MemoryBudget>> = Place(UnsafeCell::new(None));

static DESK: Place<Desk> = Place(UnsafeCell::new(Desk {
    account: BudgetHistory::new(),
    room: Room::new(),
    decay: [const { Decays::new() }; 2],
}));
/// The address space of the thread that has the turn; 0 if none has it. After a fork, the child finds its parent's
/// number, and so takes the turn itself.
static TURN: AtomicU32 = AtomicU32::new(0);
static IS_ON: AtomicBool = AtomicBool::new(false);
static COUNTS: BudgetCounters = BudgetCounters::new();
static CHUNK: AtomicU64 = AtomicU64::new(CHUNKS[0]);
/// Bytes since the last reading, and the number of bytes at which the next reading is due.
static SINCE: AtomicU64 = AtomicU64::new(0);
static NEXT: AtomicU64 = AtomicU64::new(0);
/// How often all threads were asked to give back what they keep.
static ASKED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The cells have no destructor, so they can be used until the thread's end. `GAVE` is the value of [`ASKED`] for which this thread
    /// gave back what it kept.
    static GAVE: Cell<u64> = const { Cell::new(0) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Turns a budget on for the life of the process, and reads the limit. `counts` makes threads call [`at_chunk`] from now on. If `counts`
/// returns `false`, the budget stays off. Returns whether the budget is on. Purges and allocates nothing.
///
/// # Safety
///
/// Call it once, before the process has a second thread.
pub unsafe fn turn_on(budget: MemoryBudget, counts: impl FnOnce() -> bool) -> bool {
    // SAFETY: the caller's promise.
    unsafe { *BUDGET.0.get() = Some(budget) };
    let limit = at_desk(|desk| source::read(budget.source, &mut desk.room, 0, false)?.limit);
    let limit = limit.flatten().unwrap_or(0);
    COUNTS.limit.store(limit, Ordering::Relaxed);
    CHUNK.store(chunk_of(limit), Ordering::Relaxed);
    let counts = counts();
    IS_ON.store(counts, Ordering::Release);
    counts
}

/// The size of a chunk under a limit. It is so small that the bytes that 64 threads have not yet reported are at most a sixteenth
/// of the limit. It is so large that with jemalloc a thread that only allocates and frees spends less than a thousandth of its
/// instructions here.
fn chunk_of(limit: u64) -> u64 {
    if limit == 0 { CHUNKS[1] } else { (limit / 1024).clamp(CHUNKS[0], CHUNKS[1]) }
}

/// The bytes after which a thread calls [`at_chunk`]. The limit at the start decides it.
#[inline]
pub fn chunk() -> u64 {
    CHUNK.load(Ordering::Relaxed)
}

/// Whether a budget is on.
#[inline]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Acquire)
}

fn budget() -> Option<&'static MemoryBudget> {
    // SAFETY: written before the budget was on, and not again.
    is_on().then(|| unsafe { (*BUDGET.0.get()).as_ref() }).flatten()
}

/// What the budget has done so far; `None` without a budget.
pub fn counts() -> Option<&'static BudgetCounters> {
    is_on().then_some(&COUNTS)
}

/// Calls of the program's function that ended in a panic.
pub fn panics() -> u64 {
    callback::panics()
}

/// See [`tuning::on_pressure`](crate::tuning::on_pressure).
pub(crate) fn on_pressure(callback: Box<dyn Fn(Level) + Send + Sync>) {
    callback::set(callback);
}

/// Resets the counts. Runs in the child of a fork, which has one thread.
pub fn begin_anew() {
    COUNTS.begin_anew();
}

/// The calling thread has allocated `bytes` since its last call of this function, or is about to. An allocation calls it. Allocations
/// within this function cause no further call. `more` says by how many bytes the memory in use will grow. It is less than `bytes` if a
/// block only grows, or if a block is freed too.
pub fn at_chunk(bytes: u64, more: u64) {
    let since = SINCE.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    if since >= NEXT.load(Ordering::Relaxed) || is_asked() {
        act(since, more);
    }
}

/// The calling thread is about to use a whole block of `more` bytes, for example to copy a block that grows: both exist until the copy is
/// complete. Like [`at_chunk`], but the bytes do not count as allocated yet.
#[cold]
pub fn before_block(more: u64) {
    let since = SINCE.load(Ordering::Relaxed).saturating_add(more);
    if since >= NEXT.load(Ordering::Relaxed) || is_asked() {
        act(since, more);
    }
}

/// Whether this thread has been asked to give back what it keeps, and has not done so yet.
#[inline]
fn is_asked() -> bool {
    let asked = ASKED.load(Ordering::Relaxed);
    asked != 0 && asked != GAVE.get()
}

#[cold]
fn act(since: u64, more: u64) {
    let Some(budget) = budget() else { return };
    if INSIDE.replace(true) {
        return;
    }
    undisturbed(|| {
        if is_asked() {
            give_back(budget);
        }
        if since >= NEXT.load(Ordering::Relaxed) {
            look(budget, if more >= LARGE { more } else { 0 });
        }
    });
    INSIDE.set(false);
}

/// Called when the calling thread is about to wait. If all threads were asked to give back what they keep, and this thread has not done so
/// yet, it does so now.
#[inline]
pub fn before_wait() {
    if is_asked() {
        give_back_now();
    }
}

#[cold]
fn give_back_now() {
    let Some(budget) = budget() else { return };
    if !INSIDE.replace(true) {
        undisturbed(|| give_back(budget));
        INSIDE.set(false);
    }
}

fn give_back(budget: &MemoryBudget) {
    let asked = ASKED.load(Ordering::Relaxed);
    (budget.outside)(&mut || {
        GAVE.set(asked);
        // If the allocator cannot do it, that was reported at the start.
        if crate::give_back_heap(budget.allocator, Duration::ZERO) == Ok(true) {
            COUNTS.threads.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Makes a reading, and does what follows from it. Does nothing while another thread does this.
fn look(budget: &MemoryBudget, more: u64) {
    let told = at_desk(|desk| {
        SINCE.store(0, Ordering::Relaxed);
        COUNTS.looks.fetch_add(1, Ordering::Relaxed);
        let Some(reading) = source::read(budget.source, &mut desk.room, more, desk.account.asks_for_faults()) else {
            // Nothing changes. The next reading is due after the same number of bytes as this one.
            COUNTS.unread.fetch_add(1, Ordering::Relaxed);
            return (None, None);
        };
        let mut orders = desk.account.look(reading);
        if orders.purge {
            (budget.outside)(&mut || orders = purge(budget, desk, orders, reading));
        } else if orders.keep_nothing.is_some() {
            (budget.outside)(&mut || desk.keep(budget, orders.keep_nothing));
        }
        NEXT.store(orders.next, Ordering::Relaxed);
        COUNTS.limit.store(desk.account.limit(), Ordering::Relaxed);
        if let Some(level) = orders.tell {
            COUNTS.tell(level);
        }
        (orders.tell, orders.say.then(|| desk.account.limit()))
    });
    // The turn ends here, because the program's function may take long. During that time other threads may reach further levels.
    let Some((tell, say)) = told else { return };
    if let Some(limit) = say {
        let mib = |bytes: u64, with: &mut dyn FnMut(&str)| {
            allocanary_facts::request::Decimal::of((bytes >> 20).into()).with(|text| with(text))
        };
        mib(limit, &mut |limit| {
            (budget.say)(&[
                "allocanary: memory budget: over 95 % of ",
                limit,
                " MiB are in use after all kept pages were given back: raise the limit, or hold less\n",
            ]);
        });
    }
    if let Some(level) = tell {
        callback::call(level);
    }
}

/// Gives back what the allocator keeps, and makes another reading.
fn purge(budget: &MemoryBudget, desk: &mut Desk, orders: Orders, before: BudgetUsage) -> Orders {
    let began = monotonic_nanos();
    let asked = if orders.everyone { ASKED.fetch_add(1, Ordering::Relaxed) + 1 } else { ASKED.load(Ordering::Relaxed) };
    GAVE.set(asked); // this thread's own memory is given back here too
    let _ = budget.allocator.purge(); // an allocator that cannot do it was reported at the start
    // Comes after the purge: under a delay of 0 mimalloc no longer looks for memory that was freed before.
    desk.keep(budget, orders.keep_nothing);
    let reading = source::read(budget.source, &mut desk.room, before.more, desk.account.asks_for_faults());
    let now = reading.map_or_else(monotonic_nanos, |reading| reading.now);
    COUNTS.purges.fetch_add(1, Ordering::Relaxed);
    COUNTS.nanos.fetch_add(now.saturating_sub(began), Ordering::Relaxed);
    let Some(reading) = reading else {
        COUNTS.unread.fetch_add(1, Ordering::Relaxed);
        return desk.account.purged_unread(began, BudgetUsage { now, ..before });
    };
    let orders = desk.account.purged(began, before.used, reading);
    desk.keep(budget, orders.keep_nothing);
    orders
}

impl Desk {
    /// Sets decay to zero, or restores it, if the allocator has decay. A time that the program has set meanwhile stays.
    fn keep(&mut self, budget: &MemoryBudget, nothing: Option<bool>) {
        let Some(nothing) = nothing else { return };
        for (pages, before) in [Pages::Dirty, Pages::Muzzy].into_iter().zip(&mut self.decay) {
            match nothing {
                true => budget.allocator.stop_decay(pages, before),
                false => budget.allocator.decay_again(pages, before),
            }
        }
        self.account.keeps(nothing);
    }
}

/// Does the work if this thread gets the turn; `None` if another thread of this address space has it.
fn at_desk<R>(work: impl FnOnce(&mut Desk) -> R) -> Option<R> {
    let this = address_space::number();
    let seen = TURN.load(Ordering::Acquire);
    if seen == this || TURN.compare_exchange(seen, this, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return None;
    }
    // SAFETY: this thread has the turn.
    let answer = work(unsafe { &mut *DESK.0.get() });
    TURN.store(0, Ordering::Release);
    Some(answer)
}

/// Does work within an allocation. `errno` is preserved, and the thread is not cancelled while it reads a file.
fn undisturbed(work: impl FnOnce()) {
    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }
    const DISABLE: c_int = 1;
    let mut before = 0;
    // SAFETY: C's functions; both pointers are to this thread's own data.
    unsafe {
        let errno = *libc::__errno_location();
        pthread_setcancelstate(DISABLE, &mut before);
        work();
        pthread_setcancelstate(before, std::ptr::null_mut());
        *libc::__errno_location() = errno;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_is_at_the_desk_and_a_fork_s_child_takes_the_place_of_its_parent_s() {
        let inner = at_desk(|_| at_desk(|_| ()));
        assert_eq!(inner, Some(None), "another thread, or a signal handler of this one");
        TURN.store(address_space::number() + 1, Ordering::SeqCst); // a thread of the parent, at the time of the fork
        assert_eq!(at_desk(|_| 7), Some(7));
        assert_eq!(at_desk(|_| 8), Some(8), "the place was left");
    }

    #[test]
    fn a_child_that_shares_the_memory_does_not_take_the_desk_of_its_parent_s_thread() {
        let mut found = Some(());
        at_desk(|_| allocanary_testing::vforked::in_vforked_child(|| found = at_desk(|_| ())));
        assert_eq!(found, None);
    }

    #[test]
    fn a_chunk_follows_from_the_limit() {
        let chunks = [0, 64 << 20, 256 << 20, 1 << 30, 1 << 40].map(chunk_of);
        assert_eq!(chunks, [1 << 20, 64 << 10, 256 << 10, 1 << 20, 1 << 20]);
    }

    #[test]
    fn errno_is_as_before_and_nothing_happens_without_a_budget() {
        // SAFETY: this thread's errno.
        let errno = || unsafe { *libc::__errno_location() };
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = 7 };
        // SAFETY: as above.
        undisturbed(|| unsafe { *libc::__errno_location() = 9 });
        assert_eq!(errno(), 7);
        at_chunk(1 << 40, 1 << 40);
        before_wait();
        assert!(!is_on() && counts().is_none() && !INSIDE.get());
    }
}
