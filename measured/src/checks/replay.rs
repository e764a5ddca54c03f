//! A program with threads, recorded, and the replay of its trace under the same allocator with the same settings.

use std::fs;

use allocanary_rows::Moment;
use allocanary_trace::info::info;
use allocanary_trace::reader::Trace;

use crate::check::{Check, Measure};
use crate::decision::Pair;
use crate::place::{Place, cell, clean, output};
use crate::problem::Problem;

pub const CHECK: Check = Check {
    name: "replay",
    works: "the peak of a replay differs by less than a quarter from that of the recorded program",
    broken: "it differs by more",
    limit: 0.25,
    begin,
};

fn begin(place: &Place) -> Result<Measure, Problem> {
    let program = place.compiled("tests/record/threads.c")?;
    let (command, traces) = (place.binary("allocanary")?, place.folder().join("traces"));
    // One arena. With more arenas, the memory that the program keeps depends on how long each thread runs at a time: 5.6 MiB
    // on an idle machine, 9.9 on a busy one. The threads of a replay run in another order.
    let words = ["env", "MALLOC_ARENA_MAX=1", &program.to_string_lossy()].map(String::from);
    let mut recorded = clean(&[&command.to_string_lossy(), "record", "-o", "traces", "--"], place.folder());
    recorded.args(words);
    let failed = |why: String| Problem::Failed(format!("the recorded program: {why}"));
    let only = traces.join("only.trace");
    let answer = place.answers(cell("system:arena_max=1", &format!("replay:trace={}", only.display()), 1)?)?;
    Ok(Box::new(move || {
        let _ = fs::remove_dir_all(&traces);
        output(&mut recorded)?;
        let entries = fs::read_dir(&traces).map_err(|error| failed(error.to_string()))?;
        let paths = entries.flatten().map(|entry| entry.path());
        let trace = paths.filter(|path| path.extension().is_some_and(|ending| ending == "trace"));
        // `env` executes the program; its own start leaves a small trace.
        let trace = trace.max_by_key(|path| path.metadata().map_or(0, |found| found.len()));
        let trace = trace.ok_or_else(|| failed(format!("no trace in {}", traces.display())))?;
        fs::rename(&trace, &only).map_err(|error| failed(error.to_string()))?;
        let trace = Trace::open(&only).map_err(|error| failed(error.to_string()))?;
        let found = info(&trace).map_err(|error| failed(error.to_string()))?;
        let answer = answer()?;
        let read = |moment| answer.reading("anonymous_bytes", moment).unwrap_or(0);
        let (replay, program) = (read(Moment::Peak).max(read(Moment::Idle)) as f64, found.most_resident as f64);
        Ok(Pair { checked: (replay - program).abs(), control: program })
    }))
}
