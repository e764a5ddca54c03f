//! A memory budget inside a process: before the kernel kills a container, its allocator gives back the pages that it keeps. In:
//! bytes that threads allocate. Out: readings of the limit and of what is in use, and what follows from them.
//!
//! No thread is started. Each thread counts what it allocates ([`counted`], or the allocator itself) and comes here after each
//! [`chunk`]. The sum of all threads decides when the next reading is due: half the way to the next level, so that no
//! burst passes one. One thread at a time reads and gives back; the others go on. [`account`] decides.

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

use allocanary_kernel::address_space;
use allocanary_kernel::clocks::monotonic_nanos;

use crate::allocator::Allocator;
use crate::error::Pages;
use account::{Account, Orders, Usage};
use decays::Decays;
use source::Room;

pub use counts::Counts;
pub use level::Level;
pub use source::{Source, WANTED};
pub use wanted::Wanted;
pub(crate) use wanted::problems;

/// The fewest and the most bytes after which a thread comes here.
const CHUNKS: [u64; 2] = [account::FEWEST, 1 << 20];

/// From this size on a block makes a purge due before it is touched. More than a chunk.
pub const LARGE: u64 = 2 << 20;

/// What a budget serves.
#[derive(Clone, Copy)]
pub struct Budget {
    /// The allocator.
    pub allocator: &'static dyn Allocator,
    /// Where the limit is from.
    pub source: Source,
    /// Does the work where it may be done, or not at all: not in a signal handler, whose thread may hold the allocator's locks.
    pub outside: fn(&mut dyn FnMut()),
    /// Writes a line, in parts, to wherever the program's errors go.
    pub say: fn(&[&str]),
}

/// What one thread at a time uses.
struct Desk {
    account: Account,
    room: Room,
    /// The decay times before they were set to zero, of dirty and of muzzy pages.
    decay: [Decays; 2],
}

struct Place<T>(UnsafeCell<T>);

// SAFETY: only the thread that has taken `TURN` uses the desk; the budget is written once, before it is on.
unsafe impl<T> Sync for Place<T> {}

static BUDGET: Place<Option<Budget>> = Place(UnsafeCell::new(None));

static DESK: Place<Desk> =
    Place(UnsafeCell::new(Desk { account: Account::new(), room: Room::new(), decay: [const { Decays::new() }; 2] }));
/// The address space whose thread is at the desk; 0 if none is. A fork's child finds its parent's number and begins anew.
static TURN: AtomicU32 = AtomicU32::new(0);
static IS_ON: AtomicBool = AtomicBool::new(false);
static COUNTS: Counts = Counts::new();
static CHUNK: AtomicU64 = AtomicU64::new(CHUNKS[0]);
/// Bytes since the last reading, and at how many the next is due.
static SINCE: AtomicU64 = AtomicU64::new(0);
static NEXT: AtomicU64 = AtomicU64::new(0);
/// How many times every thread was asked to give back.
static ASKED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Without a destructor: it can be used until the thread's end.
    static GAVE: Cell<u64> = const { Cell::new(0) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Turns a budget on, for the life of the process, and reads the limit, if `counts` says that threads come here from now on. Whether
/// it is on. Purges nothing yet, and allocates nothing.
///
/// # Safety
///
/// It is called once, before the process has a second thread.
pub unsafe fn turn_on(budget: Budget, counts: impl FnOnce() -> bool) -> bool {
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

/// A chunk under a limit: so small that what 64 threads have not told yet is a sixteenth of it, and so large that with jemalloc a
/// thread that only allocates and frees spends less than a thousandth of its instructions here.
fn chunk_of(limit: u64) -> u64 {
    if limit == 0 { CHUNKS[1] } else { (limit / 1024).clamp(CHUNKS[0], CHUNKS[1]) }
}

/// A thread comes here after so many bytes: follows from the limit at the start.
#[inline]
pub fn chunk() -> u64 {
    CHUNK.load(Ordering::Relaxed)
}

/// Whether there is one.
#[inline]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Acquire)
}

/// The budget that is on.
fn budget() -> Option<&'static Budget> {
    // SAFETY: written before it was on, and not again.
    is_on().then(|| unsafe { (*BUDGET.0.get()).as_ref() }).flatten()
}

/// What it has done; `None` without one.
pub fn counts() -> Option<&'static Counts> {
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

/// A fork's child has counts of its own. Runs in the child, which has one thread.
pub fn begin_anew() {
    COUNTS.begin_anew();
}

/// The calling thread has allocated `bytes` since it was here last, or is about to. Called from an allocation; what it allocates
/// itself does not come here again. `more` bytes will be in use besides those that are: fewer than `bytes` where a block grows, or is
/// freed as well.
pub fn at_chunk(bytes: u64, more: u64) {
    let since = SINCE.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    if since >= NEXT.load(Ordering::Relaxed) || is_asked() {
        act(since, more);
    }
}

/// Whether this thread is to give back what it keeps.
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

/// The calling thread is about to wait: it gives back what it keeps if all threads were asked to, and it has not since.
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

fn give_back(budget: &Budget) {
    let asked = ASKED.load(Ordering::Relaxed);
    (budget.outside)(&mut || {
        GAVE.set(asked);
        // An allocator that cannot has been told at the start.
        if crate::give_back_heap(budget.allocator, Duration::ZERO) == Ok(true) {
            COUNTS.threads.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Reads, and does what follows. Not while another thread does.
fn look(budget: &Budget, more: u64) {
    let told = at_desk(|desk| {
        SINCE.store(0, Ordering::Relaxed);
        COUNTS.looks.fetch_add(1, Ordering::Relaxed);
        let Some(reading) = source::read(budget.source, &mut desk.room, more, desk.account.asks_for_faults()) else {
            // All stays as it is, and the next reading is as far away as this one was.
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
    // Not at the desk: the program's function may take its time, and other threads have levels of their own to reach.
    let Some((tell, say)) = told else { return };
    if let Some(limit) = say {
        let mib = |bytes: u64, with: &mut dyn FnMut(&str)| {
            crate::request::Decimal::of((bytes >> 20).into()).with(|text| with(text))
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

/// Gives back what the allocator keeps, and reads again.
fn purge(budget: &Budget, desk: &mut Desk, orders: Orders, before: Usage) -> Orders {
    let began = monotonic_nanos();
    desk.keep(budget, orders.keep_nothing);
    let asked = if orders.everyone { ASKED.fetch_add(1, Ordering::Relaxed) + 1 } else { ASKED.load(Ordering::Relaxed) };
    GAVE.set(asked); // this thread's own goes with the rest
    let _ = budget.allocator.purge(); // an allocator that cannot has been told at the start
    let reading = source::read(budget.source, &mut desk.room, before.more, desk.account.asks_for_faults());
    let now = reading.map_or_else(monotonic_nanos, |reading| reading.now);
    COUNTS.purges.fetch_add(1, Ordering::Relaxed);
    COUNTS.nanos.fetch_add(now.saturating_sub(began), Ordering::Relaxed);
    let Some(reading) = reading else {
        COUNTS.unread.fetch_add(1, Ordering::Relaxed);
        return desk.account.purged_unread(began, Usage { now, ..before });
    };
    let orders = desk.account.purged(began, before.used, reading);
    desk.keep(budget, orders.keep_nothing);
    orders
}

impl Desk {
    /// Sets decay to zero, or to what it was, where the allocator has it. A time that the program has set meanwhile stays.
    fn keep(&mut self, budget: &Budget, nothing: Option<bool>) {
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

/// Does the work at the desk; `None` if another thread of this address space is there.
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

/// Does work within an allocation: `errno` stays, and the thread is not cancelled at a file that is read.
fn undisturbed(work: impl FnOnce()) {
    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }
    const DISABLE: c_int = 1;
    let mut before = 0;
    // SAFETY: C's functions; both places are this thread's.
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
