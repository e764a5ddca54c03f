//! A small service: threads that build pages of text, keep the last few, and check the pages that they kept. In: the
//! number of threads, the number of requests for each. Out: whether every byte is as it was written.
//!
//! It represents the part of a C program that is written in Rust. It uses this library's memory, so its cost depends on
//! the variant.

use std::collections::VecDeque;
use std::fmt::Write;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::{Barrier, PoisonError, RwLock};
use std::thread::{Builder, scope};

use allocanary_sys::rng::Rng;

use crate::border::{AllocanaryCode, guard, problem};

const MOST_THREADS: u32 = 1024;
/// The number of pages that each thread keeps.
const KEPT: usize = 48;
/// The maximum number of rows in a page. A row has some 40 bytes.
const MOST_ROWS: usize = 400;

/// A page, and the sum of its bytes when it was built.
struct Page {
    text: String,
    sum: u64,
}

impl Page {
    fn build(request: u32, rng: &mut Rng) -> Page {
        let mut text = String::new();
        for row in 0..=rng.below(MOST_ROWS) {
            // Writing to a string never fails.
            let _ = writeln!(text, "<tr><td>{request}</td><td>{row}</td><td>{:x}</td></tr>", rng.next());
        }
        Page { sum: sum(&text), text }
    }

    fn is_whole(&self) -> bool {
        sum(&self.text) == self.sum
    }
}

fn sum(text: &str) -> u64 {
    text.bytes().fold(7, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Runs a service in `threads` threads (1 to 1024) that all live at the same time and answer `requests` requests each.
/// Each request builds a page of text, and the last pages are kept. `ALLOCANARY_CODE_DAMAGED` if any page differs from
/// what was written. All memory of the service is freed at the end.
#[unsafe(no_mangle)]
pub extern "C" fn allocanary_service(threads: u32, requests: u32) -> AllocanaryCode {
    guard(|| {
        if !(1..=MOST_THREADS).contains(&threads) {
            let words = format_args!("threads: wanted 1 to {MOST_THREADS}, found {threads}");
            return problem((AllocanaryCode::Argument, words));
        }
        // The gate is locked until all threads have started. If one cannot be started, the others must not wait for it.
        let gate = RwLock::new(false);
        let all_served = Barrier::new(threads as usize);
        scope(|scope| {
            let mut may_start = gate.write().unwrap_or_else(PoisonError::into_inner);
            let mut workers = Vec::new();
            for index in 0..threads {
                let (gate, all_served) = (&gate, &all_served);
                let work = move || {
                    let may_start = *gate.read().unwrap_or_else(PoisonError::into_inner);
                    !may_start || serve(index, requests, all_served)
                };
                match Builder::new().spawn_scoped(scope, work) {
                    Ok(worker) => workers.push(worker),
                    Err(error) => {
                        let words = format_args!("thread {index} of {threads} cannot be started: {error}");
                        return problem((AllocanaryCode::Refused, words));
                    }
                }
            }
            *may_start = true;
            drop(may_start);
            // All threads are joined before a panic of one of them continues in this thread, up to the guard.
            let joined: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            if joined.into_iter().all(|whole| whole.unwrap_or_else(|panic| resume_unwind(panic))) {
                AllocanaryCode::Ok
            } else {
                problem((AllocanaryCode::Damaged, format_args!("a page is not what was written")))
            }
        })
    })
}

/// Answers one thread's requests. Returns whether all pages of this thread were whole.
fn serve(index: u32, requests: u32, all_served: &Barrier) -> bool {
    let served = catch_unwind(|| answer(index, requests));
    // No thread ends before all have their pages, because an allocator would give an ended thread's memory to the next
    // one. A thread that panicked reaches this point too, so no thread waits in vain.
    all_served.wait();
    let (whole, kept) = served.unwrap_or_else(|panic| resume_unwind(panic));
    whole && kept.iter().all(Page::is_whole)
}

/// Answers the requests. Returns whether the dropped pages were whole, and the pages that are kept.
fn answer(index: u32, requests: u32) -> (bool, VecDeque<Page>) {
    let mut rng = Rng::part(2018, u64::from(index));
    let mut kept: VecDeque<Page> = VecDeque::with_capacity(KEPT + 1);
    let mut whole = true;
    for request in 0..requests {
        kept.push_back(Page::build(request, &mut rng));
        if kept.len() > KEPT {
            whole &= kept.pop_front().is_some_and(|page| page.is_whole());
        }
    }
    (whole, kept)
}
