//! `storm`: an API's front end under bursts of twenty times its load. The model is Twitch's "refresh storm", whose 99th
//! percentile a ballast cut by 45 %. There the cause was a garbage collector. Here it is memory that was returned to
//! the kernel and is needed again.
//!
//! A request allocates a few buffers, keeps them while others are served, and frees them. At normal load a few requests
//! are in flight. A burst has twenty times as many for a moment. Then comes an idle time in which the allocator may
//! return memory. Only a burst's requests are timed. The time of a request is from its first buffer to its last, plus
//! the end of the request that it displaces. It does not include the time for which the request only keeps its buffers.
//!
//! With `ballast`, this many freed bytes stay in memory ([`Ballast::keep`]) from before the first burst until the end.
//! The gain in faults and latency can be compared with the cost in memory at each idle mark.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::block::TaggedBlock;
use super::crew::{StartGate, crew, share};
use super::laps::Laps;
use super::sizes::{mean_size, mixed_size};
use crate::room;
use crate::workload::{MOST_MARKS, Moment, Outcome, Setup, WAIT, Workload, WorkloadStage, parameter};
use allocanary::ballast::Ballast;
use allocanary_facts::setting::SettingKind;
use allocanary_sys::rng::Rng;
use allocanary_text::units::Bytes;

pub const WORKLOAD: Workload = Workload {
    name: "storm",
    about: "an API's front end: normal load, bursts of 20 times as many requests in flight, rests",
    operation: "request in a burst",
    parameters: &[
        parameter(
            "live",
            SettingKind::Size { min: 1 << 16, max: 1 << 40 },
            "8388608",
            "bytes of state, whatever the threads",
        ),
        parameter("load", IN_FLIGHT, "8", "requests in flight at normal load"),
        parameter("in_flight", IN_FLIGHT, "160", "requests in flight in a burst"),
        parameter("steady", COUNT, "400", "requests at normal load before each burst"),
        parameter("requests", COUNT, "800", "requests in each burst"),
        parameter(
            "bursts",
            SettingKind::Number { min: 1, max: MOST_BURSTS },
            "5",
            "bursts, each with an `idle` after it",
        ),
        parameter("settle", WAIT, "100ms", "rest after each burst, before `idle` is read"),
        parameter(
            "ballast",
            SettingKind::SIZE,
            "0",
            "freed bytes that the allocator is made to keep; 0 is its own way",
        ),
    ],
    seconds: 0.4,
    grows_with: &["steady+requests", "bursts"],
    rests: Some("bursts"),
    run,
};

const COUNT: SettingKind = SettingKind::Number { min: 0, max: 1_000_000_000 };
const IN_FLIGHT: SettingKind = SettingKind::Number { min: 1, max: 1_000_000 };

/// Every burst has a mark, in addition to `start`, `filled`, `peak`, `released` and `purged`.
const MOST_BURSTS: i64 = MOST_MARKS as i64 - 5;

/// The number of buffers of a request: 3 to 6.
const BUFFERS: (usize, usize) = (3, 6);
/// A buffer's size: 1 KiB to 256 KiB.
const BUFFER: (usize, usize) = (1 << 10, 8);
/// Mean size of a request, in bytes.
const REQUEST: usize = (BUFFERS.0 + BUFFERS.1) * mean_size(BUFFER.0, BUFFER.1) / 2;

/// One worker: its part of the state, and its requests in flight, oldest first.
struct Front {
    state: Vec<TaggedBlock>,
    in_flight: VecDeque<[Option<TaggedBlock>; BUFFERS.1]>,
    verified: u64,
}

impl Front {
    fn begin(&mut self, rng: &mut Rng) {
        let mut request = [const { None }; BUFFERS.1];
        let buffers = BUFFERS.0 + rng.below(BUFFERS.1 - BUFFERS.0 + 1);
        request[..buffers].fill_with(|| Some(TaggedBlock::new(mixed_size(rng, BUFFER.0, BUFFER.1), rng.next())));
        self.in_flight.push_back(request);
        if !self.state.is_empty() {
            let slot = rng.below(self.state.len());
            let new = TaggedBlock::new(self.state[slot].bytes() as usize, rng.next());
            let old = std::mem::replace(&mut self.state[slot], new);
            self.free(old);
        }
    }

    fn end(&mut self) {
        let request = self.in_flight.pop_front();
        request.into_iter().flatten().flatten().for_each(|block| self.free(block));
    }

    fn free(&mut self, block: TaggedBlock) {
        block.check_and_free();
        self.verified += 1;
    }

    fn bytes(&self) -> u64 {
        let held = self.in_flight.iter().flatten().flatten();
        self.state.iter().chain(held).map(TaggedBlock::bytes).sum()
    }

    /// Serves one request. At most `most` requests are in flight.
    fn serve(&mut self, most: usize, rng: &mut Rng) {
        if self.in_flight.len() >= most {
            self.end();
        }
        self.begin(rng);
    }
}

fn run(setup: &Setup, stage: &mut dyn WorkloadStage) -> Result<Outcome, String> {
    let (live, load, in_flight) = (setup.number("live")?, setup.number("load")?, setup.number("in_flight")?);
    let (steady, requests) = (setup.number("steady")?, setup.number("requests")?);
    let (bursts, rest, ballast) = (setup.number("bursts")?, setup.time("settle")?, setup.number("ballast")? as u64);
    if load > in_flight {
        return Err(format!("parameter `load`: wanted at most `in_flight`, {in_flight}, found {load}"));
    }
    let threads = setup.threads;
    // The maximum number of requests in flight of a worker is at most the number of its requests. If there are more
    // workers than requests in flight, the workers without a share still take turns at their requests.
    let most = |worker: usize| {
        let mine = |whole: usize| share(whole, worker, threads);
        mine(in_flight).max(1).min(mine(steady).min(mine(load).max(1)) + mine(requests))
    };
    // A ballast consists of memory that a burst has freed, so it adds nothing to the maximum.
    let held = live + (0..threads).map(most).sum::<usize>() * REQUEST;
    room::check_blocks(held as u64, "parameters `live`, `in_flight` and `requests`")?;
    let mut kept = match ballast {
        0 => None,
        bytes => Some(Ballast::keep(Bytes(bytes)).map_err(|error| format!("parameter `ballast`: {error}"))?),
    };
    let held: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let verified = AtomicU64::new(0);

    let worker = |worker: usize, gate: &StartGate| {
        let mine = |whole: usize| share(whole, worker, threads);
        let mut rng = Rng::part(setup.seed, worker as u64);
        let mut laps = Laps::new(setup.timer, 1);
        let mut front = Front { state: Vec::new(), in_flight: VecDeque::with_capacity(most(worker)), verified: 0 };
        let mut left = mine(live);
        while left > 0 {
            let size = mixed_size(&mut rng, 16, 11).min(left); // 16 B to 32 KiB
            front.state.push(TaggedBlock::new(size, rng.next()));
            left -= size;
        }
        let stop = |front: &Front| {
            held[worker].store(front.bytes(), Ordering::Relaxed);
            gate.stop();
        };
        stop(&front); // filled
        for burst in 0..bursts {
            (0..mine(steady)).for_each(|_| front.serve(mine(load).max(1), &mut rng));
            gate.stop(); // the storm begins
            (0..mine(requests)).for_each(|_| laps.time(|| front.serve(mine(in_flight).max(1), &mut rng)));
            match burst {
                0 => stop(&front), // peak
                _ => gate.stop(),  // the storm is over
            }
            while !front.in_flight.is_empty() {
                front.end();
            }
            stop(&front); // idle
        }
        front.state.drain(..).for_each(TaggedBlock::check_and_free);
        verified.fetch_add(front.verified, Ordering::Relaxed);
        stop(&front); // released
        gate.stop(); // purged
    };

    let live_bytes = || held.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
    let active = crew(threads, stage, worker, |conductor| {
        conductor.mark(Moment::Filled, live_bytes);
        let mut active = Duration::ZERO;
        for burst in 0..bursts {
            conductor.meet();
            conductor.take_active(); // the time of the normal load is not measured
            match burst {
                0 => conductor.mark(Moment::Peak, live_bytes),
                _ => conductor.meet(),
            }
            active += conductor.take_active();
            conductor.mark_after(rest, Moment::Idle, live_bytes);
        }
        conductor.mark(Moment::Released, live_bytes);
        kept.take(); // so that the kept memory can be freed
        conductor.mark(Moment::Purged, live_bytes);
        active
    });
    let operations = (requests * bursts) as u64;
    Ok(Outcome { operations, active, timed_every: 1, verified: verified.into_inner() })
}
