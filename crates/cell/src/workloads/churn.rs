//! `churn`: memory that repeatedly grows to a high mark in chunks of random size and shrinks to a low mark, after
//! Dgraph's `memtest` (dgraph-io/ristretto, contrib/memtest). There glibc used 20 GB after cycles between 16 GiB and
//! 1 GiB.
//!
//! As in memtest, each chunk has a separate small node, in a list that frees the youngest first. A moment is marked
//! after every cycle, to show what each cycle leaves in memory. Unlike in memtest, high and low mark are divided among
//! threads, and each chunk is checked before it is freed. A thread shrinks to its part of the low mark or below. If
//! that part is less than a chunk, the thread may have no chunk left.
//!
//! Chunks have at most 8 MiB by default: 1/512 of the default high mark, as in memtest. Most of them are blocks that
//! every allocator maps separately. They keep their size if the marks are lowered. With smaller marks and chunks
//! (tried: 256 MiB, and chunks up to its 1/512), chunks would be small enough to share pages. That would be another
//! question: mimalloc then keeps four times the live bytes under any setting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::block::TaggedBlock;
use super::crew::{StartGate, crew};
use super::laps::Laps;
use crate::room;
use crate::workload::{MOST_MARKS, Moment, Outcome, Setup, WAIT, Workload, WorkloadStage, parameter};
use allocanary_facts::setting::SettingKind;
use allocanary_sys::rng::Rng;

pub const WORKLOAD: Workload = Workload {
    name: "churn",
    about: "grows to a high mark in random chunks and shrinks to a low one, youngest first; idle after every cycle",
    operation: "chunk allocated",
    parameters: &[
        parameter("high", MARK, "4294967296", "bytes held by the process before it shrinks (memtest: 16GiB)"),
        parameter(
            "low",
            MARK,
            "268435456",
            "most bytes held after it has shrunk, each thread up to a chunk less than its part (memtest: 1GiB)",
        ),
        parameter(
            "chunk",
            SettingKind::Size { min: 0, max: 1 << 40 },
            "8388608",
            "largest chunk (memtest: 32MiB); 0 is its 1/512 of high",
        ),
        parameter("cycles", SettingKind::Number { min: 1, max: MOST_CYCLES }, "3", "times up and down (memtest: 16)"),
        parameter("settle", WAIT, "50ms", "rest before each `idle` is read"),
    ],
    seconds: 6.0,
    grows_with: &["high", "cycles"],
    rests: Some("cycles"),
    run,
};

const MARK: SettingKind = SettingKind::Size { min: 1 << 12, max: 1 << 44 };

/// Every cycle has a mark, in addition to `start`, `filled`, `peak`, `released` and `purged`.
const MOST_CYCLES: i64 = MOST_MARKS as i64 - 5;

/// A chunk in the list. memtest's node has 48 bytes; the 40 bytes of this node are in the same size class.
struct Node {
    key: u64,
    chunk: TaggedBlock,
    next: Option<Box<Node>>,
}

/// A thread's list, youngest first.
struct List {
    first: Option<Box<Node>>,
    bytes: u64,
    verified: u64,
}

impl List {
    fn grow(&mut self, mark: u64, chunk: usize, rng: &mut Rng, laps: &mut Laps) -> u64 {
        let mut made = 0;
        while self.bytes < mark {
            let (size, key) = (rng.below(chunk), rng.next());
            let next = self.first.take();
            let node = laps.time(|| Box::new(Node { key, chunk: TaggedBlock::new(size, key), next }));
            self.bytes += size_of::<Node>() as u64 + node.chunk.bytes();
            self.first = Some(node);
            made += 1;
        }
        made
    }

    fn shrink(&mut self, mark: u64) {
        while self.bytes > mark {
            let Some(node) = self.first.take() else { break };
            let Node { key, chunk, next } = *node;
            self.bytes -= size_of::<Node>() as u64 + chunk.bytes();
            assert!(chunk.tag() == key, "a node was overwritten: wanted {:#x}, found {key:#x}", chunk.tag());
            chunk.check_and_free();
            self.first = next;
            self.verified += 1;
        }
    }
}

/// The maximum number of bytes that any allocator should need. The last chunk of each thread may exceed the mark.
///
/// Measured: the peak of four cycles between 256 MiB and 16 MiB, by the largest chunk. Under 64 B glibc takes 1.7 times
/// the requested bytes (a node of 40 B takes 48 B, and every chunk at least 32 B). Up to 16 KiB jemalloc takes 1.5 to
/// 2.7 times, because it does not immediately reuse pages of one size for another. From 64 KiB to 4 MiB mimalloc takes
/// 1.2 to 2.0 times, increasing with the number of threads. From 8 MiB on all of them stay below 1.2.
fn most(high: u64, chunk: usize, threads: usize) -> u64 {
    let held = high + (chunk * threads) as u64;
    match chunk {
        0..0x8000 => held * 3,
        0x8000..0x80_0000 => held * 2,
        _ => held + held / 4,
    }
}

fn run(setup: &Setup, stage: &mut dyn WorkloadStage) -> Result<Outcome, String> {
    let (high, low) = (setup.number("high")? as u64, setup.number("low")? as u64);
    let (cycles, rest) = (setup.number("cycles")?, setup.time("settle")?);
    if low >= high {
        return Err(format!("parameter `low`: wanted less than `high`, {high}, found {low}: it would not shrink"));
    }
    let chunk = match setup.number("chunk")? {
        0 => (high / 512).max(8) as usize,
        chunk => chunk,
    };
    room::check(
        most(high, chunk, setup.threads),
        "parameter `high`, with what an allocator takes for chunks of that size",
    )?;

    let threads = setup.threads as u64;
    let held: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let (made, verified) = (AtomicU64::new(0), AtomicU64::new(0));

    let worker = |worker: usize, gate: &StartGate| {
        let mut rng = Rng::part(setup.seed, worker as u64);
        let mut laps = Laps::new(setup.timer, 1);
        let mut list = List { first: None, bytes: 0, verified: 0 };
        let stop = |list: &List| {
            held[worker].store(list.bytes, Ordering::Relaxed);
            gate.stop();
        };
        list.grow(low / threads, chunk, &mut rng, &mut Laps::unheard());
        stop(&list); // filled
        for cycle in 0..cycles {
            let grown = list.grow(high / threads, chunk, &mut rng, &mut laps);
            made.fetch_add(grown, Ordering::Relaxed);
            if cycle == 0 {
                stop(&list); // peak
            }
            list.shrink(low / threads);
            stop(&list); // idle
        }
        list.shrink(0);
        verified.fetch_add(list.verified, Ordering::Relaxed);
        stop(&list); // released
        gate.stop(); // purged
    };

    let live = || held.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
    let active = crew(setup.threads, stage, worker, |conductor| {
        conductor.mark(Moment::Filled, live);
        conductor.take_active();
        conductor.mark(Moment::Peak, live);
        let mut active = Duration::ZERO;
        for _ in 0..cycles {
            conductor.mark_after(rest, Moment::Idle, live);
            active += conductor.take_active();
        }
        conductor.mark(Moment::Released, live);
        conductor.mark(Moment::Purged, live);
        active
    });
    let operations = made.into_inner();
    Ok(Outcome { operations, active, timed_every: 1, verified: verified.into_inner() })
}

#[cfg(test)]
mod tests {
    #[test]
    fn small_chunks_need_more_room_than_large_ones() {
        const MIB: u64 = 1 << 20;
        let most = |chunk: u64, threads| super::most(256 * MIB, chunk as usize, threads) / MIB;
        assert_eq!([1, 4096, 64 << 10, MIB].map(|chunk| most(chunk, 1)), [768, 768, 512, 514]);
        assert_eq!((most(8 * MIB, 1), most(8 * MIB, 8)), (330, 400));
    }
}
