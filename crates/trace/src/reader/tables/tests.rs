use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::builder::TraceBuilder;
use crate::coder::{AllocFunction, Event};
use crate::format::at;
use crate::merge::{At, Sink, merge};
use crate::stacks::StackId;

fn open(folder: &Path, bytes: &[u8]) -> Result<Trace> {
    let path = folder.join("a.trace");
    std::fs::write(&path, bytes).unwrap();
    Trace::open(&path)
}

fn tables() -> (Stacks, Resident) {
    let nodes = [(0, 0), (0, 0x5500_0000_1000), (1, 0x7F00_0000_2000), (1, 0x7F00_0000_3000), (3, 0x5500_0000_1000)];
    let nodes = nodes.into_iter().map(|(parent, pc)| StackNode { parent, pc, module: 0 }).collect();
    let module = |start: u64, path: &str, build_id: &[u8]| TraceModule {
        start,
        end: start + 0x10_000,
        bias: start,
        path: path.into(),
        build_id: build_id.to_vec(),
    };
    let modules = vec![module(0x5500_0000_0000, "/bin/sample", b""), module(0x7F00_0000_0000, "/lib/a.so", &[7; 20])];
    (Stacks { nodes, modules }, Resident { mark: 2, ranges: vec![0x1000..0x3000, 0x8000..0x9000] })
}

/// The stacks of a thread's allocations, in order.
#[derive(Default)]
struct Found(Vec<(u64, StackId)>, StackId);

impl Sink for Found {
    type Block = ();

    fn stack(&mut self, stack: StackId) {
        self.1 = stack;
    }

    fn allocated(&mut self, _: At, _: AllocFunction, size: u64) {
        self.0.push((size, std::mem::replace(&mut self.1, StackId::MAX)));
    }

    fn freed(&mut self, _: At, (): ()) {}

    fn resized(&mut self, _: At, (): (), size: u64) {
        self.0.push((size, std::mem::replace(&mut self.1, StackId::MAX)));
    }
}

#[test]
fn tables_are_read_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let (stacks, resident) = tables();
    let mut built = TraceBuilder::with_stacks(512, 1);
    built.event(0, 10, Event::New { how: AllocFunction::Malloc, address: 0x1000, size: 8 });
    built.tables(&stacks);
    built.resident(&resident);
    built.resident(&Resident { mark: 1, ranges: vec![0x5000..0x6000, 0x7000..0x8000] });
    built.resident(&Resident { mark: 2, ranges: vec![0x3000..0x4000, 0x4800..0x5000] });
    let trace = open(folder.path(), &built.finish()).unwrap();
    assert_eq!(trace.damage(), None);
    assert_eq!(trace.stacks().unwrap(), stacks);
    // Ranges that touch become one range.
    let idle = Resident { mark: 2, ranges: vec![0x1000..0x4000, 0x4800..0x5000, 0x8000..0x9000] };
    assert_eq!(trace.residents().unwrap(), [idle, Resident { mark: 1, ranges: vec![0x5000..0x6000, 0x7000..0x8000] }]);
}

#[test]
fn a_trace_without_stacks_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut built = TraceBuilder::new(512);
    built.event(0, 10, Event::New { how: AllocFunction::Malloc, address: 0x1000, size: 8 });
    let trace = open(folder.path(), &built.finish()).unwrap();
    assert_eq!(trace.stacks().unwrap(), Stacks { nodes: vec![StackNode::default()], modules: Vec::new() });
    assert!(trace.residents().unwrap().is_empty());
    let mut found = Found(Vec::new(), 77);
    merge(&trace, &mut found).unwrap();
    assert_eq!(found.0, [(8, 77)], "a sink is told no stack");
}

#[test]
fn fuzz_foretold_stacks_are_those_that_were_given() {
    let folder = tempfile::tempdir().unwrap();
    // Few places and sizes, so that many stacks are predicted and many are not; the seventh kind of call is a realloc.
    let call = (0_u32..3, 0_u32..12, prop::sample::select(vec![8_u64, 24, 504, 505, 4096, 1 << 20]), 0_u8..7);
    allocanary_testing::fuzz::holds(60, 2, (prop::collection::vec(call, 1..600), 1_u32..4), |(calls, one_in)| {
        let mut built = TraceBuilder::with_stacks(512, one_in);
        let mut wanted: Vec<Vec<(u64, StackId)>> = vec![Vec::new(); 3];
        let mut last = [None; 3];
        for (at, (thread, stack, size, kind)) in calls.into_iter().enumerate() {
            let (ticks, address) = (1000 + at as u64 * 100_000, 0x1_0000 + at as u64 * 0x20_0000);
            let stack = stack * 1000;
            let is_chosen = crate::predictor::is_chosen(address, one_in);
            let how = match (kind, last[thread as usize].take()) {
                (6, Some(address)) => {
                    built.event(thread, ticks, Event::Resize { address });
                    AllocFunction::Resized
                }
                (5, _) => AllocFunction::Calloc,
                _ => AllocFunction::Malloc,
            };
            built.stacked(thread, ticks + 10, Event::New { how, address, size }, stack);
            last[thread as usize] = Some(address);
            wanted[thread as usize].push((size, if is_chosen { stack } else { 0 }));
        }
        let trace = open(folder.path(), &built.finish()).unwrap();
        for (thread, wanted) in wanted.iter().enumerate() {
            let items = trace.stream(thread as u32).filter_map(|item| match item.event {
                Event::New { size, .. } => Some((size, item.stack)),
                _ => None,
            });
            assert_eq!(items.collect::<Vec<_>>(), *wanted);
        }
        let mut found = Found::default();
        let merged = merge(&trace, &mut found).unwrap();
        assert_eq!((merged.damage.len(), merged.strays, merged.lost_frees), (0, 0, 0));
        let totals = |all: &mut dyn Iterator<Item = (u64, StackId)>| {
            let mut totals = std::collections::BTreeMap::new();
            all.for_each(|(size, stack)| *totals.entry(stack).or_insert(0) += size);
            totals
        };
        assert_eq!(totals(&mut found.0.into_iter()), totals(&mut wanted.into_iter().flatten()));
    });
}

/// Each chunk is read by itself: the loss of chunks before it changes nothing.
#[test]
fn fuzz_a_window_has_the_stack_of_each_of_its_allocations() {
    const STEP: u64 = 1000;
    let folder = tempfile::tempdir().unwrap();
    let call = (0_u32..3, 0_u32..12, prop::sample::select(vec![8_u64, 24, 504, 505, 4096, 1 << 20]), any::<bool>());
    let window = (1_u64..800, 0_u64..800, 1_u32..4, 0_usize..800);
    allocanary_testing::fuzz::holds(100, 2, (prop::collection::vec(call, 1..800), window), |(calls, window)| {
        let (length, lost, one_in, tables_at) = window;
        let mut built = TraceBuilder::windowed_with_stacks(512, length * STEP, lost * STEP, one_in);
        // For each thread: the tick, the address and the stack of its allocations, and the ticks of all its events.
        let mut wanted: Vec<Vec<(u64, u64, StackId)>> = vec![Vec::new(); 3];
        let mut events: Vec<Vec<u64>> = vec![Vec::new(); 3];
        for (at, (thread, stack, size, is_freed)) in calls.iter().copied().enumerate() {
            if at == tables_at {
                built.tables(&tables().0);
            }
            let (ticks, address) = (at as u64 * STEP, 0x1_0000 + at as u64 * 0x20_0000);
            built.stacked(thread, ticks, Event::New { how: AllocFunction::Malloc, address, size }, stack * 1000);
            events[thread as usize].push(ticks);
            let is_chosen = crate::predictor::is_chosen(address, one_in);
            wanted[thread as usize].push((ticks, address, if is_chosen { stack * 1000 } else { 0 }));
            if is_freed {
                built.event(thread, ticks + 1, Event::Free { address });
                events[thread as usize].push(ticks + 1);
            }
        }
        let trace = open(folder.path(), &built.finish()).unwrap();
        assert_eq!((trace.has_window(), trace.header.stacks, trace.damage()), (true, one_in, None));
        if tables_at < calls.len() {
            assert_eq!(trace.stacks().unwrap(), tables().0);
        }
        let from = trace.header.start_ticks;
        for (thread, wanted) in wanted.iter().enumerate() {
            let found: std::collections::BTreeMap<u64, StackId> = trace
                .stream(thread as u32)
                .filter_map(|item| match item.event {
                    Event::New { address, .. } => Some((address, item.stack)),
                    _ => None,
                })
                .collect();
            for (ticks, address, stack) in wanted {
                let stack_found = found.get(address).copied();
                assert!(stack_found.is_none_or(|found| found == *stack), "{address:x}: {stack_found:?} for {stack}");
                // Every sixteenth event has a stamp. Events after the first stamp in the window belong to the window.
                let before = events[thread].partition_point(|event| event < ticks);
                if before >= 17 && events[thread][before - 17] >= from {
                    assert_eq!(stack_found, Some(*stack), "{address:x} is in the window");
                }
            }
        }
        let merged = merge(&trace, &mut Found::default()).unwrap();
        assert_eq!((merged.damage.len(), merged.lost_frees), (0, 0));
    });
}

#[test]
fn fuzz_damaged_tables_are_read_as_far_as_they_go() {
    damaged(TraceBuilder::with_stacks(512, 1));
}

#[test]
fn fuzz_damaged_tables_of_a_window_are_read_as_far_as_they_go() {
    damaged(TraceBuilder::windowed_with_stacks(512, 1 << 20, 0, 1));
}

fn damaged(mut built: TraceBuilder) {
    let folder = tempfile::tempdir().unwrap();
    let (stacks, resident) = tables();
    for at in 0..20 {
        built.stacked(
            0,
            10 * at,
            Event::New { how: AllocFunction::Malloc, address: 0x1000 + at * 64, size: 8 * at },
            at as u32 % 5,
        );
    }
    built.tables(&stacks);
    built.resident(&resident);
    let sound = built.finish();
    let damage = prop::collection::vec((4096..sound.len(), any::<u8>()), 1..8);
    allocanary_testing::fuzz::holds(400, 2, damage, |damage| {
        let mut bytes = sound.clone();
        damage.into_iter().for_each(|(at, byte)| bytes[at] = byte);
        let Ok(trace) = open(folder.path(), &bytes) else { return };
        let stacks = trace.stacks().unwrap();
        (0..stacks.nodes.len()).for_each(|node| _ = stacks.frames(node as u32).count());
        trace.residents().unwrap();
        merge(&trace, &mut Found::default()).unwrap();
    });
}

#[test]
fn a_stack_in_a_trace_without_stacks_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let mut built = TraceBuilder::with_stacks(512, 1);
    built.stacked(0, 10, Event::New { how: AllocFunction::Malloc, address: 0x1000, size: 8 }, 3);
    let mut bytes = built.finish();
    bytes[at::PARTS] = 0;
    let trace = open(folder.path(), &bytes).unwrap();
    let merged = merge(&trace, &mut Found::default()).unwrap();
    assert!(
        merged.damage.iter().any(|damage| damage.contains("a stack in a trace without stacks")),
        "{:?}",
        merged.damage
    );
}

#[test]
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
fn pages_that_a_damaged_table_names_twice_are_told_once() {
    assert_eq!(joined(vec![4..6, 1..3, 1..3, 2..4, 9..10]), [1..6, 9..10]);
    assert_eq!(joined(vec![1..9, 2..3]), [1..9]);
}
