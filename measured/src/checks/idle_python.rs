//! Python with eight threads that wait for a message, under the preload with and without `idle`.

use super::idle_threads::pairs_of;
use crate::check::{Check, Measure};
use crate::place::{Place, root};
use crate::problem::Problem;

pub const CHECK: Check = Check {
    name: "idle-python",
    works: "with thread_idle=50ms Python with 8 waiting threads has less than half of its anonymous memory without",
    broken: "it has more than half of it",
    limit: 0.5,
    begin,
};

fn begin(place: &Place) -> Result<Measure, Problem> {
    let program = root("examples/preload/idle.py");
    // Ten rounds of work, and half a second until memory is read.
    let words = ["/usr/bin/python3", &program.to_string_lossy(), "10", "0.5"];
    let command = |settings| place.preloaded(&words, "jemalloc", settings);
    Ok(pairs_of(command("thread_idle=50ms")?, command("")?))
}
