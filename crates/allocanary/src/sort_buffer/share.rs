//! Divides work among a few threads. In: pieces of work. Out: all pieces are done.

use std::sync::{Mutex, PoisonError};
use std::thread;

/// Does every piece of work, on this thread and up to `threads - 1` more. Each thread has its own state, which it
/// reuses for all its pieces. If a thread cannot be started, the others do its work.
pub fn share<W: Send, S>(threads: usize, work: Vec<W>, state: impl Fn() -> S + Sync, each: impl Fn(&mut S, W) + Sync) {
    let more = threads.min(work.len()).saturating_sub(1);
    let queue = Mutex::new(work.into_iter());
    let worker = || {
        let mut state = state();
        loop {
            // The lock is taken in a separate statement, so that it is not held while the piece is done.
            let piece = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(piece) = piece else { break };
            each(&mut state, piece);
        }
    };
    thread::scope(|scope| {
        for _ in 0..more {
            if thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                break;
            }
        }
        worker();
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_piece_is_done_once() {
        for (threads, pieces) in [(1, 5), (3, 0), (3, 100), (8, 2), (0, 3)] {
            let done: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
            share(
                threads,
                done.iter().collect(),
                || 0,
                |mine, piece| {
                    *mine += 1;
                    piece.fetch_add(1, Ordering::Relaxed);
                },
            );
            assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }
}
