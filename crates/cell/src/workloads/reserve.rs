//! `reserve`: allocates memory and touches only a part of it, or nothing. It shows the cost of address space without
//! memory.
//!
//! The experiment is from Twitch's article on its ballast: 100 MiB that are untouched count in VSZ and not in RSS. If
//! half of them are touched, half of them are resident. This depends on the allocator: how much it takes from the
//! system at a time, whether it writes to it, and whether huge pages round up the touched part.

use std::sync::atomic::{AtomicU64, Ordering};

use super::crew::{StartGate, crew};
use super::laps::Laps;
use crate::room;
use crate::workload::{Moment, Outcome, Setup, WAIT, Workload, WorkloadStage, parameter};
use allocanary_facts::setting::SettingKind;
use allocanary_sys::rng::Rng;
use allocanary_text::units::Bytes;

pub const WORKLOAD: Workload = Workload {
    name: "reserve",
    about: "asks for one large block a thread and touches a part of it: address space, resident memory, faults",
    operation: "block touched",
    parameters: &[
        parameter(
            "size",
            SettingKind::Size { min: 1 << 12, max: 1 << 60 },
            "104857600",
            "bytes asked for, all threads together",
        ),
        parameter("touched", SettingKind::Number { min: 0, max: 100 }, "0", "percent of each block that is written"),
        parameter("settle", WAIT, "50ms", "rest before `idle` is read"),
    ],
    seconds: 0.03,
    grows_with: &[],
    rests: None,
    run,
};

fn run(setup: &Setup, stage: &mut dyn WorkloadStage) -> Result<Outcome, String> {
    let (size, percent) = (setup.number("size")?, setup.number("touched")?);
    let (mine, rest) = (size / setup.threads / 8, setup.time("settle")?);
    let touched = (mine as u128 * percent as u128 / 100) as usize;
    room::check((touched * setup.threads * 8) as u64, "parameters `size` and `touched`")?;
    let verified = AtomicU64::new(0);
    // The blocks are allocated before any thread waits at the gate, so that a failed allocation is an answer and not a
    // panic.
    let mut blocks: Vec<Vec<u64>> = Vec::with_capacity(setup.threads);
    for _ in 0..setup.threads {
        let mut block = Vec::new();
        let refused = |error| format!("parameter `size`: wanted {} in one block: {error}", Bytes((mine * 8) as u64));
        block.try_reserve_exact(mine).map_err(refused)?;
        blocks.push(block);
    }
    let blocks: Vec<std::sync::Mutex<Option<Vec<u64>>>> = blocks.into_iter().map(|block| Some(block).into()).collect();

    let worker = |worker: usize, gate: &StartGate| {
        let tag = Rng::part(setup.seed, worker as u64).next();
        let mut laps = Laps::new(setup.timer, 1);
        let mut block = blocks[worker].lock().unwrap().take().expect("each worker has a block of its own");
        gate.stop(); // filled: everything is allocated, nothing is touched
        laps.time(|| block.resize(touched, tag)); // the block does not move, because the capacity is reserved
        gate.stop(); // peak
        gate.stop(); // idle
        assert!(block.iter().all(|word| *word == tag), "a block of {} bytes was overwritten", mine * 8);
        verified.fetch_add(1, Ordering::Relaxed);
        drop(block);
        gate.stop(); // released
        gate.stop(); // purged
    };

    let held = (mine * 8 * setup.threads) as u64;
    let active = crew(setup.threads, stage, worker, |conductor| {
        conductor.mark(Moment::Filled, || held);
        conductor.take_active();
        conductor.mark(Moment::Peak, || held);
        let active = conductor.take_active();
        conductor.mark_after(rest, Moment::Idle, || held);
        conductor.mark(Moment::Released, || 0);
        conductor.mark(Moment::Purged, || 0);
        active
    });
    Ok(Outcome { operations: setup.threads as u64, active, timed_every: 1, verified: verified.into_inner() })
}
