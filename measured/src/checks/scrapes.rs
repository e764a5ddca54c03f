//! A service before and after a crowd of scrapes over 40 connections at a time.

use std::time::Duration;

use crate::canary::{Canary, failed};
use crate::check::{Check, Measure};
use crate::decision::Pair;
use crate::place::Place;
use crate::problem::Problem;

pub const CHECK: Check = Check {
    name: "scrapes",
    works: "two seconds after 400 scrapes over 40 connections a service has less than 5 % more memory than before",
    broken: "it has more than that",
    limit: 1.05,
    begin,
};

/// The time from the last answer to the reading: the service checks each second whether it can give memory back.
const SETTLED: Duration = Duration::from_secs(2);

fn begin(place: &Place) -> Result<Measure, Problem> {
    let canary = Canary::start(place, 100, &[])?;
    // A first crowd, so that all one-time allocations are made before the reading.
    crowd(&canary)?;
    std::thread::sleep(SETTLED * 2);
    let mut before = canary.kib("smaps_rollup", "Rss:")?;
    Ok(Box::new(move || {
        crowd(&canary)?;
        std::thread::sleep(SETTLED);
        let after = canary.kib("smaps_rollup", "Rss:")?;
        Ok(Pair { checked: after, control: std::mem::replace(&mut before, after) })
    }))
}

/// Scrapes by 40 threads, ten times each.
fn crowd(canary: &Canary) -> Result<(), Problem> {
    std::thread::scope(|scope| {
        let scrapes = || (0..10).try_for_each(|_| canary.page().map(drop));
        let threads: Vec<_> = (0..40).map(|_| scope.spawn(scrapes)).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(std::io::ErrorKind::Other.into())));
        joined.collect::<std::io::Result<()>>().map_err(failed)
    })
}
