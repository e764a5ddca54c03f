//! A whole prober, on loopback, without some of the kernel's support.

use std::time::Duration;

use super::*;
use crate::book::Book;
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
    // If answers were read as with stamps, every one would have taken 400 ms. On a busy machine some may take that long
    // anyway, but for half of them this process would have to be stopped for 400 ms in every second.
    assert!(book.latest().quantile(0.5).unwrap() < reads::FIRST, "{book:?}");
}

#[test]
fn an_answer_that_has_come_and_is_not_read_yet_is_not_lost() {
    let mut mesh = Mesh::new(Bounds::default(), 0, usize::MAX, "a");
    mesh.update("flags", (1..=200).map(|last| Peer::at([127, 0, 1, last].into())).collect(), 0);
    let shared = Shared::new(mesh);
    let options = Options { protocols: Some(vec![Protocol::Udp]), udp_port: 0, ..Options::default() };
    let options = Options { interval: Duration::from_millis(100), timeout: Duration::from_millis(800), ..options };
    let sum = |of: fn(&Book) -> u64| {
        let mesh = shared.lock();
        mesh.entries().filter_map(|(_, entry)| entry.books[Protocol::Udp as usize].as_deref().map(of)).sum::<u64>()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut prober = Prober::open(&options, shared.clone()).unwrap();
        // More probes at once than are read in one batch. A late round is left out, and another one follows.
        let many = (0..400).any(|_| {
            let before = sum(Book::sent);
            prober.tick();
            let sent = sum(Book::sent) - before;
            std::thread::sleep(Duration::from_millis(if sent > 100 { 1600 } else { 75 }));
            sent > 100
        });
        assert!(many, "never were 100 probes due together");
        // Their deadlines are over, and their answers have waited.
        while prober.tick() {}
    });
    assert_eq!((sum(Book::lost_in_all), sum(Book::late)), (0, 0));
}

/// A thread in a network namespace without any route; `None`, with a printed reason, if this process may not make one.
fn without_routes<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let apart = std::thread::spawn(|| {
        // SAFETY: one system call without pointers, for this thread alone.
        let done = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        let done = if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) };
        done.map(|()| what())
    });
    match apart.join().unwrap() {
        Ok(value) => Some(value),
        Err(error) => {
            allocanary_testing::skipped::skipped(format_args!("it takes root: {error}"));
            None
        }
    }
}

#[test]
fn without_a_route_nothing_is_sent_and_that_is_no_word_of_the_network() {
    let protocols = [Protocol::Udp, Protocol::Tcp, Protocol::Http];
    let lost = without_routes(move || {
        let mut mesh = Mesh::new(Bounds::default(), 0, usize::MAX, "a");
        let peers = ["198.51.100.9", "2001:db8::9"].map(|address| Peer::at(address.parse().unwrap()));
        mesh.update("flags", peers.to_vec(), 0);
        let shared = Shared::new(mesh);
        let options = Options { protocols: Some(protocols.to_vec()), udp_port: 0, ..Options::default() };
        let options = Options { interval: Duration::from_millis(100), timeout: Duration::from_millis(800), ..options };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let prober = Prober::open(&options, shared.clone()).unwrap();
            let _ = tokio::time::timeout(Duration::from_secs(5), prober.run()).await;
        });
        let mesh = shared.lock();
        let books = mesh.entries().flat_map(|(_, entry)| protocols.map(|by| entry.books[by as usize].clone().unwrap()));
        books.map(|book| Loss::ALL.map(|why| book.lost_for(why))).collect::<Vec<_>>()
    });
    let Some(lost) = lost else { return };
    assert_eq!(lost.len(), 2 * protocols.len());
    for [timeout, send, unreachable] in &lost {
        assert!(*send > 2 && timeout + unreachable == 0, "{lost:?}");
    }
}
