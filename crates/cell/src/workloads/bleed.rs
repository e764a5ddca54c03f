//! `bleed`: threads that end and pass their live objects on to successors, after larson (Larson and Krishnan, "Memory
//! allocation for long-running server applications", 1998).
//!
//! Objects live longer than the thread that allocated them, and another thread frees them: memory bleeds from arena to
//! arena.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::block::TaggedBlock;
use super::crew::{StartGate, five_stops};
use super::laps::Laps;
use super::sizes::{mean_size, mixed_size};
use crate::room;
use crate::workload::{Outcome, Setup, WAIT, Workload, WorkloadStage, parameter};
use allocanary_facts::setting::SettingKind;
use allocanary_sys::rng::Rng;

pub const WORKLOAD: Workload = Workload {
    name: "bleed",
    about: "threads that die and hand their live objects to successors",
    operation: "replacement",
    parameters: &[
        parameter("live", COUNT, "8192", "objects alive in the process, whatever the threads"),
        parameter("generations", COUNT, "8", "times that every thread dies and a successor takes over"),
        parameter("operations", COUNT, "400000", "objects replaced in all"),
        parameter("settle", WAIT, "50ms", "rest before `idle` is read"),
    ],
    seconds: 0.35,
    grows_with: &["operations"],
    rests: None,
    run,
};

const COUNT: SettingKind = SettingKind::Number { min: 1, max: 1_000_000_000 };

/// One in this many operations is timed.
const TIMED_EVERY: u32 = 8;

/// An object's size: 16 B to 4 KiB.
const SIZE: (usize, usize) = (16, 8);
/// The bytes of one object, with its entry in the list.
const OBJECT: usize = mean_size(SIZE.0, SIZE.1) + size_of::<TaggedBlock>();

fn object(rng: &mut Rng) -> TaggedBlock {
    let size = mixed_size(rng, SIZE.0, SIZE.1);
    TaggedBlock::new(size, rng.next())
}

fn run(setup: &Setup, stage: &mut dyn WorkloadStage) -> Result<Outcome, String> {
    let (live, generations) = (setup.number("live")?, setup.number("generations")?);
    let (operations, idle) = (setup.number("operations")?, setup.time("settle")?);
    let (mine, share) = ((live / setup.threads).max(1), (operations / setup.threads / generations).max(1));
    room::check_mixed((mine * setup.threads * OBJECT) as u64, "parameter `live`")?;
    let verified = AtomicU64::new(0);
    let free = |block: TaggedBlock| {
        block.check_and_free();
        verified.fetch_add(1, Ordering::Relaxed);
    };

    // The objects of each line of threads, at times when no thread of the line exists.
    let estates: Vec<Mutex<Vec<TaggedBlock>>> = (0..setup.threads).map(|_| Mutex::new(Vec::new())).collect();
    let live_set =
        || estates.iter().map(|estate| estate.lock().unwrap().iter().map(TaggedBlock::bytes).sum::<u64>()).sum();

    // A life: inherit the objects, replace some, and leave them to the next thread. One thread for each line waits for
    // the end of a life. It allocates nothing, so that only the live set passes from thread to thread.
    let life = |line: usize, generation: usize| {
        let mut rng = Rng::part(setup.seed, (line * (generations + 1) + generation) as u64);
        let mut laps = Laps::new(setup.timer, TIMED_EVERY);
        let mut objects = std::mem::take(&mut *estates[line].lock().unwrap());
        if objects.is_empty() {
            objects.extend((0..mine).map(|_| object(&mut rng)));
        }
        for _ in 0..share {
            let victim = rng.below(objects.len());
            // The first generation builds the live set. This time does not count as work.
            let new = if generation == 0 { object(&mut rng) } else { laps.time(|| object(&mut rng)) };
            free(std::mem::replace(&mut objects[victim], new));
        }
        *estates[line].lock().unwrap() = objects;
    };

    let worker = |line: usize, gate: &StartGate| {
        let live_through = |generations: std::ops::Range<usize>| {
            for generation in generations {
                std::thread::scope(|scope| {
                    let life = std::thread::Builder::new().spawn_scoped(scope, || life(line, generation));
                    if let Err(error) = life {
                        panic!("could not start a thread of generation {generation}: {error}");
                    }
                });
            }
        };
        live_through(0..1);
        gate.stop(); // filled: the first generation has left its objects
        live_through(1..generations + 1);
        gate.stop(); // peak: the live set has a constant size, so the end is as high as any point
        gate.stop(); // idle
        std::mem::take(&mut *estates[line].lock().unwrap()).into_iter().for_each(free);
        gate.stop(); // released
        gate.stop(); // purged
    };

    let active = five_stops(setup.threads, stage, idle, live_set, worker);
    let operations = (share * generations * setup.threads) as u64;
    Ok(Outcome { operations, active, timed_every: TIMED_EVERY, verified: verified.load(Ordering::Relaxed) })
}
