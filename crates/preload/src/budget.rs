//! The setting `memory_budget`: the allocator gives back its unused memory before the kernel kills the container. In: the setting, and the
//! number of bytes that threads allocate. Out: memory that goes back to the system, a line on standard error if that is not enough,
//! and counts for the proof.

use std::fmt::Write;

use allocanary::budget::{self, MemoryBudget, LimitSource};
use std::sync::atomic::Ordering;

use crate::line::JsonLine;
use crate::this::This;
use crate::{handlers, raw, sandbox};

/// Turns the budget on, in the constructor. Returns whether the budget works with this allocator; if not, nothing is turned on. Some
/// allocators count the allocated bytes themselves, but only after the allocation. For these, the entries announce large blocks that grow.
pub(crate) fn turn_on(this: &'static This, source: LimitSource) -> bool {
    handlers::learn();
    let counts = || {
        let works = !this.is_direct || this.allocator.each_chunk(budget::chunk(), at_chunk).is_ok();
        if works {
            (this.count)();
        }
        works
    };
    // SAFETY: this is the only call; the constructor makes it.
    unsafe { budget::turn_on(MemoryBudget { allocator: this.allocator, source, outside, say }, counts) }
}

/// Called when a thread has allocated `bytes`. The thread is about to use `more` bytes in addition to the memory in use.
pub(crate) fn at_chunk(bytes: u64, more: u64) {
    if !sandbox::is_entered() {
        budget::at_chunk(bytes, more);
    }
}

/// The calling thread is about to use a block of `more` bytes.
pub(crate) fn before_block(more: u64) {
    if !sandbox::is_entered() {
        budget::before_block(more);
    }
}

/// The calling thread is about to wait.
#[inline]
pub(crate) fn before_wait() {
    budget::before_wait();
}

/// Does the work, unless the thread is in a signal handler, or the program has set a filter of system calls.
fn outside(work: &mut dyn FnMut()) {
    if !sandbox::is_entered() {
        handlers::outside(work);
    }
}

fn say(parts: &[&str]) {
    let mut line = [0; 256];
    let mut length = 0;
    for byte in parts.iter().flat_map(|part| part.bytes()).take(line.len()) {
        line[length] = byte;
        length += 1;
    }
    raw::complain(&line[..length]);
}

/// Adds the limit in force to the first line of the proof.
pub(crate) fn prove_limit(line: &mut JsonLine) {
    if let Some(counts) = budget::counts() {
        line.add(",\"memory_budget\":{");
        limit(line, counts);
        line.add("}");
    }
}

/// Adds the limit and the counts to the last line of the proof.
pub(crate) fn prove_counts(line: &mut JsonLine) {
    let Some(counts) = budget::counts() else { return };
    line.add(",\"memory_budget\":{");
    limit(line, counts);
    let all = [
        ("looks", &counts.looks),
        ("unread", &counts.unread),
        ("levels", &counts.levels),
        ("purges", &counts.purges),
        ("threads", &counts.threads),
    ];
    for (name, count) in all {
        line.add_number(name, Some(count.load(Ordering::Relaxed)));
    }
    let nanos = counts.nanos.load(Ordering::Relaxed);
    let _ = write!(line, ",\"spent_seconds\":{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    line.add("}");
}

fn limit(line: &mut JsonLine, counts: &budget::BudgetCounters) {
    let _ = match counts.limit.load(Ordering::Relaxed) {
        0 => write!(line, "\"limit_bytes\":null"),
        limit => write!(line, "\"limit_bytes\":{limit}"),
    };
}
