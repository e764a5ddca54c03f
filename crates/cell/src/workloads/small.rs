//! `small`: each thread allocates and frees its own small blocks. It measures throughput and latency of the fast path.

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
    name: "small",
    about: "each thread allocates and frees small blocks of its own: throughput and latency",
    operation: "allocate and free",
    parameters: &[
        parameter("live", COUNT, "16384", "blocks alive in the process, whatever the threads"),
        parameter("operations", COUNT, "4000000", "blocks allocated and freed in all"),
        parameter("settle", WAIT, "50ms", "rest before `idle` is read"),
    ],
    seconds: 0.35,
    grows_with: &["operations"],
    rests: None,
    run,
};

const COUNT: SettingKind = SettingKind::Number { min: 1, max: 1_000_000_000 };

/// One in this many operations is timed, because reading the clock costs more than the operation.
const TIMED_EVERY: u32 = 64;

/// A block's size: 16 B to 512 B.
const SIZE: (usize, usize) = (16, 5);
/// The bytes of one block, with its entry in the list.
const BLOCK: usize = mean_size(SIZE.0, SIZE.1) + size_of::<TaggedBlock>();

fn object(rng: &mut Rng) -> TaggedBlock {
    let size = mixed_size(rng, SIZE.0, SIZE.1);
    TaggedBlock::new(size, rng.next())
}

fn run(setup: &Setup, stage: &mut dyn WorkloadStage) -> Result<Outcome, String> {
    let (live, operations) = (setup.number("live")?, setup.number("operations")?);
    let idle = setup.time("settle")?;
    let (mine, share) = ((live / setup.threads).max(1), operations / setup.threads);
    room::check_mixed((mine * setup.threads * BLOCK) as u64, "parameter `live`")?;
    let live_bytes: Vec<AtomicU64> = (0..setup.threads).map(|_| AtomicU64::new(0)).collect();
    let verified = AtomicU64::new(0);

    let worker = |worker: usize, gate: &StartGate| {
        let mut rng = Rng::part(setup.seed, worker as u64);
        let mut laps = Laps::new(setup.timer, TIMED_EVERY);
        let mut blocks: Vec<TaggedBlock> = (0..mine).map(|_| object(&mut rng)).collect();
        let stop = |blocks: &[TaggedBlock]| {
            live_bytes[worker].store(blocks.iter().map(TaggedBlock::bytes).sum(), Ordering::Relaxed);
            gate.stop();
        };
        stop(&blocks); // filled
        for _ in 0..share {
            let slot = rng.below(mine);
            // The operation includes the check and the free, because data that nobody reads are not in use.
            laps.time(|| std::mem::replace(&mut blocks[slot], object(&mut rng)).check_and_free());
        }
        stop(&blocks); // peak
        stop(&blocks); // idle
        verified.fetch_add((share + blocks.len()) as u64, Ordering::Relaxed);
        blocks.drain(..).for_each(TaggedBlock::check_and_free);
        stop(&blocks); // released
        gate.stop(); // purged
    };

    let live = || live_bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
    let active = five_stops(setup.threads, stage, idle, live, worker);
    let operations = (share * setup.threads) as u64;
    Ok(Outcome { operations, active, timed_every: TIMED_EVERY, verified: verified.load(Ordering::Relaxed) })
}
