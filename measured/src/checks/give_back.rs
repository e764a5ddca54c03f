//! Compares the memory that a Python program gives back with the forecast. The program has freed most of its memory, and gives it
//! back by a call from outside.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use allocanary_heap::{ReadMode, take};
use allocanary_inside::give_back::plan::plan;
use allocanary_inside::give_back::{Limits, carry_out};

use crate::check::{Check, Measure};
use crate::decision::Pair;
use crate::place::Place;
use crate::problem::Problem;

pub const CHECK: Check = Check {
    name: "give-back",
    works: "what Python gives back through a borrowed thread differs from the forecast by less than 10 %",
    broken: "it differs by more than 10 %",
    limit: 0.1,
    begin,
};

/// The time for a reading.
const DEADLINE: Duration = Duration::from_secs(30);

/// Allocates blocks of malloc, frees all but every two hundredth, and waits.
const PROGRAM: &str = "
import time
all = [bytes(2000) for _ in range(20000)]
kept = all[::200]
del all
print('ready', flush=True)
time.sleep(1000)";

/// A program that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn begin(_place: &Place) -> Result<Measure, Problem> {
    Ok(Box::new(once))
}

fn once() -> Result<Pair, Problem> {
    let failed = |what: &str, why: &dyn std::fmt::Display| Problem::Failed(format!("{what}: {why}"));
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", PROGRAM]).env("PYTHONMALLOC", "malloc").stdout(Stdio::piped());
    let mut running = Running(command.spawn().map_err(|error| failed("starting python3", &error))?);
    let output = running.0.stdout.take().ok_or_else(|| Problem::Failed("python3 has no output".into()))?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).map_err(|error| failed("reading from python3", &error))?;
    let pid = running.0.id();
    let before = take(pid, ReadMode::Running, DEADLINE).map_err(|error| failed("reading the heap", &error))?;
    let planned = plan(&before);
    let one = planned.first().ok_or_else(|| Problem::Failed("python3 has nothing to give back".into()))?;
    let forecast = one.forecast.ok_or_else(|| Problem::Failed("the heap of python3 was not analysed".into()))?;
    let calls = (one.remedy.calls)();
    let limits = Limits { patience: Duration::from_secs(10), every: None };
    carry_out(pid, one.remedy, &calls, limits).map_err(|error| failed("the call", &error))?;
    let after = take(pid, ReadMode::Running, DEADLINE).map_err(|error| failed("reading the heap again", &error))?;
    let given = before.resident.saturating_sub(after.resident);
    Ok(Pair { checked: given.abs_diff(forecast) as f64, control: forecast as f64 })
}
