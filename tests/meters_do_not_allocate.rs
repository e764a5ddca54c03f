//! A meter that allocates while it reads would measure itself. This is a separate binary, because the allocator counts.
//! It has no test harness, because C's own counters are of the whole process, and the harness may allocate at any time.

use std::alloc::System;

use allocanary::Allocator;
use allocanary::Counting;
use allocanary::System as TheSystem;
use allocanary::counting::{self, Counts};
use allocanary_cell::meters;

#[global_allocator]
static GLOBAL: Counting<System> = Counting::new(System);

/// The allocations of the meters.
type Made = [Counts; meters::ALL.len()];

/// Reads every meter, and counts the calls of each.
fn read_all(slots: &mut [Option<u64>], made: &mut Made) {
    let mut rest = slots;
    for (meter, made) in meters::ALL.iter().zip(made) {
        let (own, after) = rest.split_at_mut(meter.columns.len());
        ((), *made) = counting::count(|| (meter.read)(&TheSystem, own));
        rest = after;
    }
}

fn main() {
    reading_allocates_nothing_after_the_first_time();
    println!("test reading_allocates_nothing_after_the_first_time ... ok");
}

fn reading_allocates_nothing_after_the_first_time() {
    let ((), counts) = counting::count(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!((counts.allocations, counts.frees), (1, 1), "the allocator counts");

    let mut slots = [None; meters::COLUMNS];
    let mut made = [Counts::default(); meters::ALL.len()];
    read_all(&mut slots, &mut made); // a stream that is kept is made here
    for _ in 0..3 {
        // Calls of C's malloc are not counted here, but the C library itself counts the bytes in use.
        let held = TheSystem.counters().allocated;
        slots.fill(None);
        read_all(&mut slots, &mut made);
        for (meter, made) in meters::ALL.iter().zip(made) {
            assert_eq!(made, Counts::default(), "{} called the allocator", meter.name);
        }
        assert_eq!(TheSystem.counters().allocated, held, "something was left behind");
    }
    let rss = slots[0].expect("the first reading is there on every Linux");
    assert!(rss > 256 << 10, "{rss}");
}
