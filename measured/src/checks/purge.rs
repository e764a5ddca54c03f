//! A cell of jemalloc that has freed everything, before and after a purge.

use allocanary_rows::Moment;

use crate::check::{Check, Measure};
use crate::decision::Pair;
use crate::place::{Place, cell};
use crate::problem::Problem;

pub const CHECK: Check = Check {
    name: "purge",
    works: "after everything is freed a purge gives back more than half of the growth since the start",
    broken: "it gives back less than half of it",
    limit: 0.5,
    begin,
};

fn begin(place: &Place) -> Result<Measure, Problem> {
    // Without decay, freed pages stay until the purge. Without thread caches, the purge reaches all free blocks.
    let cell = cell("jemalloc:dirty_decay_ms=-1,tcache=false", "server:settle=1ms,live=32MiB,requests=10", 1)?;
    let answer = place.answers(cell)?;
    Ok(Box::new(move || {
        let answer = answer()?;
        let read = |moment| {
            let found = answer.reading("anonymous_bytes", moment).map(|bytes| bytes as f64);
            found.ok_or_else(|| Problem::Failed(format!("the cell has no anonymous_bytes at {}", moment.name())))
        };
        let start = read(Moment::Start)?;
        let grown = |moment| Ok((read(moment)? - start).max(0.0));
        Ok(Pair { checked: grown(Moment::Purged)?, control: grown(Moment::Released)? })
    }))
}
