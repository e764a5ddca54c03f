//! The canary as a workload of `allocanary study canary`. In: a cell. Out: the memory of the real service while it probes,
//! is scraped, is idle and has ended.
//!
//! The cell is the canary: its threads, its sockets, its pages. Only the scrapes come from a separate process, so that
//! Prometheus' memory is not counted as the canary's.

mod scrape;
mod workload;

use std::process::ExitCode;

use allocanary::Allocator;
use allocanary_cell::worker::{self, Worker};
use allocanary_rows::provenance::Build;

/// The main function of a cell with this allocator.
pub fn main(allocator: &dyn Allocator) -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(scrape::VERB) {
        return scrape::main();
    }
    let build = || Build::of_package(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    worker::main_of(&Worker { allocator, workloads: &[&workload::WORKLOAD], build, built: allocanary_revision::built })
}
