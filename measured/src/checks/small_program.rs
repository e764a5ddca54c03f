//! A small C program under the preload of the system's malloc and without it: its resident memory, and the part without files.

use crate::check::{Check, Measure};
use crate::decision::Pair;
use crate::place::{Place, clean, output};
use crate::problem::Problem;

pub const RESIDENT: Check = Check {
    name: "small-resident",
    works: "the system's preload adds less than 400 KiB to the resident memory of a small program",
    broken: "it adds more",
    limit: 1.0,
    begin: |place| begin(place, 0, 400.0),
};

pub const ANONYMOUS: Check = Check {
    name: "small-anonymous",
    works: "the system's preload adds less than 64 KiB to the anonymous memory of a small program",
    broken: "it adds more",
    limit: 1.0,
    begin: |place| begin(place, 1, 64.0),
};

/// A reading is the mean of this many runs, because the part of a file that the kernel maps around a fault differs by 75 KiB
/// (standard deviation) from run to run.
const RUNS: u32 = 20;

/// Pairs of the column `at` of what the program prints; the control may have `more` KiB.
fn begin(place: &Place, at: usize, more: f64) -> Result<Measure, Problem> {
    let program = place.compiled("tests/it/preloads_c/hello.c")?;
    let words = [&*program.to_string_lossy()];
    let (mut with, mut without) = (place.preloaded(&words, "system", "")?, clean(&words, place.folder()));
    Ok(Box::new(move || {
        let mut pair = Pair { checked: 0.0, control: more };
        for _ in 0..RUNS {
            for (command, sum) in [(&mut with, &mut pair.checked), (&mut without, &mut pair.control)] {
                let said = output(command)?;
                let found = said.split_whitespace().nth(at).and_then(|number| number.parse::<f64>().ok());
                let found = found.ok_or_else(|| Problem::Failed(format!("wanted two numbers, found `{said}`")))?;
                *sum += found / f64::from(RUNS);
            }
        }
        Ok(pair)
    }))
}
