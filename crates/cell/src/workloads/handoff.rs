//! `handoff`: producers allocate, consumers free, with bounded queues between them: xmalloc-test with bounded memory.
//!
//! Every block is freed by another thread than its producer. An allocator that returns freed blocks to the producer's
//! arena needs time for this. If freed blocks stay with the consumer, the allocator needs more memory.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::block::TaggedBlock;
use super::crew::{StartGate, five_stops};
use super::laps::Laps;
use super::sizes::{mean_size, mixed_size};
use crate::room;
use crate::workload::{Outcome, Setup, WAIT, Workload, WorkloadStage, parameter};
use allocanary_facts::setting::SettingKind;
use allocanary_sys::rng::Rng;

pub const WORKLOAD: Workload = Workload {
    name: "handoff",
    about: "producers allocate, consumers free, through bounded queues; threads are used in pairs",
    operation: "hand-over",
    parameters: &[
        parameter("queued", COUNT, "8192", "blocks in all queues together, whatever the threads"),
        parameter("operations", COUNT, "400000", "blocks handed over in all"),
        parameter("settle", WAIT, "50ms", "rest before `idle` is read"),
    ],
    seconds: 0.35,
    grows_with: &["operations"],
    rests: None,
    run,
};

const COUNT: SettingKind = SettingKind::Number { min: 1, max: 1_000_000_000 };

/// One in this many operations is timed. The producer times its allocation.
const TIMED_EVERY: u32 = 8;

/// A block's size: 16 B to 8 KiB.
const SIZE: (usize, usize) = (16, 9);
/// The bytes of one block, with its entry in a queue and one more word.
const BLOCK: usize = mean_size(SIZE.0, SIZE.1) + size_of::<TaggedBlock>() + size_of::<usize>();

/// One producer's queue to its consumer. A single thread uses both ends.
struct Pair {
    send: SyncSender<TaggedBlock>,
    receive: Mutex<Receiver<TaggedBlock>>,
    /// Sent bytes minus received bytes, at the last stop.
    queued_bytes: AtomicU64,
}

fn run(setup: &Setup, stage: &mut dyn WorkloadStage) -> Result<Outcome, String> {
    let (queued, operations) = (setup.number("queued")?, setup.number("operations")?);
    let idle = setup.time("settle")?;
    let pairs = (setup.threads / 2).max(1);
    let (depth, share) = ((queued / pairs).max(1), operations / pairs);
    room::check_mixed((depth * pairs * BLOCK) as u64, "parameter `queued`")?;
    let queues: Vec<Pair> = (0..pairs)
        .map(|_| {
            let (send, receive) = sync_channel(depth);
            Pair { send, receive: Mutex::new(receive), queued_bytes: AtomicU64::new(0) }
        })
        .collect();
    let verified = AtomicU64::new(0);

    let put = |pair: &Pair, rng: &mut Rng, laps: &mut Laps| {
        let size = mixed_size(rng, SIZE.0, SIZE.1);
        let block = laps.time(|| TaggedBlock::new(size, rng.next()));
        pair.queued_bytes.fetch_add(block.bytes(), Ordering::Relaxed);
        pair.send.send(block).expect("the receiver lives as long as the queue");
    };
    let take = |pair: &Pair| {
        let block = pair.receive.lock().unwrap().recv().expect("the sender lives as long as the queue");
        pair.queued_bytes.fetch_sub(block.bytes(), Ordering::Relaxed);
        block.check_and_free();
        verified.fetch_add(1, Ordering::Relaxed);
    };

    let worker = |worker: usize, gate: &StartGate| {
        let pair = &queues[(worker / 2) % pairs];
        // If there is a single thread, it produces and consumes in turn. The last of an odd number of threads has no
        // partner and is idle.
        let rests = setup.threads > 1 && worker / 2 == pairs;
        let produces = !rests && worker.is_multiple_of(2);
        let consumes = !rests && (!worker.is_multiple_of(2) || setup.threads == 1);
        let mut rng = Rng::part(setup.seed, worker as u64);
        let mut laps = Laps::new(setup.timer, TIMED_EVERY);
        if produces {
            let mut unheard = Laps::unheard();
            (0..depth).for_each(|_| put(pair, &mut rng, &mut unheard));
        }
        gate.stop(); // filled: every queue is full
        for _ in 0..share {
            if consumes {
                take(pair);
            }
            if produces {
                put(pair, &mut rng, &mut laps);
            }
        }
        gate.stop(); // peak: every queue is full again, with other blocks
        gate.stop(); // idle, with the queues as they are
        if consumes {
            (0..depth).for_each(|_| take(pair));
        }
        gate.stop(); // released
        gate.stop(); // purged
    };

    let live = || queues.iter().map(|pair| pair.queued_bytes.load(Ordering::Relaxed)).sum();
    let active = five_stops(setup.threads, stage, idle, live, worker);
    let operations = (share * pairs) as u64;
    Ok(Outcome { operations, active, timed_every: TIMED_EVERY, verified: verified.load(Ordering::Relaxed) })
}
