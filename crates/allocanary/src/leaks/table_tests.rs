//! The table under many threads. In: addresses without memory. Out: no record is lost or left.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use proptest::collection::vec;

use super::*;
use allocanary_testing::fuzz::holds;

fn record(size: u64) -> Record {
    Record { size, drawn: size, born: 1, frames: [size as usize; DEPTH] }
}

fn sizes(table: &Table) -> Vec<u64> {
    let mut sizes = Vec::new();
    table.for_each(&mut |record| sizes.push(record.size));
    sizes.sort_unstable();
    sizes
}

#[test]
fn records_are_found_moved_and_forgotten() {
    let table = Table::new(100).unwrap();
    assert!(!table.filter().may_have(0x1000) && !table.remove(0x1000));
    assert!(table.insert(0x1000, &record(10)) && table.insert(0x2000, &record(20)));
    assert_eq!(sizes(&table), [10, 20]);
    let number = table.detach(0x1000).unwrap();
    assert_eq!(sizes(&table), [10, 20], "a block that moves is alive");
    table.resize(number, 11, 1);
    assert!(table.attach(0x3000, number));
    assert!(!table.remove(0x1000) && table.remove(0x3000) && !table.remove(0x3000));
    assert_eq!(sizes(&table), [20]);
}

#[test]
fn a_full_table_says_so_and_has_room_again() {
    let table = Table::new(3).unwrap();
    let made: Vec<bool> = (1..=5).map(|at| table.insert(at << 12, &record(at as u64))).collect();
    assert_eq!(made, [true, true, true, false, false]);
    assert!(table.remove(2 << 12));
    assert!(table.insert(9 << 12, &record(9)));
    assert_eq!(sizes(&table), [1, 3, 9]);
    assert!(Table::new(0).is_none());
}

#[test]
fn a_home_takes_no_more_than_a_byte_counts_or_a_probe_reaches() {
    let table = Table::new(100).unwrap();
    let home = table.home(0x1000);
    let alike: Vec<usize> = (1..).map(|at| at << 4).filter(|at| table.home(*at) == home).take(PROBES + 2).collect();
    let made = alike.iter().filter(|address| table.insert(**address, &record(1))).count();
    assert_eq!(made, PROBES);
    assert_eq!(alike.iter().filter(|address| table.remove(**address)).count(), PROBES);
    assert!(!table.filter().may_have(0x1000), "what was refused left nothing behind");
    assert!(sizes(&table).is_empty());
}

#[test]
fn threads_lose_nothing_and_readers_see_whole_records() {
    let (threads, turns) = if cfg!(miri) { (3, 60) } else { (8, 50_000) };
    let table = Table::new(64).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                table.for_each(&mut |record| {
                    assert!(
                        record.frames.iter().all(|frame| *frame == record.frames[0]),
                        "half of another: {record:?}"
                    );
                });
            }
        });
        let work = |thread: usize| {
            let table = &table;
            move || {
                for turn in 0..turns {
                    // Passing addresses from thread to thread would need an allocator. So each thread has its own
                    // addresses, which have the same homes.
                    let address = ((thread + 1) << 20) + ((turn % 3) << 4);
                    assert!(table.insert(address, &record((turn + 1) as u64)));
                    assert!(table.remove(address));
                }
                assert!(table.insert((thread + 1) << 20, &record(thread as u64)));
            }
        };
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(work(thread))).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        done.store(true, Relaxed);
    });
    assert_eq!(sizes(&table), (0..threads as u64).collect::<Vec<_>>());
}

/// Blocks that come, go and move, checked against a map: a block is refused only if there is no room, and no other
/// record is lost or left.
#[test]
fn fuzz_records_are_those_of_a_map() {
    let steps = vec((0_usize..3, 1_usize..40, 1_usize..40), 1..if cfg!(miri) { 15 } else { 300 });
    holds(64, 1, (steps, 1_usize..30), |(steps, capacity)| {
        let table = Table::new(capacity).unwrap();
        let mut model: BTreeMap<usize, u64> = BTreeMap::new();
        for (turn, (kind, from, to)) in steps.into_iter().enumerate() {
            let (from, to, size) = (from << 4, to << 4, turn as u64 + 1);
            match kind {
                0 if !model.contains_key(&from) => {
                    let fits = model.len() < capacity;
                    assert_eq!(table.insert(from, &record(size)), fits, "{} of {capacity}", model.len());
                    fits.then(|| model.insert(from, size));
                }
                1 => assert_eq!(table.remove(from), model.remove(&from).is_some()),
                2 if from == to || !model.contains_key(&to) => {
                    let number = table.detach(from);
                    assert_eq!(number.is_some(), model.remove(&from).is_some());
                    if let Some(number) = number {
                        table.resize(number, size, 0);
                        assert!(table.attach(to, number), "a record that moves has room");
                        model.insert(to, size);
                    }
                }
                _ => {}
            }
            let mut wanted: Vec<u64> = model.values().copied().collect();
            wanted.sort_unstable();
            assert_eq!(sizes(&table), wanted);
            assert!(
                model.keys().all(|address| table.filter().may_have(*address)),
                "the filter says no to none of them"
            );
        }
    });
}
