//! `list`: builds, walks and frees a linked list of small nodes. Each node is a separate allocation, or all nodes are
//! in one arena.
//!
//! This is Dgraph's demo, with nodes of 16 bytes that are each appended at the tail. It shows the cost of one
//! allocation for each node, and the remaining cost with an arena.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::crew::{StartGate, share, whole_lives};
use super::laps::Laps;
use crate::room;
use crate::workload::{Outcome, Setup, WAIT, Workload, WorkloadStage, parameter};
use allocanary::arena::Arena;
use allocanary_facts::setting::SettingKind;

pub const WORKLOAD: Workload = Workload {
    name: "list",
    about: "each thread builds, walks and frees a linked list of nodes of 16 bytes",
    operation: "node",
    parameters: &[
        parameter("variant", VARIANT, "boxes", "boxes: an allocation for each node; arena: all from one arena"),
        parameter("nodes", COUNT, "2000001", "nodes in all, shared among the threads"),
        parameter("settle", WAIT, "50ms", "rest before `idle` is read"),
    ],
    seconds: 0.2,
    grows_with: &["nodes"],
    rests: None,
    run,
};

const VARIANT: SettingKind = SettingKind::words(&[Cow::Borrowed("boxes"), Cow::Borrowed("arena")]);
const COUNT: SettingKind = SettingKind::Number { min: 1, max: 1_000_000_000 };
/// One in this many operations is timed, because reading the clock costs more than the operation.
const TIMED_EVERY: u32 = 64;

/// A node that is a separate allocation.
struct Boxed {
    value: u64,
    next: Option<Box<Boxed>>,
}

/// A node in an arena.
struct Placed<'a> {
    value: u64,
    next: Cell<Option<&'a Placed<'a>>>,
}

const NODE_BYTES: usize = size_of::<Boxed>();
const _: () = assert!(NODE_BYTES == 16 && size_of::<Placed>() == 16, "the published node has 16 bytes");

/// Builds, walks and frees a list of N nodes, with a stop after each part and one idle stop. Returns the number of
/// nodes in the walk, and the sum of their values.
type Life = fn(u64, &mut Laps, &StartGate) -> (u64, u64);

fn run(setup: &Setup, stage: &mut dyn WorkloadStage) -> Result<Outcome, String> {
    let nodes = setup.number("nodes")?;
    let idle = setup.time("settle")?;
    let (life, bytes_each): (Life, usize) = match setup.word("variant")? {
        "arena" => (placed, NODE_BYTES),
        _ => (boxed, setup.small_block),
    };
    room::check_blocks((nodes * bytes_each) as u64, "parameter `nodes`")?;
    let verified = AtomicU64::new(0);

    let worker = |worker: usize, gate: &StartGate| {
        let mine = share(nodes, worker, setup.threads) as u64;
        let (walked, sum) = life(mine, &mut Laps::new(setup.timer, TIMED_EVERY), gate);
        // The values are 0, 1, 2 and so on. A node that is lost, doubled or overwritten changes their sum.
        let wanted = mine * mine.saturating_sub(1) / 2;
        assert!(walked == mine && sum == wanted, "wanted {mine} nodes that sum to {wanted}, found {walked}, {sum}");
        verified.fetch_add(walked, Ordering::Relaxed);
        gate.stop(); // released
        gate.stop(); // purged
    };

    let active = whole_lives(setup.threads, stage, idle, (nodes * NODE_BYTES) as u64, worker);
    let verified = verified.load(Ordering::Relaxed);
    Ok(Outcome { operations: nodes as u64, active, timed_every: TIMED_EVERY, verified })
}

/// Each node is an allocation.
fn boxed(nodes: u64, laps: &mut Laps, gate: &StartGate) -> (u64, u64) {
    let mut root = None;
    let mut tail = &mut root;
    for value in 0..nodes {
        let end = tail;
        tail = laps.time(|| &mut end.insert(Box::new(Boxed { value, next: None })).next);
    }
    gate.stop(); // filled
    let (mut walked, mut sum) = (0, 0);
    let mut at = &root;
    while let Some(node) = at {
        (walked, sum) = (walked + 1, sum + node.value);
        at = &node.next;
    }
    gate.stop(); // peak
    gate.stop(); // idle
    // The nodes are freed one by one, because the default drop of a list is recursive: 2 million frames do not fit on
    // any stack.
    while let Some(node) = root {
        root = node.next;
    }
    (walked, sum)
}

/// All nodes are in an arena, which frees them at once.
fn placed(nodes: u64, laps: &mut Laps, gate: &StartGate) -> (u64, u64) {
    let mut arena = Arena::new();
    let (mut walked, mut sum) = (0, 0);
    let root = Cell::new(None);
    let mut tail = &root;
    for value in 0..nodes {
        let node = laps.time(|| arena.alloc(Placed { value, next: Cell::new(None) }));
        let node: &Placed = node.unwrap_or_else(|refused| panic!("{refused}"));
        tail.set(Some(node));
        tail = &node.next;
    }
    gate.stop(); // filled
    let mut at = root.get();
    while let Some(node) = at {
        (walked, sum) = (walked + 1, sum + node.value);
        at = node.next.get();
    }
    gate.stop(); // peak
    gate.stop(); // idle
    arena.release();
    (walked, sum)
}
