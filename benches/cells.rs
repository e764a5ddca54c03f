//! The cost of the pipeline itself. In: the cells and the command of this build. Out: a table of targets and measured
//! figures: a cell's memory at start compared with a hello-world program, its wall time outside the worker, the time
//! and the memory of `report`.
//!
//! It prints figures and asserts nothing: on a busy machine a missed target is not a failure. Each figure is a median
//! of fresh processes. Processes that are compared run in turns, so that a slow machine affects both.

#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use allocanary_measure::summary::stats::median;
use allocanary_rows::Cell;
use allocanary_rows::Moment;
use allocanary_rows::job::Job;
use allocanary_rows::provenance::Build;
use allocanary_rows::sample::Sample;
use allocanary_study::session::child::{ChildCommand, run_child};
use allocanary_study::session::{CellOutcome, Executor, Linked, Roster};
use allocanary_sys::proc::ProcStatus;
use allocanary_sys::rng::Rng;
use allocanary_text::units::{Bytes, Unit};

const DEADLINE: Duration = Duration::from_secs(60);
static NEVER: AtomicBool = AtomicBool::new(false);
const ROUNDS: u32 = 25;

fn main() {
    let command = Path::new(env!("CARGO_BIN_EXE_allocanary"));
    let folder = command.parent().expect("an executable lies in a folder");
    let roster = Roster::find(&[folder.to_path_buf()], &Default::default());
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["what", "target", "measured", "of"]);

    let hello = build_hello(folder);
    for (candidate, settings) in [
        ("system", None),
        ("jemalloc", None),
        ("mimalloc", None),
        ("mimalloc:allow_thp=0", Some(("allow_thp".to_string(), "0".to_string()))),
    ] {
        let cell =
            cell(candidate, settings.into_iter().collect(), "server:live=65536,requests=1,bursts=0,settle=0ms", 1);
        let (cells, hellos) = at_start(&roster, &hello, &cell);
        let ratio = format!("{:.3}", cells / hellos);
        let sizes = format!("{} / {}", Bytes(cells as u64), Bytes(hellos as u64));
        table.add_row([format!("{candidate}: RSS at start over hello world's"), "at most 1.100".into(), ratio, sizes]);
    }
    for (allocator, threads) in [("system", 4), ("jemalloc", 4), ("mimalloc", 4), ("jemalloc", 64)] {
        let samples: Vec<Sample> =
            (0..7).map(|_| sample(&roster, &cell(allocator, BTreeMap::new(), "server", threads))).collect();
        let outside: Vec<f64> = samples.iter().filter_map(outside_us).collect();
        table.add_row([
            format!("{allocator}, {threads} threads: a cell's time outside its worker"),
            "at most 15 ms".into(),
            Unit::Microseconds.show(median(&outside).unwrap_or(f64::NAN)),
            format!("{} cells", outside.len()),
        ]);
    }

    let scratch = tempfile::tempdir().expect("a folder for temporary files");
    let real = sample(&roster, &cell("system", BTreeMap::new(), "server", 4));
    // A study of many repeats, and a large study (or the studies of many hosts) of few.
    for (count, repeats) in [(100_000, 3_600), (100_000, 25), (10_000, 360), (10_000, 10)] {
        let rows = scratch.path().join("rows.jsonl");
        let bytes = write_rows(&rows, &real, count, repeats);
        for format in ["table", "html"] {
            let (wall, peak) = report(command, &rows, format);
            let of = format!("{count} rows, {repeats} repeats, {}", Bytes(bytes));
            let (time, memory) = if count == 100_000 { ("under 2 s", "-") } else { ("-", "under 24 MiB") };
            let seconds = Unit::Microseconds.show(wall.as_micros() as f64);
            table.add_row([format!("report --format {format}: time"), time.into(), seconds, of.clone()]);
            table.add_row([format!("report --format {format}: peak RSS"), memory.into(), Bytes(peak).to_string(), of]);
        }
    }
    println!("{table}");
}

/// Builds the hello-world programs with this bench's own profile and features. Returns their folder.
fn build_hello(folder: &Path) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    allocanary_rows::provenance::built_from(allocanary_revision::built());
    let build = Build::this();
    let target = folder.parent().expect("the profile's folder lies in the target folder");
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--examples", "--no-default-features", "--features", env!("ALLOCANARY_FEATURES")])
        .args(["--profile", &build.profile])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .arg("--target-dir")
        .arg(target)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "the hello-world programs could not be built");
    folder.join("examples")
}

fn cell(candidate: &str, settings: BTreeMap<String, String>, workload: &str, threads: u32) -> Cell {
    let allocator = candidate.split(':').next().unwrap_or(candidate);
    Cell { settings, ..Cell::new(candidate, allocator, Job::workload(workload, threads)) }
}

/// Runs a cell as a study does.
fn sample(roster: &Roster, cell: &Cell) -> Sample {
    let CellOutcome::Row(sample) = Linked::new(roster).run(cell, DEADLINE, &NEVER) else {
        panic!("{}: nobody stops it", cell.title())
    };
    assert!(sample.error.is_none(), "{}: {:?}", cell.title(), sample.error);
    *sample
}

fn outside_us(sample: &Sample) -> Option<f64> {
    let inside = sample.measured.as_ref()?.worker_us;
    Some(sample.wall_us.saturating_sub(inside) as f64)
}

/// The median resident memory at start: that of the cell, and that of the program that does nothing.
fn at_start(roster: &Roster, hello: &Path, cell: &Cell) -> (f64, f64) {
    let (description, _) = roster.get(&cell.allocator, None).expect("this build has a cell for each of its allocators");
    let mut environment: BTreeMap<String, String> =
        std::env::var("PATH").into_iter().map(|path| ("PATH".to_string(), path)).collect();
    description.environment.add_to(&mut environment, &cell.settings);
    let environment: Vec<(String, String)> = environment.into_iter().collect();
    let program = hello.join(format!("hello_{}", cell.allocator));
    let child =
        ChildCommand { program: &program, verb: "run", input: b"", environment: &environment, deadline: DEADLINE };
    let (mut cells, mut hellos) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let ended = run_child(&child, &NEVER).expect("the hello-world program was just built");
        hellos.extend(String::from_utf8_lossy(&ended.output).trim().parse::<f64>());
        let answer = sample(roster, cell).measured.expect("a cell without an error has an answer");
        cells.extend(answer.reading("resident_bytes", Moment::Start).map(|bytes| bytes as f64));
    }
    (median(&cells).unwrap_or(f64::NAN), median(&hellos).unwrap_or(f64::NAN))
}

/// Writes `count` rows like `real`: candidates at thread counts with `repeats` repeats each, and readings that differ.
/// Returns the size of the file.
fn write_rows(path: &Path, real: &Sample, count: u32, repeats: u32) -> u64 {
    const CANDIDATES: u32 = 7;
    let mut out = BufWriter::new(fs::File::create(path).expect("a file in our own folder"));
    let mut rng = Rng::new(1);
    let mut row = real.clone();
    for number in 0..count {
        let group = number / repeats;
        row.cell.candidate = format!("system:arena_max={}", 1 + group % CANDIDATES).as_str().into();
        let workload = format!("server:live={}", 65_536 * (1 + group / CANDIDATES / 8));
        row.cell.job = Job::workload(&workload, 1 << (group / CANDIDATES % 8));
        row.cell.repeat = number % repeats;
        row.cell.place = group % CANDIDATES;
        let answer = row.measured.as_mut().expect("a real row has an answer");
        answer.clone_from(real.measured.as_ref().expect("a real row has an answer"));
        let mut vary = |value: &mut u64| *value += rng.below(1 + *value as usize / 16) as u64;
        answer.readings.values_mut().flatten().flatten().for_each(&mut vary);
        vary(&mut answer.active_ns);
        vary(&mut row.wall_us);
        row.started_ms += 250;
        serde_json::to_writer(&mut out, &row).expect("a row is texts and numbers");
        out.write_all(b"\n").expect("room for the rows");
    }
    let file = out.into_inner().expect("room for the rows");
    // Otherwise the rest would be written to the disk during the timed report.
    file.sync_all().expect("room for the rows");
    file.metadata().map_or(0, |meta| meta.len())
}

/// The median time of three reports that nobody observes, and the peak resident memory (VmHWM) of one more, read while
/// it runs. After its end, getrusage would give this process's own value, which Linux carries over exec.
fn report(command: &Path, rows: &Path, format: &str) -> (Duration, u64) {
    let start = || {
        let mut report = Command::new(command);
        report.args(["report", "--format", format]).arg(rows).stdout(Stdio::null());
        report.spawn().expect("the command of this build")
    };
    let mut times = [0; 3].map(|_| {
        let started = Instant::now();
        start().wait().expect("our own child");
        started.elapsed()
    });
    times.sort_unstable();

    let mut watched = start();
    let mut peak = 0;
    while watched.try_wait().expect("our own child").is_none() {
        let most = ProcStatus::of(watched.id()).ok().and_then(|status| status.most_resident);
        peak = peak.max(most.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(1));
    }
    (times[1], peak)
}
