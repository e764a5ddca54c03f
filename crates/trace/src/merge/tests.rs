//! Random programs against a model, and traces that are damaged.

use std::collections::BTreeMap;
use std::io::Write;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use tempfile::NamedTempFile;

use super::*;
use crate::builder::TraceBuilder;

/// One step of a program: its thread, what it does, with which block, and how long it takes.
type Step = (u32, u8, usize, u64, u64);

fn programs() -> impl Strategy<Value = Vec<Step>> {
    vec((0_u32..4, any::<u8>(), any::<usize>(), 1_u64..2000, 1_u64..400), 1..600)
}

/// The life of a block: its size, and the thread that freed it.
type Life = (u64, Option<u32>);

/// Lives, by the thread of the allocation and the number of the allocation in this thread.
type Lives = BTreeMap<(u32, u32), Life>;

struct Model {
    lives: Lives,
    /// Live blocks: the address, and the thread and number of the allocation.
    live: Vec<(u64, (u32, u32))>,
    /// Free addresses, each with the thread that had it last.
    free: Vec<(u64, u32)>,
    fresh: u64,
    made: BTreeMap<u32, u32>,
}

/// Executes a program. Returns the lives of the model, and the trace. `exact` avoids the case that the format cannot
/// place exactly: a thread has had an address recently, and another thread has had it since.
fn play(program: &[Step], chunk: usize, every: u32, exact: bool) -> (Lives, Vec<u8>) {
    let mut sample = TraceBuilder::stamped(chunk, every);
    let mut model =
        Model { lives: Lives::new(), live: Vec::new(), free: Vec::new(), fresh: 0x10_0000, made: BTreeMap::new() };
    let mut ticks = 0;
    for &(thread, what, which, size, took) in program {
        ticks += took;
        if what < 140 || model.live.is_empty() {
            let address = model.address(size, &sample, thread, exact);
            let how = if what % 7 == 0 { AllocFunction::Calloc } else { AllocFunction::Aligned(4) };
            sample.event(thread, ticks, Event::New { how, address, size: size * 8 });
            let made = model.make(thread, size * 8);
            model.live.push((address, made));
            continue;
        }
        let at = which % model.live.len();
        let (address, made) = model.live[at];
        if exact && made.0 != thread && sample.is_recent(thread, address) {
            continue;
        }
        model.live.swap_remove(at);
        model.lives.get_mut(&made).unwrap().1 = Some(thread);
        model.free.push((address, made.0));
        if what < 220 {
            sample.event(thread, ticks, Event::Free { address });
        } else {
            sample.event(thread, ticks, Event::Resize { address });
            let address = model.address(size, &sample, thread, exact);
            sample.event(thread, ticks, Event::New { how: AllocFunction::Resized, address, size: size * 8 });
            let made = model.make(thread, size * 8);
            model.live.push((address, made));
        }
    }
    (model.lives, sample.finish())
}

impl Model {
    /// Usually the address that was freed last, as allocators do; sometimes a new one.
    fn address(&mut self, size: u64, sample: &TraceBuilder, thread: u32, exact: bool) -> u64 {
        if !size.is_multiple_of(5)
            && let Some((address, last)) = self.free.pop()
            && (!exact || last == thread || !sample.is_recent(thread, address))
        {
            return address;
        }
        self.fresh += 16 + size / 100 * 16;
        self.fresh
    }

    fn make(&mut self, thread: u32, size: u64) -> (u32, u32) {
        let made = self.made.entry(thread).or_default();
        *made += 1;
        self.lives.insert((thread, *made), (size, None));
        (thread, *made)
    }
}

#[derive(Default)]
struct Seen {
    lives: Lives,
    made: BTreeMap<u32, u32>,
    last: u64,
}

impl Seen {
    fn make(&mut self, at: At, size: u64) -> (u32, u32) {
        assert!(at.nanos >= self.last, "time went back");
        self.last = at.nanos;
        let made = self.made.entry(at.thread).or_default();
        *made += 1;
        let made = (at.thread, *made);
        self.lives.insert(made, (size, None));
        made
    }
}

impl Sink for Seen {
    type Block = (u32, u32);

    fn allocated(&mut self, at: At, _: AllocFunction, size: u64) -> Self::Block {
        self.make(at, size)
    }

    fn freed(&mut self, at: At, block: Self::Block) {
        self.lives.get_mut(&block).unwrap().1 = Some(at.thread);
    }

    fn resized(&mut self, at: At, block: Self::Block, size: u64) -> Self::Block {
        self.freed(at, block);
        self.make(at, size)
    }
}

fn file(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn merged(bytes: &[u8]) -> (Seen, Merged) {
    let file = file(bytes);
    let trace = Trace::open(file.path()).unwrap();
    let mut seen = Seen::default();
    let merged = merge(&trace, &mut seen).unwrap();
    (seen, merged)
}

/// Calloc rounds small sizes up to 8, and these are multiples of 8.
#[test]
fn fuzz_every_life_is_the_same_after_the_merge() {
    allocanary_testing::fuzz::holds(200, 1, (programs(), 1_u32..17, 512_usize..4096), |(program, every, chunk)| {
        let (lives, bytes) = play(&program, chunk & !63, every, true);
        let (seen, merged) = merged(&bytes);
        assert_eq!((merged.strays, merged.lost_frees, merged.damage), (0, 0, vec![]));
        assert_eq!(seen.lives, lives);
    });
}

/// Events that the format cannot place exactly may cost frees. But no allocation is lost, and no thread waits for ever.
/// These programs consist mainly of such events.
#[test]
fn fuzz_no_allocation_is_lost_where_an_address_went_round() {
    allocanary_testing::fuzz::holds(200, 1, (programs(), 1_u32..17), |(program, every)| {
        let (lives, bytes) = play(&program, 1024, every, false);
        let (seen, merged) = merged(&bytes);
        assert_eq!(merged.damage, Vec::<String>::new());
        let sizes = |lives: &Lives| lives.iter().map(|(made, life)| (*made, life.0)).collect::<Vec<_>>();
        assert_eq!(sizes(&seen.lives), sizes(&lives));
    });
}

/// With flipped, cut and repeated bytes, reading never panics, and the events that are found can be replayed.
#[test]
fn fuzz_damage_is_named_or_harmless() {
    let damage = vec((any::<u8>(), any::<usize>(), any::<u8>(), 1_usize..200), 1..8);
    allocanary_testing::fuzz::holds(150, 1, (programs(), damage), |(program, damage)| {
        let (_, mut bytes) = play(&program, 512, 16, false);
        for (what, at, value, length) in damage {
            let at = if what < 40 { at % bytes.len().min(4096) } else { at % bytes.len() };
            let end = (at + length).min(bytes.len());
            match what % 4 {
                0 => bytes[at] ^= value | 1,
                1 => bytes.truncate(at.max(1)),
                2 => bytes.extend_from_within(at..end),
                _ => drop(bytes.splice(at..at, vec![value; length])),
            }
        }
        let file = file(&bytes);
        let Ok(trace) = Trace::open(file.path()) else { return };
        let told = crate::info::info(&trace).unwrap();
        let prepared = NamedTempFile::new().unwrap();
        crate::prepare::write(&trace, prepared.path(), Default::default()).unwrap();
        let prepared = crate::replay::PreparedTrace::open(prepared.path()).unwrap();
        if told.requested < 1 << 24 {
            let options = crate::replay::ReplayOptions::default();
            // An alignment of terabytes is more than any allocator has.
            if let Err(error) = crate::replay::run(&prepared, &std::alloc::System, options, &mut |_| ()) {
                assert_eq!(error.to_string(), "the allocator had no memory");
            }
        }
    });
}

#[test]
fn what_is_missing_is_counted() {
    let mut sample = TraceBuilder::new(512);
    let new = |address| Event::New { how: AllocFunction::Malloc, address, size: 64 };
    sample.event(0, 10, new(0x1000));
    sample.event(0, 20, new(0x1000)); // its free is not there
    sample.event(1, 30, Event::Free { address: 0x9000 }); // unknown
    sample.event(1, 40, new(0x2000));
    sample.event(1, 50, Event::Resize { address: 0x2000 });
    sample.event(1, 60, Event::ResizeFailed);
    let (seen, merged) = merged(&sample.finish());
    assert_eq!((merged.lost_frees, merged.strays, merged.alive), (1, 1, 2));
    assert_eq!(seen.lives[&(0, 1)], (64, Some(0)));
    assert_eq!((seen.lives[&(0, 2)], seen.lives[&(1, 1)]), ((64, None), (64, None)));
}

/// A thread's address is used by another thread and then by the first thread again. The first thread had it recently, so its own
/// allocation has no stamp, and seems to be the earlier one.
#[test]
fn an_address_that_went_round_costs_no_block() {
    let mut sample = TraceBuilder::new(4096);
    let new = |size| Event::New { how: AllocFunction::Malloc, address: 0x1000, size };
    let free = Event::Free { address: 0x1000 };
    // One tick is 10 ns. These waits are longer than the time for which a merge waits for a free.
    sample.event(1, 0, Event::New { how: AllocFunction::Malloc, address: 0x9000, size: 8 });
    sample.event(0, 10, new(64));
    sample.event(0, 20, free);
    sample.event(1, 1_000_000, new(128));
    sample.event(1, 2_000_000, free);
    sample.event(0, 3_000_000, new(256));
    sample.event(1, 3_000_000, Event::New { how: AllocFunction::Malloc, address: 0xA000, size: 8 });
    sample.event(0, 9_000_000, Event::New { how: AllocFunction::Malloc, address: 0xB000, size: 8 });
    sample.event(0, 9_000_010, free);
    let (seen, merged) = merged(&sample.finish());
    assert_eq!((merged.lost_frees, merged.strays, merged.alive), (0, 0, 3), "{merged:?}");
    assert_eq!((seen.lives[&(0, 2)], seen.lives[&(1, 2)]), ((256, Some(0)), (128, Some(1))));
}

/// A thread frees another thread's block without a stamp, because it has had the block's address recently. Between
/// them, a third thread frees and allocates this address.
#[test]
fn a_free_whose_time_is_not_known_takes_no_earlier_block() {
    let mut sample = TraceBuilder::new(4096);
    let new = |address, size| Event::New { how: AllocFunction::Malloc, address, size };
    let free = |address| Event::Free { address };
    sample.event(0, 10, new(0x1000, 64));
    sample.event(0, 20, free(0x1000));
    sample.event(1, 30, new(0x1000, 128));
    sample.event(2, 50, free(0x1000));
    sample.event(2, 60, new(0x1000, 256));
    sample.event(0, 70, free(0x1000));
    sample.event(0, 80, new(0xB000, 8));
    let (seen, merged) = merged(&sample.finish());
    assert_eq!((merged.lost_frees, merged.strays, merged.alive), (0, 0, 1), "{merged:?}");
    assert_eq!((seen.lives[&(1, 1)], seen.lives[&(2, 1)]), ((128, Some(2)), (256, Some(0))));
}

/// The thread of a free sleeps, so the free is delayed. During this time the address is allocated again, and the event
/// of this is missing.
#[test]
fn a_free_that_was_put_off_goes_first_where_something_is_missing() {
    let mut sample = TraceBuilder::new(4096);
    let new = |address, size| Event::New { how: AllocFunction::Malloc, address, size };
    let free = |address| Event::Free { address };
    sample.event(0, 10, new(0x1000, 64));
    sample.event(0, 11, free(0x1000));
    sample.event(0, 12, new(0x2000, 64));
    sample.event(0, 13, free(0x2000));
    sample.event(1, 30, new(0x1000, 128));
    sample.event(0, 40, free(0x1000));
    sample.event(0, 41, new(0x2000, 256));
    sample.event(1, 100, free(0x2000));
    sample.event(0, 9_000_000, new(0xB000, 8));
    let (seen, merged) = merged(&sample.finish());
    assert_eq!((merged.lost_frees, merged.strays, merged.alive), (0, 0, 1), "{merged:?}");
    assert_eq!((seen.lives[&(1, 1)], seen.lives[&(0, 3)]), ((128, Some(0)), (256, Some(1))));
}

/// A trace that was cut (a disk became full during a copy) is read up to the cut, and says so.
#[test]
fn a_cut_trace_is_read_up_to_the_cut() {
    let mut sample = TraceBuilder::new(512);
    for at in 0..10_000 {
        sample.event(0, at * 10, Event::New { how: AllocFunction::Malloc, address: 0x1000 + at * 64, size: 64 });
    }
    let bytes = sample.finish();
    let (_, whole) = merged(&bytes);
    assert_eq!(whole.events, 10_000);
    let (_, half) = merged(&bytes[..bytes.len() / 2]);
    assert!((3000..6000).contains(&half.events), "{}", half.events);
    assert!(half.damage[0].contains("the file is cut"), "{:?}", half.damage);
}
