//! Tests of the tally: nested peaks, successors, and readers next to the writer.

use super::*;

#[test]
fn a_span_has_its_own_peak_and_gives_the_old_one_back() {
    let tally = Tally::new();
    tally.allocated(1000);
    tally.freed(1000);
    let before = tally.read();
    let outer = tally.start_peak();
    tally.allocated(10);
    tally.reallocated(10, 40);
    tally.reallocated(40, 5);
    let counts = tally.read().since(&before);
    let expected = Counts { allocations: 1, frees: 0, reallocations: 2, bytes: 40, freed: 35, live: 5, peak: 40 };
    assert_eq!(counts, expected);
    tally.end_peak(outer);
    assert_eq!(tally.read().peak, 1000);
}

#[test]
fn a_successor_starts_at_nothing() {
    let tally = Tally::new();
    tally.allocated(64);
    tally.begin();
    assert_eq!(tally.read().since(&tally.start()), Counts::default());
    tally.freed(64);
    let counts = tally.read().since(&tally.start());
    assert_eq!((counts.frees, counts.freed, counts.live, counts.peak), (1, 64, -64, 0));
    assert_eq!(tally.read().live(), 0, "the sum over threads is what is alive");
}

#[test]
fn a_try_leaves_nothing_behind() {
    let tally = Tally::new();
    tally.allocated(8);
    let (before, started) = (tally.read(), tally.start_peak());
    let tried = tally.counts(|| {
        tally.allocated(1);
        tally.freed(1);
    });
    assert!(tried && !tally.counts(|| ()));
    let since = tally.read().since(&before);
    assert_eq!((since, started), (Counts::default(), 8));
}

#[test]
fn a_reader_sees_peak_and_room_of_one_time() {
    const TURNS: u64 = if cfg!(miri) { 400 } else { 10_000_000 };
    let tally = Tally::new();
    tally.allocated(1 << 40);
    tally.freed(1 << 40);
    let torn = std::thread::scope(|scope| {
        // Spans that begin and end: the peak goes to zero and back, the live bytes stay.
        scope.spawn(|| {
            while tally.turn.load(Relaxed) < TURNS {
                tally.end_peak(tally.start_peak());
            }
        });
        // Reads until the writer has finished, and not a fixed number of times: at first the two may share a processor.
        let mut torn = 0;
        while tally.turn.load(Relaxed) < TURNS {
            torn += usize::from(tally.peak_and_room().is_some_and(|(peak, room)| peak != room));
        }
        torn
    });
    assert_eq!(torn, 0, "nothing is live");
    tally.start_peak();
    assert_eq!((tally.peak_and_room(), tally.read().live()), (Some((0, 0)), 0));
}

#[test]
fn nobodys_tally_says_so_for_ever() {
    let tally = Tally::nobodys();
    for _ in 0..100 {
        assert!(!tally.freed(1 << 60) || !tally.allocated(1));
        assert!(!tally.allocated(1 << 60));
        assert!(!tally.reallocated(1 << 40, 1) && !tally.reallocated(1, 1 << 40));
    }
}

#[test]
fn a_shared_tally_counts_alike() {
    let shared = Shared(Tally::new());
    shared.allocated(8);
    shared.reallocated(8, 32);
    shared.reallocated(32, 16);
    shared.freed(16);
    let now = shared.0.read();
    assert_eq!((now.bytes, now.freed, now.allocations, now.frees, now.reallocations), (32, 32, 1, 1, 2));
}
