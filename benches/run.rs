//! The cost that `allocanary run` adds to a program. In: a Python program that keeps one processor busy for some seconds.
//! Out: its processor time under `run` and with only `LD_PRELOAD`, and the processor time of the command itself.
//!
//! `cargo bench --bench run` (needs python3)
//!
//! Both take turns, and medians are compared, because a busy machine makes both slower. The target is 1 %.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use allocanary_measure::summary::stats::median;
use allocanary_rows::sample::Sample;
use allocanary_sys::sys;

const ROUNDS: usize = 15;
/// Makes lists and dictionaries, and drops them.
const PROGRAM: &str = "import json\nfor turn in range(60):\n    d = {str(k): list(range(k % 50)) for k in range(4000)}\n    json.loads(json.dumps(d))\n";
const PRELOAD: &str = env!("CARGO_BIN_EXE_preload-jemalloc");

fn main() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let mut bare = Vec::new();
    let mut own = Vec::new();
    for round in 0..ROUNDS {
        bare.push(seconds_bare());
        own.push(seconds_of_command(&folder.path().join(round.to_string())));
    }
    let watched: Vec<f64> = (0..ROUNDS).map(|round| watched(&folder.path().join(round.to_string()))).collect();
    let mut ratios: Vec<f64> = watched.iter().zip(&bare).map(|(watched, bare)| watched / bare).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let of = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    println!("processor time of the program, medians of {ROUNDS}");
    println!("  bare LD_PRELOAD        {:7.3} s", of(&bare));
    println!("  under allocanary run   {:7.3} s", of(&watched));
    println!(
        "  ratio of each pair     {:7.3}  [{:.3}, {:.3}]",
        of(&ratios),
        ratios[ROUNDS / 4],
        ratios[ROUNDS * 3 / 4]
    );
    println!("processor time of the command itself, for a second of its wall time");
    println!("                         {:7.3} s", of(&own));
}

fn program(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// The processor time of the program with `LD_PRELOAD` only, in seconds.
#[expect(clippy::zombie_processes, reason = "sys::reap waits for it, and brings its processor time")]
fn seconds_bare() -> f64 {
    let mut command = Command::new("python3");
    let child = program(command.args(["-c", PROGRAM]).env("LD_PRELOAD", PRELOAD)).spawn().expect("python3 starts");
    loop {
        if let Some((status, usage)) = sys::reap(child.id()).expect("it is ours") {
            assert_eq!(status, 0, "the program failed");
            return (usage.user_us + usage.system_us) as f64 / 1e6;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs the command with one repeat. Returns its own processor time without its children's, per second of wall time.
fn seconds_of_command(out: &Path) -> f64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_allocanary"));
    command.args(["run", "--candidates", "jemalloc", "--repeats", "1", "--out-dir"]).arg(out);
    let started = Instant::now();
    let mut child = program(command.args(["--", "python3", "-c", PROGRAM])).spawn().expect("the command starts");
    let mut seconds = 0.0;
    while child.try_wait().expect("it is ours").is_none() {
        seconds = own_seconds(&child).unwrap_or(seconds);
        std::thread::sleep(Duration::from_millis(5));
    }
    seconds / started.elapsed().as_secs_f64()
}

/// User and system time of a running process, without those of its children.
fn own_seconds(child: &Child) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    let ticks = ticks()? + ticks()?;
    (ticks > 0.0).then_some(ticks / 100.0)
}

/// The processor time of the program, from the row of a run.
fn watched(out: &Path) -> f64 {
    let rows = std::fs::read_to_string(out.join("samples.jsonl")).expect("a run has rows");
    let sample: Sample = serde_json::from_str(rows.lines().next().expect("a row")).expect("a row of this build");
    let answer = sample.measured.unwrap_or_else(|| panic!("the run failed: {rows}"));
    let last = |name: &str| answer.readings[name].iter().rev().flatten().next().copied().unwrap_or(0);
    (last("user_us") + last("system_us")) as f64 / 1e6
}
