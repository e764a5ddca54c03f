//! The heap of Python under each allocator, as `run` divides it from outside while the program runs.

use std::fs;

use allocanary_cell::sample::Sample;
use allocanary_study::summary::Anatomy;
use allocanary_study::summary::anatomy::Part;

use crate::check::{Check, Measure};
use crate::decision::Pair;
use crate::place::{Place, clean, output};
use crate::problem::Problem;

pub const CHECK: Check = Check {
    name: "divided",
    works: "`run` divides the heap of Python under glibc, jemalloc and mimalloc: less than 2 % of what is resident is not divided",
    broken: "more than 2 % is not, under one of them",
    limit: 0.02,
    begin,
};

/// 14 MiB of strings, every second of which it frees; then it waits, so that it is read near its peak. A reading of that takes some 10 ms,
/// and may take 1 % of the time: on a busy machine a heap of 60 MiB was read too late.
const PROGRAM: &str = "import time; a = ['x' * (500 + i % 900) for i in range(15000)]; del a[::2]; time.sleep(4)";
const CANDIDATES: [&str; 3] = ["system", "jemalloc", "mimalloc"];

fn begin(place: &Place) -> Result<Measure, Problem> {
    let place = place.clone();
    Ok(Box::new(move || {
        let out = place.folder().join("divided");
        let out = out.to_string_lossy();
        let command = place.binary("allocanary")?;
        let mut words = vec![&*command.to_string_lossy(), "run", "--repeats", "1", "--any-output", "--out", &out]
            .into_iter()
            .map(String::from)
            .collect::<Vec<_>>();
        words.push("--candidates".into());
        words.extend(CANDIDATES.map(String::from));
        words.extend(["--", "python3", "-c", PROGRAM].map(String::from));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        output(&mut clean(&words, place.folder()))?;
        let worst = worst(&fs::read_to_string(format!("{out}/samples.jsonl")).map_err(|error| failed(&error))?);
        let _ = fs::remove_dir_all(&*out);
        worst
    }))
}

fn failed(why: &dyn std::fmt::Display) -> Problem {
    Problem::Failed(format!("the rows of `run`: {why}"))
}

/// The row of whose memory most is not divided.
fn worst(rows: &str) -> Result<Pair, Problem> {
    let mut worst = Pair { checked: 0.0, control: 1.0 };
    for row in rows.lines() {
        let row: Sample = serde_json::from_str(row).map_err(|error| failed(&error))?;
        let found = row.answer.as_ref().and_then(|answer| Anatomy::of(answer, None));
        let found = found.ok_or_else(|| failed(&format!("{} has no parts: {:?}", row.cell.candidate, row.error)))?;
        let undivided = if found.is_divided { 0.0 } else { found.get(Part::Huge) };
        let pair = Pair { checked: found.get(Part::Heap) + undivided, control: found.rss };
        if pair.checked * worst.control > worst.checked * pair.control {
            worst = pair;
        }
    }
    match rows.lines().count() {
        rows if rows == CANDIDATES.len() => Ok(worst),
        rows => Err(failed(&format!("wanted {}, found {rows}", CANDIDATES.len()))),
    }
}
