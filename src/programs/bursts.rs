//! `allocanary-bursts`: the program of the studies `pressure` and `room`. No allocator is linked into it, so that any allocator can be
//! preloaded.
//!
//!     allocanary-bursts [MiB of a burst] [ROUNDS] [MiB that stay]
//!
//! In each round 16 threads make a burst: requests of 64 KiB, in blocks of 64 bytes to 32 KiB. The blocks are filled, kept until the burst
//! is complete, compared and freed. Then the threads wait, and the main thread does the same in blocks of 16 MiB. So at most one burst and
//! the memory that stays are live; freed memory that the allocator keeps comes in addition. Prints requests per second and the p99 of their
//! times.

use std::process::ExitCode;
use std::sync::Barrier;
use std::time::{Duration, Instant};

const THREADS: usize = 16;
const REQUEST: usize = 64 << 10;
const LARGE: usize = 16 << 20;
const MIB: usize = 1 << 20;

struct Sizes {
    burst: usize,
    rounds: usize,
    stays: usize,
}

fn main() -> ExitCode {
    let words: Result<Vec<usize>, _> = std::env::args().skip(1).map(|word| word.parse::<usize>()).collect();
    let sizes = match words.as_deref() {
        Ok([]) => Sizes { burst: 128 * MIB, rounds: 6, stays: 16 * MIB },
        Ok([burst @ 16..=65536, rounds @ 1..=1000, stays @ 0..=65536]) => {
            Sizes { burst: burst * MIB, rounds: *rounds, stays: stays * MIB }
        }
        _ => {
            eprintln!(
                "allocanary-bursts: wanted MiB of a burst (16 to 65536), rounds (1 to 1000), MiB that stay (0 to 65536); or nothing"
            );
            return ExitCode::from(2);
        }
    };
    let (times, wall) = run(&sizes);
    println!(
        "{:.0} requests/s, p99 {:.1} us",
        times.len() as f64 / wall.as_secs_f64(),
        p99(times).as_nanos() as f64 / 1e3
    );
    ExitCode::SUCCESS
}

/// The time of each request, and the time of all rounds.
fn run(sizes: &Sizes) -> (Vec<Duration>, Duration) {
    let stays = Block::new(sizes.stays, 1);
    let (begin, end) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    std::thread::scope(|scope| {
        let bursts = |seed: u32| {
            let (begin, end) = (&begin, &end);
            scope.spawn(move || {
                let mut random = Random(seed);
                // The list is allocated before the first burst, so that the program's own memory does not grow.
                let mut times = Vec::with_capacity(sizes.rounds * (sizes.burst / THREADS / REQUEST + 1));
                for _ in 0..sizes.rounds {
                    begin.wait();
                    burst(sizes.burst / THREADS, &mut random, &mut times);
                    end.wait();
                }
                times
            })
        };
        let threads: Vec<_> = (1..=THREADS as u32).map(bursts).collect();
        let began = Instant::now();
        for round in 0..sizes.rounds {
            begin.wait();
            end.wait();
            let report: Vec<Block> = (0..sizes.burst / LARGE).map(|_| Block::new(LARGE, round as u8)).collect();
            report.into_iter().for_each(Block::check);
        }
        let wall = began.elapsed();
        let times = threads.into_iter().flat_map(|thread| thread.join().expect("no thread panics")).collect();
        stays.check();
        (times, wall)
    })
}

fn burst(bytes: usize, random: &mut Random, times: &mut Vec<Duration>) {
    let mut kept = Vec::new();
    for _ in 0..bytes / REQUEST {
        let began = Instant::now();
        let mut left = REQUEST;
        while left > 0 {
            let size = (64 << (random.next() % 10)).min(left);
            kept.push(Block::new(size, size as u8));
            left -= size;
        }
        times.push(began.elapsed());
    }
    kept.into_iter().for_each(Block::check);
}

/// A filled block.
struct Block(Vec<u8>, u8);

impl Block {
    fn new(size: usize, byte: u8) -> Block {
        let mut block = Vec::with_capacity(size);
        block.resize(size, byte | 1);
        Block(block, byte | 1)
    }

    /// Checks that the block still has its content, and frees it.
    fn check(self) {
        let Block(block, byte) = self;
        assert!(block.iter().step_by(64).all(|found| *found == byte), "a block of {} bytes is damaged", block.len());
    }
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default()
}

/// Random numbers, the same in each run.
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p99_is_that_of_all_requests() {
        let times = (0..200).rev().map(Duration::from_micros).collect();
        assert_eq!(p99(times), Duration::from_micros(197));
        assert_eq!(p99(Vec::new()), Duration::ZERO);
    }

    #[test]
    fn each_request_of_each_round_is_timed() {
        let sizes = Sizes { burst: 16 * MIB, rounds: 2, stays: 1 };
        assert_eq!(run(&sizes).0.len(), 2 * 16 * MIB / REQUEST);
    }
}
