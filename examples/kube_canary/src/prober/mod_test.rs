//! A prober as a whole, on loopback, where the kernel helps it less than usual.

use std::time::Duration;

use super::*;
use crate::histogram::Bounds;
use crate::peer::Peer;

#[test]
fn without_the_kernel_s_stamps_a_round_trip_is_not_the_wait_until_it_is_read() {
    let mut mesh = Mesh::new(Bounds::default(), 0, usize::MAX, "a");
    mesh.update("flags", vec![Peer::at([127, 0, 0, 1].into())], 0);
    let shared = Shared::new(mesh);
    let options = Options { protocols: Some(vec![Protocol::Udp]), udp_port: 0, ..Options::default() };
    let options = Options { interval: Duration::from_millis(800), timeout: Duration::from_millis(800), ..options };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let prober = Prober::open(&options, shared.clone()).unwrap();
        prober.channels.iter().for_each(Channel::without_stamps);
        let _ = tokio::time::timeout(Duration::from_secs(8), prober.run()).await;
    });
    let mesh = shared.lock();
    let book = mesh.entries().next().unwrap().1.books[Protocol::Udp as usize].as_ref().unwrap();
    assert!(book.replies() > 2 && mesh.tallies.unstamped == book.replies() + book.late(), "{book:?}");
    // Read as if there were stamps, every answer would have taken 400 ms, whatever the machine. Some may be there all
    // the same, where others have the processor: that it is half of them takes a stop of 400 ms in every second.
    assert!(book.latest().quantile(0.5).unwrap() < FIRST_READ, "{book:?}");
}

#[test]
fn without_stamps_an_answer_is_read_before_its_deadline_whenever_it_came() {
    let (deadline, mut now, mut gap) = (1_000_000_000, 0, FIRST_READ_UNSTAMPED);
    let mut reads = Vec::new();
    while now < deadline {
        now = read_again(now, gap, Some(deadline));
        gap *= 2;
        reads.push(now);
    }
    let before = reads.iter().rev().find(|read| **read < deadline);
    assert_eq!(before, Some(&(deadline - LAST_READ)), "{reads:?}");
    // Every answer's round trip is at most twice as long, and the first gap.
    for pair in reads.windows(2).filter(|pair| pair[1] < deadline) {
        assert!(pair[1] <= 2 * pair[0] + FIRST_READ_UNSTAMPED, "{reads:?}");
    }
    assert_eq!(read_again(0, FIRST_READ, None), FIRST_READ);
}
