//! Properties of a book that are true whatever happens to its probes.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

fn book() -> Book {
    Book::new(&Bounds::default())
}

fn adds_up(book: &Book) {
    assert_eq!(book.sent(), book.replies() + book.lost_in_all() + u64::from(book.in_flight()));
    assert_eq!(book.rtt().count(), book.replies());
    assert!(book.in_flight() <= WINDOW, "a probe that nobody remembers is in flight: {book:?}");
}

#[test]
fn what_came_late_or_twice_is_told_apart() {
    let mut book = book();
    let numbers: Vec<u32> = (0..4).map(|second| book.send(second)).collect();
    assert_eq!(book.answer(numbers[1], 5, Some(64)), Answer::Reply);
    assert!(book.awaits(numbers[0]) && !book.awaits(numbers[1]) && !book.awaits(4));
    assert_eq!(book.answer(numbers[0], 9, None), Answer::Reply, "after the answer to a later one");
    assert_eq!(book.answer(numbers[1], 5, None), Answer::Duplicate);
    assert!(book.lost(numbers[2], Loss::Timeout) && !book.lost(numbers[2], Loss::Timeout));
    assert_eq!([(); 2].map(|()| book.answer(numbers[2], 5, None)), [Answer::Late; 2]);
    assert_eq!(book.answer(99, 5, None), Answer::Unknown);
    assert_eq!((book.replies(), book.lost_in_all(), book.in_flight()), (2, 1, 1));
    assert_eq!((book.late(), book.duplicates()), (2, 1));
    assert_eq!((book.hop_limit(), book.up()), (Some(64), Some(false)));
    assert_eq!(book.recent_loss(), Some(1.0 - 2.0 / 3.0));
    assert_eq!(book.recent().collect::<Vec<_>>(), [true, true, false]);
    adds_up(&book);
}

#[test]
fn numbers_wrap_without_harm() {
    let mut book = book();
    book.next = u32::MAX;
    let (last, first) = (book.send(1), book.send(2));
    assert_eq!((last, first), (u32::MAX, 0));
    assert_eq!(book.answer(last, 1, None), Answer::Reply);
    assert_eq!(book.answer(first, 1, None), Answer::Reply);
}

#[test]
fn the_recent_loss_is_that_of_the_last_64() {
    let mut book = book();
    for second in 0..80 {
        let number = book.send(second);
        match second < 48 {
            true => drop(book.lost(number, Loss::Timeout)),
            false => drop(book.answer(number, 1, None)),
        }
    }
    assert_eq!((book.recent_loss(), book.recent().filter(|answered| !answered).count()), (Some(0.5), 32));
}

#[test]
fn jitter_follows_the_rfc() {
    let mut book = book();
    for rtt in [1000, 1160, 1000] {
        let number = book.send(0);
        book.answer(number, rtt, None);
    }
    let first = 160.0 / 16.0;
    assert_eq!(book.jitter_ns(), first + (160.0 - first) / 16.0);
}

proptest! {
    // The same values each time, so that a random draw does not stop an unrelated change.
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_the_book_adds_up(events in prop::collection::vec((0..4u8, 0..64u32), 0..400)) {
        let mut book = book();
        for (event, back) in events {
            let sequence = book.next.wrapping_sub(back);
            match event {
                0 => drop(book.send(0)),
                1 => drop(book.answer(sequence, u64::from(back), None)),
                2 => drop(book.lost(sequence, Loss::Timeout)),
                _ => drop(book.lost(sequence, Loss::Unreachable)),
            }
            adds_up(&book);
        }
    }
}
