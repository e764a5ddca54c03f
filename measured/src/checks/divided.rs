//! Checks how `run` divides the heap of Python under each allocator, from outside and while the program runs.

use std::fs;

use allocanary_measure::summary::Anatomy;
use allocanary_measure::summary::anatomy::Part;
use allocanary_rows::sample::Sample;

use crate::check::{Check, Measure};
use crate::decision::Pair;
use crate::place::{Place, clean, output};
use crate::problem::Problem;

pub const CHECK: Check = Check {
    name: "divided",
    works: "`run` divides the heap of Python under glibc, jemalloc and mimalloc: less than 2 % of what is resident is not analysed",
    broken: "more than 2 % is not, under one of them",
    limit: 0.02,
    begin,
};

/// Makes 14 MiB of strings and frees every second one. Then the program waits, so that it is read near its peak: `run` reads memory
/// that has not changed for a quarter of a second, and takes 10 ms of processor time for it. On a busy machine `run` waits for a
/// processor, so the program waits longer if there are more other tasks.
const PROGRAM: &str = "import os, time; a = ['x' * (500 + i % 900) for i in range(15000)]; del a[::2]; \
     time.sleep(min(10, max(0.6, os.getloadavg()[0] / 3)))";
const CANDIDATES: [&str; 3] = ["system", "jemalloc", "mimalloc"];

fn begin(place: &Place) -> Result<Measure, Problem> {
    let place = place.clone();
    // The programs wait most of the time, so that one can run next to the others.
    Ok(Box::new(move || {
        std::thread::scope(|scope| {
            let runs = CANDIDATES.map(|candidate| scope.spawn(|| divided(&place, candidate)));
            let mut worst = Pair { checked: 0.0, control: 1.0 };
            for run in runs {
                let pair = run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                if pair.checked * worst.control > worst.checked * pair.control {
                    worst = pair;
                }
            }
            Ok(worst)
        })
    }))
}

/// The part of a candidate's memory that is not analysed, and the whole.
fn divided(place: &Place, candidate: &str) -> Result<Pair, Problem> {
    let out = place.folder().join(format!("divided-{candidate}"));
    let out = out.to_string_lossy();
    let command = place.binary("allocanary")?;
    let words = [&*command.to_string_lossy(), "run", "--repeats", "1", "--any-output", "--out-dir", &out];
    let words = [&words[..], &["--candidates", candidate, "--", "python3", "-c", PROGRAM]].concat();
    output(&mut clean(&words, place.folder()))?;
    let rows = fs::read_to_string(format!("{out}/samples.jsonl")).map_err(|error| failed(&error))?;
    // So that the `run` of the next pair does not continue these rows.
    fs::remove_dir_all(&*out).map_err(|error| failed(&format!("{out} could not be removed: {error}")))?;
    let [row] = rows.lines().collect::<Vec<_>>()[..] else {
        return Err(failed(&format!("wanted one of {candidate}, found {}", rows.lines().count())));
    };
    let row: Sample = serde_json::from_str(row).map_err(|error| failed(&error))?;
    if let Some(error) = &row.error {
        return Err(failed(&format!("wanted one of {candidate}, found the error {error:?}")));
    }
    let found = row.measured.as_ref().and_then(|answer| Anatomy::of(answer, None));
    let found = found.ok_or_else(|| failed(&format!("{candidate} has no parts of its memory")))?;
    Ok(Pair { checked: found.get(Part::Unknown), control: found.rss })
}

fn failed(why: &dyn std::fmt::Display) -> Problem {
    Problem::Failed(format!("the rows of `run`: {why}"))
}
