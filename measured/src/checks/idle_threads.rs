//! A C++ program whose sixteen threads wait in poll, under the preload with and without `idle`.

use std::process::Command;

use crate::check::{Check, Measure};
use crate::decision::Pair;
use crate::place::{Place, output};
use crate::problem::Problem;

pub const CHECK: Check = Check {
    name: "idle-threads",
    works: "with thread_idle=50ms a program with 16 waiting threads has less than half of its anonymous memory without",
    broken: "it has more than half of it",
    limit: 0.5,
    begin,
};

fn begin(place: &Place) -> Result<Measure, Problem> {
    let program = place.compiled("measured/programs/idlers.cpp")?;
    let words = [&program.to_string_lossy(), "16", "500"];
    let command = |settings| place.preloaded(&words, "jemalloc", settings);
    Ok(pairs_of(command("thread_idle=50ms")?, command("")?))
}

/// Pairs of two commands. Both print the same answer, and their memory when idle in KiB.
pub fn pairs_of(mut with: Command, mut without: Command) -> Measure {
    let read = |command: &mut Command| {
        let said = output(command)?;
        let found = said.split_once(' ').and_then(|(answer, kib)| Some((answer.to_string(), kib.parse().ok()?)));
        found.ok_or_else(|| Problem::Failed(format!("{command:?}: wanted a sum and KiB, found `{said}`")))
    };
    Box::new(move || {
        let ((found, checked), (wanted, control)) = (read(&mut with)?, read(&mut without)?);
        match found == wanted {
            true => Ok(Pair { checked, control }),
            false => Err(Problem::Failed(format!("{with:?}: the answer: wanted {wanted}, found {found}"))),
        }
    })
}
