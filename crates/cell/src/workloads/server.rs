//! `server`: a small service on a large host, after the one whose memory depended on its host's CPU cores in 2018.
//!
//! The live set belongs to the process and has the same size for every number of threads. So if idle memory grows with
//! the threads, only the allocator can be the reason. The burst causes this growth. It reaches all workers, and each
//! worker answers it with separate memory. The memory that a worker then frees stays in that thread's cache and arena,
//! where other threads cannot use it.
//!
//! Only `at_once` of the workers in a burst have their memory at the same time, as if they shared that many cores or
//! connections. Without this bound the program itself would need memory in proportion to the threads, and no allocator
//! could do better (tried: one arena for all then keeps as much as one arena for each). The burst's memory is mostly
//! bodies larger than the limit of thread caches. With only small objects, the caches would hide the effect of the
//! arenas.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::block::TaggedBlock;
use super::crew::{GiveBack, StartGate, crew};
use super::laps::Laps;
use super::sizes::{mean_size, mixed_size};
use crate::room;
use crate::workload::{Moment, Outcome, Setup, WAIT, Workload, WorkloadStage, parameter};
use allocanary::give_back_in_wait;
use allocanary_facts::setting::SettingKind;
use allocanary_sys::rng::Rng;

pub const WORKLOAD: Workload = Workload {
    name: "server",
    about: "a small service: requests, shared state of one size, bursts that reach all threads, rest",
    operation: "request",
    parameters: &[
        parameter(
            "live",
            SettingKind::Size { min: 1 << 16, max: 1 << 40 },
            "4194304",
            "bytes of shared state, whatever the threads",
        ),
        parameter("requests", COUNT, "2000", "requests in all, shared among the threads"),
        parameter("bursts", COUNT, "3", "bursts that reach all threads at once"),
        parameter(
            "burst",
            SettingKind::Size { min: 1 << 12, max: 1 << 36 },
            "1048576",
            "bytes that a thread holds to answer a burst",
        ),
        parameter(
            "at_once",
            SettingKind::Number { min: 1, max: 100_000 },
            "4",
            "threads that hold a burst's memory at the same time",
        ),
        parameter("page", SettingKind::Size { min: 64, max: 1 << 30 }, "65536", "bytes of text that a request builds"),
        parameter("settle", WAIT, "50ms", "rest before `idle` is read"),
        parameter(
            "threads_give_back",
            SettingKind::Flag,
            "false",
            "whether threads that rest for 10 ms give their freed memory back",
        ),
    ],
    seconds: 0.25,
    grows_with: &["requests"],
    rests: None,
    run,
};

const COUNT: SettingKind = SettingKind::Number { min: 0, max: 1_000_000_000 };

/// An object's size: 16 B to 32 KiB.
const OBJECT: (usize, usize) = (16, 11);
/// The number of objects that a request allocates in addition to its page.
const OBJECTS: usize = 12;
/// The number of slots of the shared state that a request replaces.
const REPLACED: usize = 4;
/// One in this many objects is freed by another thread.
const HANDED_OVER: usize = 10;

/// The state that all workers share.
struct Service {
    state: Vec<Mutex<Option<TaggedBlock>>>,
    /// One mailbox for each worker. It has blocks of other workers that this worker must free.
    mailboxes: Vec<Mutex<Vec<TaggedBlock>>>,
    /// Live bytes of the workers, without those in the state and in mailboxes.
    held: AtomicU64,
    /// How many more workers may allocate a burst's memory now.
    permits: (Mutex<usize>, Condvar),
    verified: AtomicU64,
}

impl Service {
    fn live_bytes(&self) -> u64 {
        let state = self.state.iter().filter_map(|slot| slot.lock().unwrap().as_ref().map(TaggedBlock::bytes));
        let mail = self.mailboxes.iter().map(|mail| mail.lock().unwrap().iter().map(TaggedBlock::bytes).sum::<u64>());
        state.sum::<u64>() + mail.sum::<u64>() + self.held.load(Ordering::Relaxed)
    }

    fn free(&self, block: TaggedBlock) {
        block.check_and_free();
        self.verified.fetch_add(1, Ordering::Relaxed);
    }

    /// Frees a block as the service does: it gives one block in ten to another worker, which frees it.
    fn pass_or_free(&self, block: TaggedBlock, worker: usize, rng: &mut Rng) {
        if rng.below(HANDED_OVER) > 0 {
            return self.free(block);
        }
        let other = (worker + 1 + rng.below(self.mailboxes.len())) % self.mailboxes.len();
        self.mailboxes[other].lock().unwrap().push(block);
    }

    /// Waits until this worker may allocate a burst's memory.
    fn enter(&self) {
        let (permits, freed) = &self.permits;
        let mut left = freed.wait_while(permits.lock().unwrap(), |left| *left == 0).unwrap();
        *left -= 1;
    }

    fn leave(&self) {
        *self.permits.0.lock().unwrap() += 1;
        self.permits.1.notify_one();
    }

    fn empty_mailbox(&self, worker: usize) {
        let mail = std::mem::take(&mut *self.mailboxes[worker].lock().unwrap());
        mail.into_iter().for_each(|block| self.free(block));
    }
}

fn object(rng: &mut Rng) -> TaggedBlock {
    let size = mixed_size(rng, OBJECT.0, OBJECT.1);
    TaggedBlock::new(size, rng.next())
}

/// Builds a page of text like a metrics page, line by line in a growing string.
fn page(bytes: usize, rng: &mut Rng) -> usize {
    let mut text = String::new();
    let mut lines = 0;
    while text.len() < bytes {
        let (peer, value) = (rng.below(1000), rng.next());
        writeln!(text, "canary_round_trip_seconds_bucket{{peer=\"10.0.0.{peer}\",le=\"0.025\"}} {value}")
            .expect("a string takes all that is written to it");
        lines += 1;
    }
    assert_eq!(text.bytes().filter(|byte| *byte == b'\n').count(), lines, "the page lost lines");
    text.len()
}

fn request(service: &Service, page_bytes: usize, worker: usize, rng: &mut Rng) {
    service.empty_mailbox(worker);
    let mut objects = [const { None }; OBJECTS];
    objects.fill_with(|| Some(object(rng)));
    std::hint::black_box(page(page_bytes, rng));
    for _ in 0..REPLACED {
        let slot = rng.below(service.state.len());
        let size = service.state[slot].lock().unwrap().as_ref().map_or(0, |old| old.bytes() as usize);
        let new = TaggedBlock::new(size, rng.next());
        let old = service.state[slot].lock().unwrap().replace(new);
        old.into_iter().for_each(|old| service.pass_or_free(old, worker, rng));
    }
    objects.into_iter().flatten().for_each(|object| service.pass_or_free(object, worker, rng));
}

/// The memory of a worker while it answers a burst: bodies, and a few objects with each.
struct Burst<'a> {
    service: &'a Service,
    blocks: Vec<TaggedBlock>,
    bytes: u64,
}

impl<'a> Burst<'a> {
    fn take(service: &'a Service, wanted: u64, page_bytes: usize, rng: &mut Rng) -> Self {
        let mut burst = Burst { service, blocks: Vec::new(), bytes: 0 };
        while burst.bytes < wanted {
            let body = page_bytes + rng.below(page_bytes);
            let body = TaggedBlock::new(body, rng.next());
            let objects: [TaggedBlock; 3] = std::array::from_fn(|_| object(rng));
            for block in objects.into_iter().chain([body]) {
                burst.bytes += block.bytes();
                burst.blocks.push(block);
            }
        }
        service.held.fetch_add(burst.bytes, Ordering::Relaxed);
        burst
    }

    fn free(self, worker: usize, rng: &mut Rng) {
        self.service.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.blocks.into_iter().for_each(|block| self.service.pass_or_free(block, worker, rng));
    }
}

/// The maximum of live bytes: the state, the blocks in mailboxes, and the memory of requests or of bursts. Requests and
/// bursts never overlap.
fn most(setup: &Setup) -> Result<usize, String> {
    let (threads, page, burst) = (setup.threads, setup.number("page")?, setup.number("burst")?);
    let serving = threads.min(setup.number("requests")?);
    // A growing page exists twice while it moves, with its old size and with its new size.
    let requests = serving * (2 * page + OBJECTS * mean_size(OBJECT.0, OBJECT.1));
    // The last body, of up to two pages, exceeds the wanted size. Even if `bursts` is 0, there is one burst at the end.
    let taken = burst + 2 * page;
    let bursts = threads.min(setup.number("at_once")?) * taken;
    let mail = threads * (taken / HANDED_OVER);
    Ok(setup.number("live")? + mail + requests.max(bursts))
}

fn run(setup: &Setup, stage: &mut dyn WorkloadStage) -> Result<Outcome, String> {
    let (live, requests) = (setup.number("live")?, setup.number("requests")?);
    let (bursts, burst, at_once) = (setup.number("bursts")?, setup.number("burst")? as u64, setup.number("at_once")?);
    let (page_bytes, idle) = (setup.number("page")?, setup.time("settle")?);
    let threads = setup.threads;
    room::check_mixed(most(setup)? as u64, "parameters `live`, `burst`, `at_once` and `page`")?;

    // The sizes of the state's slots follow from the seed, so the live set has the same number of bytes for each number
    // of threads.
    let mut rng = Rng::part(setup.seed, 0);
    let mut sizes = Vec::new();
    let mut total = 0;
    while total < live {
        sizes.push(mixed_size(&mut rng, OBJECT.0, OBJECT.1).min(live - total).max(8));
        total += sizes.last().copied().unwrap_or(0);
    }
    let service = Service {
        state: sizes.iter().map(|_| Mutex::new(None)).collect(),
        mailboxes: (0..threads).map(|_| Mutex::new(Vec::new())).collect(),
        held: AtomicU64::new(0),
        permits: (Mutex::new(at_once), Condvar::new()),
        verified: AtomicU64::new(0),
    };

    let give_back = |last| give_back_in_wait(setup.allocator, last);
    let give_back: Option<&GiveBack> = if setup.flag("threads_give_back")? { Some(&give_back) } else { None };
    let worker = |worker: usize, gate: &StartGate| {
        let mut rng = Rng::part(setup.seed, 1 + worker as u64);
        let mut laps = Laps::new(setup.timer, 1);
        for slot in (worker..sizes.len()).step_by(threads) {
            *service.state[slot].lock().unwrap() = Some(TaggedBlock::new(sizes[slot], rng.next()));
        }
        gate.stop(); // filled
        for round in 0..=bursts {
            // Worker i mod T serves request i of the whole run. The request depends only on i.
            let share = |round: usize| round * requests / (bursts + 1);
            for index in (share(round)..share(round + 1)).filter(|index| index % threads == worker) {
                let mut rng = Rng::part(!setup.seed, index as u64);
                laps.time(|| request(&service, page_bytes, worker, &mut rng));
            }
            gate.stop(); // the round is over
            if round < bursts {
                service.enter();
                Burst::take(&service, burst, page_bytes, &mut rng).free(worker, &mut rng);
                service.leave();
                gate.stop(); // the burst is over
            }
        }
        let last = (worker < at_once).then(|| Burst::take(&service, burst, page_bytes, &mut rng));
        gate.stop(); // peak: `at_once` workers have a burst's memory
        last.into_iter().for_each(|burst| burst.free(worker, &mut rng));
        gate.stop(); // all workers have passed on the blocks that others must free
        service.empty_mailbox(worker);
        gate.stop_and(give_back); // idle
        for slot in (worker..sizes.len()).step_by(threads) {
            let block = service.state[slot].lock().unwrap().take();
            block.into_iter().for_each(|block| service.free(block));
        }
        gate.stop(); // released
        gate.stop(); // purged
    };

    let active = crew(threads, stage, worker, |conductor| {
        conductor.mark(Moment::Filled, || service.live_bytes());
        conductor.take_active(); // building the state does not count
        let mut active = Duration::ZERO;
        for round in 0..=bursts {
            conductor.meet();
            active += conductor.take_active();
            if round < bursts {
                conductor.meet();
                conductor.take_active(); // a burst is not a request, and its time would grow with the threads
            }
        }
        conductor.mark(Moment::Peak, || service.live_bytes());
        conductor.meet();
        conductor.mark_after(idle, Moment::Idle, || service.live_bytes());
        conductor.mark(Moment::Released, || service.live_bytes());
        conductor.mark(Moment::Purged, || service.live_bytes());
        active
    });
    let verified = service.verified.load(Ordering::Relaxed);
    Ok(Outcome { operations: requests as u64, active, timed_every: 1, verified })
}
