//! `wakes`: threads that wake, do a little work and wait again. It shows the cost of returning memory before each wait.
//!
//! Each thread wakes periodically, allocates and frees some blocks, announces that it will wait, and sleeps. Only the
//! time at work counts. It includes the return of memory and the page faults that follow.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::block::TaggedBlock;
use super::crew::{StartGate, five_stops};
use super::laps::Laps;
use super::sizes::mixed_size;
use crate::room;
use crate::workload::{Outcome, Setup, WAIT, Workload, WorkloadStage, parameter};
use allocanary::{give_back, give_back_in_wait};
use allocanary_facts::setting::SettingKind;
use allocanary_sys::rng::Rng;

pub const WORKLOAD: Workload = Workload {
    name: "wakes",
    about: "threads that wake, allocate a little and wait again: what giving memory back costs",
    operation: "wake",
    parameters: &[
        parameter("lasts", SOME_TIME, "300ms", "time from the first wake to the last"),
        parameter("wake_every", SOME_TIME, "10ms", "time from one wake of a thread to its next"),
        parameter(
            "bytes",
            SettingKind::Size { min: 64, max: 1 << 30 },
            "65536",
            "bytes that a wake allocates and frees",
        ),
        parameter(
            "threads_give_back",
            SettingKind::Flag,
            "false",
            "whether a thread gives its freed memory back before it waits",
        ),
        parameter("give_back_every", WAIT, "100ms", "time until a thread gives back again; 0ms before each wait"),
        parameter("settle", WAIT, "50ms", "rest before `idle` is read"),
    ],
    seconds: 0.3,
    grows_with: &["lasts"],
    rests: None,
    run,
};

const SOME_TIME: SettingKind = SettingKind::Time { min: 1, max: 1_000_000 };

/// A block's size: 16 B to 32 KiB.
const SIZE: (usize, usize) = (16, 11);

/// The work of one wake: it allocates blocks with this many bytes in total, all alive at once.
fn wake(bytes: usize, blocks: &mut Vec<TaggedBlock>, rng: &mut Rng) {
    let mut left = bytes;
    while left > 0 {
        let size = mixed_size(rng, SIZE.0, SIZE.1).min(left).max(8);
        blocks.push(TaggedBlock::new(size, rng.next()));
        left = left.saturating_sub(size);
    }
}

fn run(setup: &Setup, stage: &mut dyn WorkloadStage) -> Result<Outcome, String> {
    let (lasts, period, bytes) = (setup.time("lasts")?, setup.time("wake_every")?, setup.number("bytes")?);
    let (give_back_every, idle) = (setup.time("give_back_every")?, setup.time("settle")?);
    let gives_back = setup.flag("threads_give_back")?;
    let wakes = (lasts.as_millis() / period.as_millis()).max(1) as usize;
    room::check_mixed((setup.threads * bytes * 2) as u64, "parameter `bytes`")?;
    let (verified, at_work) = (AtomicU64::new(0), AtomicU64::new(0));

    let worker = |worker: usize, gate: &StartGate| {
        let mut rng = Rng::part(setup.seed, worker as u64);
        let mut laps = Laps::new(setup.timer, 1);
        let mut blocks = Vec::with_capacity(bytes / 8);
        gate.stop(); // filled
        // The threads' wakes are spread over one period.
        let first = Instant::now() + period * worker as u32 / setup.threads as u32;
        for number in 0..wakes {
            std::thread::sleep((first + period * number as u32).saturating_duration_since(Instant::now()));
            let woke = Instant::now();
            laps.time(|| {
                wake(bytes, &mut blocks, &mut rng);
                verified.fetch_add(blocks.len() as u64, Ordering::Relaxed);
                blocks.drain(..).for_each(TaggedBlock::check_and_free);
                if gives_back {
                    drop(give_back(setup.allocator, give_back_every)); // the readings show if it failed
                }
            });
            at_work.fetch_add(woke.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        gate.stop(); // peak
        let in_wait = |last| give_back_in_wait(setup.allocator, last);
        gate.stop_and(if gives_back { Some(&in_wait) } else { None }); // idle
        gate.stop(); // released
        gate.stop(); // purged
    };

    five_stops(setup.threads, stage, idle, || 0, worker);
    let active = Duration::from_nanos(at_work.load(Ordering::Relaxed)) / setup.threads as u32;
    let operations = (wakes * setup.threads) as u64;
    Ok(Outcome { operations, active, timed_every: 1, verified: verified.load(Ordering::Relaxed) })
}
