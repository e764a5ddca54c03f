//! Reads programs that grow: whether their heaps are divided, and how far the reading is from the kernel's count.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use allocanary_heap::{ReadMode, take};
use allocanary_sys::proc::ProcStatus;

use crate::check::{Check, Measure};
use crate::decision::Pair;
use crate::place::Place;
use crate::problem::Problem;

pub const CHECK: Check = Check {
    name: "growing",
    works: "programs that grow by 1 and by 6 MiB/s are divided, and what is read differs by less than 2 % from what the kernel counts",
    broken: "one is not analysed, or differs by more than 2 %",
    limit: 0.02,
    begin,
};

/// MiB that each has at first, and by which it grows each second.
const BASE: &str = "100";
const RATES: [&str; 2] = ["1", "6"];
const DEADLINE: Duration = Duration::from_secs(30);

/// A program that is killed when this is dropped.
struct Growing(Child);

impl Drop for Growing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn failed(what: &str, why: &dyn std::fmt::Display) -> Problem {
    Problem::Failed(format!("{what}: {why}"))
}

fn begin(place: &Place) -> Result<Measure, Problem> {
    let program = place.compiled("measured/programs/grows.c")?;
    let mut all = Vec::new();
    for rate in RATES {
        let mut command = Command::new(&program);
        command.args([BASE, rate]).stdout(Stdio::piped());
        let mut growing = Growing(command.spawn().map_err(|error| failed("starting a program that grows", &error))?);
        let output = growing.0.stdout.take().ok_or_else(|| failed("a program that grows", &"it has no output"))?;
        BufReader::new(output).read_line(&mut String::new()).map_err(|error| failed("a program that grows", &error))?;
        all.push(growing);
    }
    Ok(Box::new(move || {
        let mut worst = Pair { checked: 0.0, control: 1.0 };
        for growing in &all {
            let pair = once(growing.0.id())?;
            if pair.checked * worst.control > worst.checked * pair.control {
                worst = pair;
            }
        }
        Ok(worst)
    }))
}

/// One reading, and its distance from the counts before and after it. A heap that is not analysed counts as wrong as a
/// whole.
fn once(pid: u32) -> Result<Pair, Problem> {
    let before = resident(pid)?;
    let reading = take(pid, ReadMode::Running, DEADLINE).map_err(|error| failed("reading the heap", &error))?;
    let after = resident(pid)?;
    let off =
        if reading.resident < before { before - reading.resident } else { reading.resident.saturating_sub(after) };
    let is_whole = reading.is_divided() && reading.problems.is_empty();
    Ok(Pair { checked: if is_whole { off } else { after } as f64, control: after as f64 })
}

/// `VmRSS` in bytes.
fn resident(pid: u32) -> Result<u64, Problem> {
    let status = ProcStatus::of(pid).map_err(|error| failed("status", &error))?;
    status.resident.ok_or_else(|| failed("status", &"it has no VmRSS"))
}
