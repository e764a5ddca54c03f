//! Reads programs whose threads replace blocks all the time: how far the live bytes are from the truth, and how far they may be by the
//! reading itself.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use allocanary_heap::{PartsCertainty, ReadMode, Reading, take};

use crate::check::{Check, Measure};
use crate::decision::Pair;
use crate::place::Place;
use crate::problem::Problem;

pub const CHECK: Check = Check {
    name: "busy",
    works: "live bytes of a busy program under jemalloc and mimalloc are right within what the reading says",
    broken: "they are further off, or a heap is not analysed, under one of them",
    limit: 1.0,
    begin,
};

const ALLOCATORS: [&str; 2] = ["jemalloc", "mimalloc"];
const DEADLINE: Duration = Duration::from_secs(30);
/// A heap that was walked says no limit: two of a hundred bytes is what its walker accepts.
const WALKED: u64 = 50;

/// A program that answers lines. It is killed when this is dropped.
struct Answering {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    allocator: &'static str,
    /// Its live bytes, which stay the same.
    live: u64,
}

impl Drop for Answering {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(why: &dyn std::fmt::Display) -> Problem {
    Problem::Failed(format!("a busy program: {why}"))
}

impl Answering {
    fn start(place: &Place, program: &str, allocator: &'static str) -> Result<Answering, Problem> {
        let mut command = place.preloaded(&[program, "threads"], allocator, "")?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| failed(&error))?;
        let (input, output) = child.stdin.take().zip(child.stdout.take()).ok_or_else(|| failed(&"it has no pipes"))?;
        let mut started = Answering { child, input, output: BufReader::new(output), allocator, live: 0 };
        started.line()?;
        let before = live(&started.read()?);
        let built = started.ask("build")?;
        let words = built.split_whitespace().filter_map(|pair| pair.split_once('='));
        let own: Option<u64> = { words }.find(|(name, _)| *name == "live").and_then(|(_, count)| count.parse().ok());
        started.live = before + own.ok_or_else(|| failed(&format!("it answers `{built}`")))?;
        started.ask("busy")?;
        Ok(started)
    }

    fn line(&mut self) -> Result<String, Problem> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| failed(&error))?;
        Ok(line)
    }

    fn ask(&mut self, line: &str) -> Result<String, Problem> {
        writeln!(self.input, "{line}").map_err(|error| failed(&error))?;
        self.line()
    }

    fn read(&self) -> Result<Reading, Problem> {
        take(self.child.id(), ReadMode::Running, DEADLINE).map_err(|error| failed(&error))
    }

    /// How far a reading is off, and how far it may be. A heap that is not analysed is further off than it may be.
    fn pair(&self) -> Result<Pair, Problem> {
        let reading = self.read()?;
        let heap = reading.heaps.iter().find(|heap| heap.allocator == self.allocator);
        let Some(heap) = heap.filter(|heap| heap.sure != PartsCertainty::NotKnown) else {
            return Ok(Pair { checked: self.live as f64, control: (self.live / WALKED) as f64 });
        };
        let within = heap.copied.map_or(self.live / WALKED, |copied| copied.within);
        Ok(Pair { checked: live(&reading).abs_diff(self.live) as f64, control: within as f64 })
    }
}

/// The live bytes of all heaps.
fn live(reading: &Reading) -> u64 {
    reading.heaps.iter().map(|heap| heap.live).sum()
}

fn begin(place: &Place) -> Result<Measure, Problem> {
    let program = place.compiled("examples/heap/known.c")?;
    let program = program.to_string_lossy();
    let all: Vec<Answering> = ALLOCATORS
        .into_iter()
        .map(|allocator| Answering::start(place, &program, allocator))
        .collect::<Result<_, _>>()?;
    Ok(Box::new(move || {
        let mut worst = Pair { checked: 0.0, control: 1.0 };
        for one in &all {
            let pair = one.pair()?;
            if pair.checked * worst.control > worst.checked * pair.control {
                worst = pair;
            }
        }
        Ok(worst)
    }))
}
