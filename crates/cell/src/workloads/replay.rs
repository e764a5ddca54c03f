//! `replay`: executes a program's recorded allocations with this cell's allocator.
//!
//! The operations and the table of blocks are in memory that RssAnon does not count, so `anonymous_bytes` is the figure
//! to read. See [`allocanary_trace::replay`].

use std::fs::File;
use std::path::Path;

use crate::workload::{Moment, Outcome, Setup, WAIT, Workload, WorkloadStage, parameter};
use allocanary_facts::setting::SettingKind;
use allocanary_rows::sample::{HEAP_PEAK, MOST_ANON};
use allocanary_trace::format::Marks;
use allocanary_trace::prepare::open_elsewhere;
use allocanary_trace::replay::{self, Global, Noted, Pool, ReplayMoment, ReplayOptions, ReplayStop};

pub const WORKLOAD: Workload = Workload {
    name: "replay",
    about: "a recorded trace of `allocanary record`; its own threads, whatever --threads says",
    operation: "call of the malloc family",
    parameters: &[
        parameter("trace", SettingKind::Path, NOTHING, "the trace to replay"),
        parameter(
            "pace",
            SettingKind::Number { min: 0, max: 1000 },
            "0",
            "1 keeps the program's times, 10 is ten times as fast, 0 as fast as it can",
        ),
        parameter(
            "touch",
            SettingKind::words(TOUCH),
            "page",
            "what is written to a block: a byte of each page, or every byte",
        ),
        parameter("settle", SettingKind::Time { min: 1, max: 1_000_000_000 }, "50ms", "rest before `idle` is read"),
        parameter("peak_at", WAIT, "0ms", "time of the trace until which the peak is looked for; 0ms as recorded"),
        parameter(
            "blocks",
            SettingKind::Path,
            NOTHING,
            "a file for where each block lies and which pages are resident; it must exist",
        ),
        parameter("blocks_at", SettingKind::words(BLOCKS_AT), "idle", "when these are written"),
        parameter(
            "elsewhere",
            SettingKind::Path,
            NOTHING,
            "a prepared form of the trace, for these marks, whose marked blocks come from a pool of their own",
        ),
        parameter("idle_at", WAIT, "0ms", "time of the trace at which `idle` is read; 0ms as recorded"),
    ],
    seconds: 2.0,
    grows_with: &[],
    rests: None,
    run,
};

/// The value of a parameter if the user names no file.
const NOTHING: &str = "none";
const BLOCKS_AT: &[std::borrow::Cow<'static, str>] =
    &[std::borrow::Cow::Borrowed("idle"), std::borrow::Cow::Borrowed("peak")];
const TOUCH: &[std::borrow::Cow<'static, str>] =
    &[std::borrow::Cow::Borrowed("page"), std::borrow::Cow::Borrowed("full")];

fn run(setup: &Setup, stage: &mut dyn WorkloadStage) -> Result<Outcome, String> {
    let trace = setup.word("trace")?;
    if trace == NOTHING {
        return Err("parameter `trace`: wanted the path of a trace, such as replay:trace=/tmp/redis.trace".into());
    }
    let idle = setup.time("settle")?;
    let options = ReplayOptions { pace: setup.number("pace")? as f64, touch_full: setup.word("touch")? == "full" };
    let at = |name: &str| -> Result<Option<u64>, String> {
        Ok(Some(setup.time(name)?.as_nanos() as u64).filter(|nanos| *nanos > 0))
    };
    let asked = Marks { ready: None, peak: at("peak_at")?, idle: at("idle_at")? };
    let form = Some(setup.word("elsewhere")?).filter(|form| *form != NOTHING);
    let prepared = match form {
        Some(form) => open_elsewhere(Path::new(form), Path::new(trace), asked),
        None => replay::prepare_apart(Path::new(trace), asked),
    };
    let prepared = prepared.map_err(|error| error.to_string())?;
    let blocks = Blocks::asked(setup)?;
    let noted = match blocks.is_some() || form.is_some() {
        true => Some(Noted::new(Global).ok_or("blocks: no address space for a bit of each page")?),
        false => None,
    };
    let pool = match noted.as_ref().filter(|_| form.is_some()) {
        Some(noted) => Some(Pool::new(noted.notes()).ok_or("elsewhere: no address space for a pool")?),
        None => None,
    };
    let mut problem = None;
    let mut stop = |stop: &ReplayStop<'_>| {
        if stop.moment == ReplayMoment::Idle {
            std::thread::sleep(idle);
        }
        if let (Some(noted), Some(blocks)) = (&noted, blocks.as_ref().filter(|blocks| blocks.at == stop.moment)) {
            problem = noted.write(stop, &blocks.file).err();
        }
        let moment = match stop.moment {
            ReplayMoment::Ready => Moment::Filled,
            ReplayMoment::Peak => Moment::Peak,
            ReplayMoment::Idle => Moment::Idle,
        };
        stage.mark(moment, stop.live);
    };
    let done = match &noted {
        Some(noted) => replay::run_with(&prepared, noted, pool.as_ref(), options, &mut stop),
        None => replay::run(&prepared, &Global, options, &mut stop),
    };
    let done = done.map_err(|error| format!("{trace}: {error}"))?;
    if let Some(error) = problem {
        return Err(format!("blocks: writing where they lie: {error}"));
    }
    stage.note("trace_threads", prepared.threads);
    stage.note("trace_peak_live", prepared.peak_live);
    stage.note("trace_resident_peak", prepared.most_resident);
    stage.note("trace_resident_end", prepared.last_resident);
    stage.note("trace_rate", prepared.rate);
    stage.note(MOST_ANON, done.most_anon);
    stage.note(HEAP_PEAK, done.heap_peak);
    Ok(Outcome { operations: done.operations, active: done.active, timed_every: 1, verified: done.verified })
}

/// The file to which the addresses of blocks are written, and the moment at which this happens.
struct Blocks {
    file: File,
    at: ReplayMoment,
}

impl Blocks {
    #[expect(clippy::disallowed_methods, reason = "the command made this file, and reads it by its descriptor")]
    fn asked(setup: &Setup) -> Result<Option<Blocks>, String> {
        let path = setup.word("blocks")?;
        if path == NOTHING {
            return Ok(None);
        }
        let file = File::options().write(true).truncate(true).open(path);
        let file = file.map_err(|error| format!("parameter `blocks`: {path}: {error}"))?;
        let at = if setup.word("blocks_at")? == "peak" { ReplayMoment::Peak } else { ReplayMoment::Idle };
        Ok(Some(Blocks { file, at }))
    }
}
