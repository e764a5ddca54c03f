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

/// 14 MiB of strings, every second of which it frees; then it waits, so that it is read near its peak: `run` reads memory that stands
/// still for a quarter of a second, and takes 10 ms for it. On a busy machine it takes longer, and so does what the program did until
/// then: it waits forty times that.
const PROGRAM: &str = "import time; t = time.monotonic(); a = ['x' * (500 + i % 900) for i in range(15000)]; del a[::2]; \
     time.sleep(min(8, max(0.6, 40 * (time.monotonic() - t))))";
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
        let rows = fs::read_to_string(format!("{out}/samples.jsonl")).map_err(|error| failed(&error))?;
        // The next pair's `run` shall not go on with these.
        fs::remove_dir_all(&*out).map_err(|error| failed(&format!("{out} could not be removed: {error}")))?;
        worst(&rows)
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
        if let Some(error) = &row.error {
            return Err(failed(&format!("wanted one of {}, found the error {error:?}", row.cell.candidate)));
        }
        let found = row.answer.as_ref().and_then(|answer| Anatomy::of(answer, None));
        let found = found.ok_or_else(|| failed(&format!("{} has no parts of its memory", row.cell.candidate)))?;
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
