//! The cost of `tuning::thread_idle` if there is nothing to do. In: each allocator. Out: the time of a call, and its instructions as
//! callgrind counts them.
//!
//! `cargo bench --bench idle` (the instructions need valgrind)
//!
//! A "quiet" thread has not allocated since its last call, and a "busy" one has. Both call again before `give_back_every_ms` are over.

use std::alloc::GlobalAlloc;
use std::alloc::Layout;
use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use allocanary::Allocator;
use allocanary::give_back;
use allocanary::{Jemalloc, Mimalloc, System};
use allocanary_testing::callgrind;

const HOUR: Duration = Duration::from_secs(3600);
const CASES: [(&str, bool); 2] = [("quiet", false), ("busy", true)];

/// Each allocator, and the calls by which a thread allocates and frees to be busy.
fn all() -> [(&'static dyn Allocator, &'static dyn GlobalAlloc); 3] {
    [(&Jemalloc, &tikv_jemallocator::Jemalloc), (&System, &std::alloc::System), (&Mimalloc, &mimalloc::MiMalloc)]
}

fn traffic(allocator: &dyn GlobalAlloc) {
    let layout = Layout::new::<[u8; 1 << 17]>();
    // SAFETY: the size is not 0, and the block goes back to its allocator.
    unsafe { allocator.dealloc(black_box(allocator.alloc(layout)), layout) };
}

/// Makes the first call, which is never too early, and then `times` calls that have nothing to do.
fn calls(name: &str, busy: bool, times: u64) -> Duration {
    let (allocator, memory) = all().into_iter().find(|(allocator, _)| allocator.name() == name).expect("it is linked");
    traffic(memory);
    let _ = give_back(allocator, HOUR);
    if busy {
        traffic(memory);
    }
    let started = Instant::now();
    for _ in 0..times {
        assert_eq!(give_back(black_box(allocator), HOUR), Ok(false), "nothing is due");
    }
    started.elapsed()
}

fn main() {
    // Under callgrind, the program calls itself: `count <allocator> <case> <calls>`.
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, name, case, times] = &arguments[..]
        && word == "count"
    {
        calls(name, case == "busy", times.parse().expect("a number of calls"));
        return;
    }
    let valgrind = callgrind::is_here();
    for (allocator, _) in all() {
        for (case, busy) in CASES {
            const TIMES: u64 = 1_000_000;
            let mut nanos: Vec<f64> =
                (0..31).map(|_| calls(allocator.name(), busy, TIMES).as_nanos() as f64 / TIMES as f64).collect();
            nanos.sort_unstable_by(f64::total_cmp);
            let counted = valgrind.then(|| instructions(allocator.name(), case)).map(|count| format!("{count:.1}"));
            let counted = counted.as_deref().unwrap_or("?");
            println!("{:9} {case:6} {:6.2} ns {counted:>8} instructions", allocator.name(), nanos[15]);
        }
    }
}

/// Instructions per call.
fn instructions(name: &str, case: &str) -> f64 {
    let this = std::env::current_exe().expect("a running program has a path");
    callgrind::each(10_000, 110_000, |calls| {
        let mut command = Command::new(&this);
        command.args(["count", name, case, &calls.to_string()]);
        command
    })
}
