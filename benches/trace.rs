//! The cost of recording and of replaying. In: programs of this file that allocate, without and with the recorder. Out: processor time,
//! instructions and bytes per event; the time per replayed operation with an allocator that does next to nothing.
//!
//! `cargo bench --bench trace` (the instructions need valgrind)
//!
//! Targets: 20 ns per event; 4 bytes per event if frees stay on their thread, 5 if they are on another one; 6 ns per operation.

#![allow(clippy::disallowed_methods)]

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use allocanary_sys::rng::Rng;
use allocanary_sys::sys;
use allocanary_trace::builder::TraceBuilder;
use allocanary_trace::coder::{AllocFunction, Event};
use allocanary_trace::format::{Marks, TraceHeader};
use allocanary_trace::reader::Trace;
use allocanary_trace::record::traces;
use allocanary_trace::replay::{PreparedTrace, ReplayOptions, run};
use tempfile::tempdir;

/// A program: its name, its threads, the calls of the malloc family of each thread, and an allocator that is preloaded.
///
/// Blocks that pass between threads cost more with glibc than the recorder itself. Both threads lock one arena, and any work between two
/// calls changes how often one waits for the other. The preloads have no such lock.
struct Program {
    name: &'static str,
    threads: usize,
    calls: u64,
    preload: Option<(&'static str, &'static str)>,
}

const PROGRAMS: [Program; 7] = [
    Program { name: "pairs", threads: 1, calls: 4_000_000, preload: None },
    Program { name: "pairs", threads: 2, calls: 4_000_000, preload: None },
    Program { name: "window", threads: 1, calls: 4_000_000, preload: None },
    Program { name: "window", threads: 2, calls: 4_000_000, preload: None },
    Program { name: "handed over", threads: 2, calls: 4_000_000, preload: None },
    Program {
        name: "handed over",
        threads: 2,
        calls: 4_000_000,
        preload: Some(("jemalloc", env!("CARGO_BIN_EXE_preload-jemalloc"))),
    },
    Program {
        name: "handed over",
        threads: 2,
        calls: 4_000_000,
        preload: Some(("mimalloc", env!("CARGO_BIN_EXE_preload-mimalloc"))),
    },
];
const ROUNDS: usize = 9;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, program, threads, calls] = &arguments[..]
        && flag == "--program"
    {
        return play(program, threads.parse().unwrap(), calls.parse().unwrap());
    }
    println!("{:<22}{:>8}{:>16}{:>16}{:>14}", "program", "threads", "ns an event", "bytes an event", "instructions");
    for program in &PROGRAMS {
        let mut rounds: Vec<f64> = Vec::new();
        let mut bytes = 0.0;
        for _ in 0..ROUNDS {
            let (plain, _) = program.cpu(false);
            let (recorded, header) = program.cpu(true);
            let events = program.events(program.calls);
            rounds.push((recorded.as_nanos() as f64 - plain.as_nanos() as f64) / events);
            bytes = header.expect("a trace").used as f64 / events;
        }
        rounds.sort_by(f64::total_cmp);
        let instructions = match (program.instructions(false), program.instructions(true)) {
            (Some(plain), Some(recorded)) => format!("{:.1}", recorded - plain),
            _ => "no valgrind".into(),
        };
        let (low, median, high) = (rounds[0], rounds[ROUNDS / 2], rounds[ROUNDS - 1]);
        let time = format!("{median:.1} ({low:.0}-{high:.0})");
        let name = program.preload.map_or(program.name.into(), |(preload, _)| format!("{}, {preload}", program.name));
        println!("{name:<22}{:>8}{time:>16}{bytes:>16.2}{instructions:>14}", program.threads);
    }
    replayed();
}

/// Runs the program: calls of the allocator, half of them frees.
fn play(program: &str, threads: usize, calls: u64) {
    if program == "handed over" {
        let (send, receive) = sync_channel::<Vec<Vec<u8>>>(16);
        let consumer = thread::spawn(move || receive.into_iter().for_each(drop));
        let mut rng = Rng::part(1, 0);
        for _ in 0..calls / 200 {
            let batch = (0..100).map(|_| Vec::with_capacity(16 + (rng.next() % 240) as usize)).collect();
            send.send(batch).unwrap();
        }
        drop(send);
        return consumer.join().unwrap();
    }
    thread::scope(|scope| {
        for thread in 1..threads {
            scope.spawn(move || loops(program, thread, calls));
        }
        loops(program, 0, calls);
    });
}

fn loops(program: &str, thread: usize, calls: u64) {
    let mut rng = Rng::part(1, thread as u64);
    if program == "pairs" {
        for pair in 0..calls / 2 {
            black_box(Vec::<u8>::with_capacity(black_box(16 << (2 * (pair % 4)))));
        }
        return;
    }
    let mut window: Vec<Vec<u8>> = (0..1000).map(|_| Vec::with_capacity(64)).collect();
    for _ in 0..calls / 2 {
        let at = (rng.next() % 1000) as usize;
        window[at] = Vec::with_capacity(16 + (rng.next() % 500) as usize);
    }
    black_box(window);
}

impl Program {
    /// The command that runs this file as the program, with the recorder or without. `folder` is the folder of its traces.
    fn command(&self, calls: u64, folder: Option<&std::path::Path>) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--program", self.name, &self.threads.to_string(), &calls.to_string()]);
        let recorder = folder.map(|_| env!("CARGO_BIN_EXE_preload-record"));
        let preloads: Vec<&str> = recorder.into_iter().chain(self.preload.map(|(_, path)| path)).collect();
        command.env("LD_PRELOAD", preloads.join(" "));
        if let Some(folder) = folder {
            command.env("ALLOCANARY_RECORD", folder);
        }
        command
    }

    /// The number of events in this many calls.
    fn events(&self, calls: u64) -> f64 {
        // One thread allocates the blocks that the other frees.
        if self.name == "handed over" { calls as f64 } else { (calls * self.threads as u64) as f64 }
    }

    /// Processor time of the program and, with the recorder, the header of its trace.
    fn cpu(&self, recorded: bool) -> (Duration, Option<TraceHeader>) {
        let folder = tempdir().unwrap();
        let mut command = self.command(self.calls, recorded.then(|| folder.path()));
        command.arg0("trace-bench");
        let mut child = command.spawn().unwrap();
        let mut status = 0;
        // SAFETY: all zeros are a valid rusage, and the kernel fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert!(libc::wait4(child.id() as i32, &mut status, 0, &mut usage) > 0);
            usage
        };
        let _ = child.try_wait();
        assert_eq!(status, 0, "{}", self.name);
        let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
        let header = traces(folder.path()).unwrap().pop().map(|(_, header)| header);
        (time(usage.ru_utime) + time(usage.ru_stime), header)
    }

    /// Instructions per event, as callgrind counts them, from the difference of two lengths of the program.
    fn instructions(&self, recorded: bool) -> Option<f64> {
        let count = |calls: u64| {
            let folder = tempdir().unwrap();
            let plain = self.command(calls, recorded.then(|| folder.path()));
            let mut valgrind = Command::new("valgrind");
            valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(plain.get_program());
            valgrind.args(plain.get_args());
            for (name, value) in plain.get_envs() {
                valgrind.env(name, value?);
            }
            let said = valgrind.output().ok()?;
            let said = String::from_utf8_lossy(&said.stderr).into_owned();
            let line = said.lines().find(|line| line.contains("Collected"))?;
            line.rsplit(' ').next()?.parse::<f64>().ok()
        };
        Some((count(60_000)? - count(20_000)?) / self.events(40_000))
    }
}

/// Hands out memory piece by piece, and starts again at its end: the least work of an allocator.
struct Least {
    start: *mut u8,
    used: AtomicUsize,
}

const LEAST: usize = 1 << 20;

// SAFETY: the bench uses it on one thread.
unsafe impl Sync for Least {}

// SAFETY: blocks may share memory once it starts again; the bench keeps few alive at one time.
unsafe impl GlobalAlloc for Least {
    #[inline]
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        let at = self.used.load(Relaxed);
        self.used.store((at + 64) % LEAST, Relaxed);
        // SAFETY: within the memory.
        unsafe { self.start.add(at) }
    }

    #[inline]
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

/// Prints the time of an operation of a replay, without the allocator's own work.
fn replayed() {
    let mut sample = TraceBuilder::new(32 << 10);
    let mut window = [0_u64; 100];
    let mut rng = Rng::part(1, 0);
    let operations = 4_000_000_u64;
    for at in 0..operations / 2 {
        let slot = (rng.next() % 100) as usize;
        if window[slot] != 0 {
            sample.event(0, at * 8, Event::Free { address: window[slot] });
        }
        window[slot] = 0x1000_0000 + at % 1000 * 64;
        if window.iter().filter(|address| **address == window[slot]).count() > 1 {
            window[slot] = 0x2000_0000 + at * 64;
        }
        sample.event(0, at * 8, Event::New { how: AllocFunction::Malloc, address: window[slot], size: 48 });
    }
    let folder = tempdir().unwrap();
    let (trace, out) = (folder.path().join("a.trace"), folder.path().join("prepared"));
    std::fs::write(&trace, sample.finish()).unwrap();
    let (begun, cpu) = (std::time::Instant::now(), sys::usage());
    allocanary_trace::prepare::write(&Trace::open(&trace).unwrap(), &out, Marks::default()).unwrap();
    let spent = sys::usage().user_us - cpu.user_us;
    println!(
        "preparing: {:.0} ns of processor time an event, {:.1?} in all",
        spent as f64 * 1e3 / operations as f64,
        begun.elapsed()
    );
    let prepared = PreparedTrace::open(&out).unwrap();
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let mut memory = vec![0_u8; LEAST];
            let least = Least { start: memory.as_mut_ptr(), used: AtomicUsize::new(0) };
            let before = sys::usage();
            let done = run(&prepared, &least, ReplayOptions::default(), &mut |_| ()).unwrap();
            let after = sys::usage();
            let spent = after.user_us + after.system_us - before.user_us - before.system_us;
            spent as f64 * 1e3 / done.operations as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "replaying: {:.1} ns of processor time an operation ({:.1}-{:.1})",
        times[ROUNDS / 2],
        times[0],
        times[ROUNDS - 1]
    );
}
