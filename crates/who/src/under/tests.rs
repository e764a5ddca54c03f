use std::alloc::System;
use std::fs;
use std::path::Path;

use allocanary_trace::builder::TraceBuilder;
use allocanary_trace::coder::Event;
use allocanary_trace::format::Marks;
use allocanary_trace::prepare;
use allocanary_trace::replay::{Noted, PlacedBlock, PreparedTrace, ReplayMoment, ReplayOptions, run};
use proptest::collection::vec;
use proptest::prelude::any;

use super::*;
use crate::tally::LiveBlock;

/// The moment of a stop, whatever its time.
fn moment() -> TracePoint {
    TracePoint::at_time(0)
}

/// Replays a trace under the system's allocator until a stop. Returns the placed blocks, and the number of events
/// before the stop.
fn replayed(folder: &Path, trace: &Trace, stops: ReplayMoment) -> (Placed, u64) {
    let (form, blocks) = (folder.join("form"), folder.join("blocks"));
    prepare::write(trace, &form, Marks::default()).unwrap();
    let prepared = PreparedTrace::open(&form).unwrap();
    let noted = Noted::new(System).unwrap();
    let file = fs::File::create(&blocks).unwrap();
    run(&prepared, &noted, ReplayOptions::default(), &mut |stop| {
        if stop.moment == stops {
            noted.write(stop, &file).unwrap();
        }
    })
    .unwrap();
    (Placed::read(&blocks).unwrap(), prepared.events_before(stops).unwrap())
}

/// Threads that make, resize and free blocks of each other, and end: the blocks of the replay are those of the trace, one by one.
#[test]
fn fuzz_each_block_of_a_replay_is_found_in_the_trace() {
    let steps = vec((0_usize..4, 0_u8..4, any::<usize>(), 2_u64..500), 1..3000);
    allocanary_testing::fuzz::holds(30, 1, steps, |steps| {
        let folder = tempfile::tempdir().unwrap();
        let mut sample = TraceBuilder::new(1024);
        let mut threads: Vec<u32> = (0..4).collect();
        // Each block has its own address, and a unique size.
        let mut live: Vec<(u64, u32)> = Vec::new();
        let mut address = 0x10_0000;
        for (tick, (at, what, which, size)) in steps.into_iter().enumerate() {
            let (thread, tick) = (threads[at], tick as u64 * 30);
            let size = size * 8;
            if at > 0 && which % 60 == 0 {
                sample.event(thread, tick, Event::End);
                threads[at] = threads.iter().max().unwrap() + 1;
                continue;
            }
            let old = (what < 2 && !live.is_empty()).then(|| which % live.len());
            match old {
                Some(old) if what == 0 => {
                    sample.event(thread, tick, Event::Free { address: live.swap_remove(old).0 });
                }
                _ => {
                    address += 1 << 16;
                    let how = match old {
                        Some(old) => {
                            sample.event(thread, tick, Event::Resize { address: live.swap_remove(old).0 });
                            AllocFunction::Resized
                        }
                        None => AllocFunction::Malloc,
                    };
                    sample.event(thread, tick + 1, Event::New { how, address, size });
                    live.push((address, thread));
                }
            }
        }
        let path = folder.path().join("a.trace");
        fs::write(&path, sample.finish()).unwrap();
        let trace = Trace::open(&path).unwrap();
        for stops in [ReplayMoment::Peak, ReplayMoment::Idle] {
            let (placed, events) = replayed(folder.path(), &trace, stops);
            let (taken, resident) = take(&trace, &moment(), events, true, &placed).unwrap();
            let mut at: Vec<(u64, u64)> = taken.blocks.iter().map(|block| (block.address, block.size)).collect();
            let mut wanted: Vec<(u64, u64)> = placed.blocks.iter().map(|block| (block.address, block.size)).collect();
            at.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(at, wanted);
            assert_eq!(resident.ranges, placed.resident);
        }
    });
}

/// A block of each thread, after blocks that another thread made.
#[test]
fn a_block_keeps_its_thread_and_has_the_address_of_the_replay() {
    let folder = tempfile::tempdir().unwrap();
    let mut sample = TraceBuilder::new(1024);
    let malloc = |address, size| Event::New { how: AllocFunction::Malloc, address, size };
    sample.event(0, 10, malloc(0x1000, 48));
    sample.event(1, 20, malloc(0x2000, 4800));
    sample.event(1, 30, malloc(0x4000, 64));
    sample.event(0, 40, Event::Free { address: 0x1000 });
    sample.event(0, 50, malloc(0x9000, 480));
    let path = folder.path().join("a.trace");
    fs::write(&path, sample.finish()).unwrap();
    let trace = Trace::open(&path).unwrap();
    let (placed, events) = replayed(folder.path(), &trace, ReplayMoment::Idle);
    assert_eq!(events, 5);
    let (taken, _) = take(&trace, &moment(), events, true, &placed).unwrap();
    let of = |size: u64| {
        let block = taken.blocks.iter().find(|block| block.size == size).unwrap();
        let lies = placed.blocks.iter().find(|lies| lies.size == size).unwrap();
        assert_eq!(block.address, lies.address);
        taken.totals[block.of as usize].key
    };
    assert_eq!([4800, 64, 480].map(of), [1, 1, 0]);
    assert!(
        taken.ever.stretches(crate::ever::PAGE).all(|pages| pages.start > 16),
        "an address of the trace is none of the replay"
    );
}

#[test]
fn a_replay_of_something_else_is_refused() {
    let block = |slot: u64, size| LiveBlock { address: slot, size, of: 0 };
    let lies = |slot, size| PlacedBlock { slot, address: 1 << 40, size };
    let said = |blocks: &[LiveBlock], lie: &[PlacedBlock]| {
        let mut taken = EventTally::new(moment(), true, None).taken();
        taken.blocks = blocks.to_vec();
        put(&mut taken, &Placed { blocks: lie.to_vec(), ..Placed::default() }).err().unwrap_or_default()
    };
    assert_eq!(said(&[block(3, 0), block(4, 16)], &[lies(3, 1), lies(4, 16)]), "");
    assert!(said(&[block(3, 8)], &[]).contains("wanted a replay of 1 live blocks at this moment, found one of 0"));
    assert!(said(&[block(3, 80)], &[lies(3, 88)]).contains("wanted a block of 80 bytes in slot 3"));
    assert!(said(&[block(3, 80)], &[lies(2, 80)]).contains("found None"));
}
