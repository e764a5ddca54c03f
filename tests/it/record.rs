//! Real programs, recorded and replayed: counts that the program fixes, no strays, and memory that agrees.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use allocanary_rows::Moment;
use allocanary_testing::programs::compiled_to;
use allocanary_testing::skipped::skipped;
use allocanary_trace::format::TraceEnd;
use allocanary_trace::info::{Info, info};
use allocanary_trace::reader::Trace;
use tempfile::{TempDir, tempdir};

use super::bounded::Bounded;
use super::support::{Ran, allocanary, answer, cell, command, reading, samples};

/// The blocks that `tests/record/threads.c` passes to other threads: 207 threads with 2947 blocks each, and one block
/// of each that its key frees.
const HANDED_OVER: u64 = 207 * 2947;

/// The C program; `None` if there is no compiler.
fn threads_program(folder: &Path) -> Option<PathBuf> {
    compiled(folder, "threads")
}

/// A C program of `tests/record`; `None` if there is no compiler.
pub fn compiled(folder: &Path, name: &str) -> Option<PathBuf> {
    compiled_as(folder, name, name, &[])
}

/// The same with more flags, to a file of another name.
pub fn compiled_as(folder: &Path, name: &str, out: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/record/{name}.c"));
    compiled_to(&folder.join(out), &[&source], &[&["-O1", "-pthread", "-w"], flags].concat())
}

/// Records a program in a folder; each trace by the name of its program, the largest first.
fn record(folder: &Path, flags: &[&str], program: &[&str]) -> (Ran, Vec<Info>) {
    let out = folder.join("traces");
    let _ = std::fs::remove_dir_all(&out);
    let mut command = command(folder);
    command.args(["record", "-o", "traces"]).args(flags).arg("--").args(program).env("PYTHONMALLOC", "malloc");
    let ran: Ran = command.stdin(Stdio::null()).finish().unwrap().into();
    let mut infos: Vec<(u64, Info)> = traces(&out)
        .iter()
        .map(|path| {
            let info = info(&Trace::open(path).unwrap()).unwrap();
            (info.merged.events, info)
        })
        .collect();
    infos.sort_by_key(|(events, _)| std::cmp::Reverse(*events));
    (ran, infos.into_iter().map(|(_, info)| info).collect())
}

pub fn traces(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect());
    let mut paths: Vec<PathBuf> = entries.unwrap_or_default();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "trace"));
    paths.sort_by_key(|path| std::cmp::Reverse(path.metadata().map_or(0, |metadata| metadata.len())));
    paths
}

fn in_path(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

#[test]
fn short_threads_that_hand_blocks_over_leave_no_stray() {
    let folder = tempdir().unwrap();
    let Some(program) = threads_program(folder.path()) else { return };
    let program = program.to_str().unwrap();
    for round in 0..3 {
        let (ran, infos) = record(folder.path(), &[], &[program]);
        assert_eq!((ran.code, ran.out.trim()), (Some(0), HANDED_OVER.to_string().as_str()), "{}", ran.err);
        // The program, its forked child, and the program that its vforked child became.
        let [whole, child, other] = &infos[..] else { panic!("{} traces", infos.len()) };
        assert_eq!((whole.merged.strays, whole.merged.lost_frees), (0, 0), "round {round}");
        assert_eq!((whole.merged.damage.len(), child.merged.damage.len()), (0, 0));
        assert_eq!((whole.crossing, whole.resizes, whole.threads.len()), (HANDED_OVER, HANDED_OVER, 209));
        assert!(whole.most_threads <= 12, "threads end in the trace: {}", whole.most_threads);
        assert!(whole.allocations >= 2 * HANDED_OVER + 207, "{}", whole.allocations);
        assert!(whole.end_live < 100 << 10, "{}", whole.end_live);
        assert_eq!(whole.header.state, TraceEnd::Exited);
        // The child frees a block that its parent had made.
        assert!(child.allocations >= 1000 && child.merged.strays == 1, "{child:?}");
        assert!(other.header.program.ends_with("true") || other.header.command.contains("true"), "{:?}", other.header);
        let per_event = whole.bytes as f64 / whole.merged.events as f64;
        assert!(per_event < 5.0, "{per_event} bytes an event");
    }
}

#[test]
fn a_killed_program_leaves_its_whole_trace() {
    let folder = tempdir().unwrap();
    let Some(program) = threads_program(folder.path()) else { return };
    let (ran, infos) = record(folder.path(), &[], &[program.to_str().unwrap(), "die"]);
    assert_eq!(ran.code, Some(128 + 9));
    assert_eq!((infos[0].crossing, infos[0].merged.strays, infos[0].merged.damage.len()), (HANDED_OVER, 0, 0));
    assert_eq!(infos[0].header.state, TraceEnd::Recording);
    // The file is cut to its used length.
    assert!(traces(&folder.path().join("traces"))[0].metadata().unwrap().len() < 64 << 20);
}

/// The recorder together with another preload, as in a comparison of candidates.
#[test]
fn the_recorder_stands_in_front_of_another_preload() {
    let folder = tempdir().unwrap();
    let Some(program) = threads_program(folder.path()) else { return };
    for preload in [env!("CARGO_BIN_EXE_preload-jemalloc"), env!("CARGO_BIN_EXE_preload-mimalloc")] {
        let proof = folder.path().join("proof");
        let mut command = command(folder.path());
        command.args(["record", "-o", "traces", "--"]).arg(&program);
        command.env("LD_PRELOAD", preload).env("ALLOCANARY_PROOF", &proof);
        let ran: Ran = command.finish().unwrap().into();
        assert_eq!((ran.code, ran.out.trim()), (Some(0), HANDED_OVER.to_string().as_str()), "{preload}: {}", ran.err);
        let largest = &traces(&folder.path().join("traces"))[0];
        let info = info(&Trace::open(largest).unwrap()).unwrap();
        assert_eq!(info.merged.damage, Vec::<String>::new(), "{preload}");
        assert_eq!((info.crossing, info.resizes), (HANDED_OVER, HANDED_OVER), "{preload}");
        assert!(info.merged.strays + info.merged.lost_frees <= 10, "{preload}: {:?}", info.merged);
        assert!(std::fs::read_to_string(&proof).unwrap().contains("threads"), "{preload} was in effect");
        std::fs::remove_dir_all(folder.path().join("traces")).unwrap();
        std::fs::remove_file(proof).unwrap();
    }
}

/// A repository with some commits; without git, a folder.
fn a_repository(folder: &Path) -> String {
    let repository = folder.join("repository");
    std::fs::create_dir(&repository).unwrap();
    let git = |arguments: &[&str]| {
        let name = ["-c", "user.name=somebody", "-c", "user.email=somebody@localhost"];
        let mut command = Command::new("git");
        command.current_dir(&repository).args(name).args(arguments).stdout(Stdio::null());
        if let Ok(status) = command.status() {
            assert!(status.success(), "git {arguments:?}");
        }
    };
    git(&["init", "--quiet"]);
    for number in 0..20 {
        let lines: Vec<String> = (0..200).map(|line| format!("line {line} of {number}")).collect();
        std::fs::write(repository.join("file"), lines.join("\n")).unwrap();
        git(&["add", "file"]);
        git(&["commit", "--quiet", "-m", "a change"]);
    }
    repository.to_str().unwrap().to_string()
}

#[test]
fn usual_programs_are_recorded() {
    let folder = tempdir().unwrap();
    let repository = a_repository(folder.path());
    let programs: [(&str, &[&str], u64); 3] = [
        ("jq", &["-n", "[range(30000)]|map(tostring)|length"], 60_000),
        ("python3", &["-c", "x = [str(i) * 3 for i in range(30000)]"], 60_000),
        ("git", &["-C", &repository, "log", "--stat", "-p"], 1000),
    ];
    for (program, arguments, least) in programs {
        if !in_path(program) {
            skipped(format!("no {program}"));
            continue;
        }
        let line: Vec<&str> = [program].iter().chain(arguments).copied().collect();
        // Stacks have a length of their own.
        let (ran, infos) = record(folder.path(), &["--stack-sample", "off"], &line);
        assert_eq!(ran.code, Some(0), "{program}: {}", ran.err);
        let largest = &infos[0];
        assert!(largest.allocations > least, "{program}: {}", largest.allocations);
        assert_eq!((largest.merged.strays, largest.merged.damage.len()), (0, 0), "{program}: {:?}", largest.merged);
        let per_event = largest.bytes as f64 / largest.merged.events as f64;
        assert!(per_event < 4.0 || largest.merged.events < 10_000, "{program}: {per_event} bytes an event");
    }
}

#[test]
fn bounds_are_kept_and_said() {
    let folder = tempdir().unwrap();
    let Some(program) = threads_program(folder.path()) else { return };
    let program = program.to_str().unwrap();
    let (ran, infos) = record(folder.path(), &["--max-size", "2MiB"], &[program]);
    assert_eq!(ran.code, Some(0));
    assert_eq!(infos[0].header.state, TraceEnd::Full);
    assert!(ran.err.contains("stopped at the maximum size; the program ran on"), "{}", ran.err);
    assert!(infos[0].bytes <= 2 << 20 && infos[0].merged.events > 100_000, "{}", infos[0].bytes);

    let (ran, infos) = record(folder.path(), &["--sample", "1/16"], &[program]);
    assert_eq!(ran.code, Some(0));
    let share = infos[0].allocations as f64 / (2 * HANDED_OVER) as f64;
    assert!((0.01..0.2).contains(&share), "one address in 16: {share}");
    assert_eq!((infos[0].merged.strays, infos[0].header.rate), (0, 16));

    let (ran, _) = record(folder.path(), &[], &["/no/such/program"]);
    assert!(ran.code == Some(2) && ran.err.contains("/no/such/program: starting it"), "{}", ran.err);
}

/// The last part of a run, in a file that does not grow with the run.
#[test]
fn a_window_keeps_the_end_of_a_long_run() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "long") else { return };
    let program = program.to_str().unwrap();
    let (_, whole) = record(folder.path(), &[], &[program]);
    let (ran, infos) = record(folder.path(), &["--window", "400ms"], &[program]);
    assert_eq!((ran.code, ran.out.trim()), (Some(0), "done"), "{}", ran.err);
    let window = &infos[0];
    assert!(whole[0].merged.nanos > 2_000_000_000, "{}", whole[0].merged.nanos);
    assert!(window.merged.nanos <= 401_000_000 && window.merged.events > 0, "{:?}", window.merged);
    // If threads pass blocks to each other, some frees at the window's begin are taken for those of later blocks.
    assert!(window.merged.strays <= 5, "{:?}", window.merged);
    assert_eq!((window.merged.lost_frees, window.merged.damage.len()), (0, 0));
    // Older blocks that are freed in the window: at most the blocks that were live at its begin.
    assert!((100..=2200).contains(&window.merged.before), "{}", window.merged.before);
    assert!(window.bytes < whole[0].bytes / 3, "{} of {}", window.bytes, whole[0].bytes);
    assert_eq!((window.header.stacks, window.header.state), (0, TraceEnd::Exited));
    let trace = traces(&folder.path().join("traces")).remove(0);
    let page = allocanary(folder.path(), ["report", trace.to_str().unwrap()]);
    assert!(page.out.contains("window      the last 400 ms"), "{}", page.out);
    let answer = answer(&cell("system", &format!("replay:trace={}", trace.display()), 1));
    assert!(answer.operations > window.allocations, "{}", answer.operations);

    // A file that is too small for the window keeps less, and does not stop. Killed threads leave a sound trace.
    let (ran, infos) = record(folder.path(), &["--window", "60s", "--max-size", "512KiB"], &[program]);
    assert_eq!(ran.code, Some(0));
    // Nearly all of the file is of the last seconds: as large a part of the run's events as its bytes are of the whole
    // trace. Times are those of another run, on a machine that may be busy.
    let part = infos[0].merged.events as f64 / whole[0].merged.events as f64;
    let share = infos[0].bytes as f64 / whole[0].bytes as f64;
    assert!(infos[0].bytes <= 512 << 10 && part < 0.5 && part > 0.6 * share, "{part} of {share}");
    assert!(infos[0].merged.strays <= 5, "{:?}", infos[0].merged);
    assert_eq!((infos[0].merged.lost_frees, infos[0].merged.damage.len()), (0, 0));
    // Room for one chunk and two threads: calls are lost, and recording goes on.
    let (ran, infos) = record(folder.path(), &["--window", "60s", "--max-size", "64KiB"], &[program]);
    assert_eq!((ran.code, infos[0].header.state), (Some(0), TraceEnd::Exited));
    assert!(infos[0].header.lost > 1000 && infos[0].merged.damage.is_empty(), "{}", infos[0].header.lost);
    let Some(threads) = threads_program(folder.path()) else { return };
    let (_, infos) = record(folder.path(), &["--window", "100ms"], &[threads.to_str().unwrap(), "die"]);
    // If most blocks are freed by another thread, some frees at the window's begin are taken for those of later blocks.
    assert!(infos[0].merged.strays <= 100 && infos[0].merged.damage.is_empty(), "{:?}", infos[0].merged);
    assert!(infos[0].merged.events > 1000 && infos[0].merged.lost_frees == 0, "{:?}", infos[0].merged);
    let wrong = allocanary(folder.path(), ["record", "--window", "soon", "--", "true"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("--window: wanted a time"), "{}", wrong.err);
}

/// A measured check compares its memory with the program's.
#[test]
fn a_replay_ends_and_has_all_that_lived_at_the_peak() {
    let folder = tempdir().unwrap();
    let Some(program) = threads_program(folder.path()) else { return };
    let (_, infos) = record(folder.path(), &[], &[program.to_str().unwrap()]);
    let trace = traces(&folder.path().join("traces")).remove(0);
    let workload = format!("replay:trace={}", trace.display());
    for allocator in ["system", "jemalloc", "mimalloc"] {
        let answer = answer(&cell(allocator, &workload, 1));
        assert!(answer.operations >= 5 * HANDED_OVER, "{}", answer.operations);
        assert!(answer.verified > HANDED_OVER);
        let (start, peak) = (
            reading(&answer, "anonymous_bytes", Moment::Start),
            reading(&answer, "anonymous_bytes", Moment::Peak).max(reading(&answer, "anonymous_bytes", Moment::Idle)),
        );
        assert!(peak > start + infos[0].peak_live / 2, "{allocator}: {peak}");
    }
}

#[test]
fn the_verbs_work_together() {
    if !in_path("jq") {
        return skipped("no jq");
    }
    let folder: TempDir = tempdir().unwrap();
    record(folder.path(), &[], &["jq", "-n", "[range(3000)]|length"]);
    let trace = traces(&folder.path().join("traces")).remove(0);
    let run = |line: &[&str]| {
        let line = line.iter().map(|word| word.replace("TRACE", trace.to_str().unwrap()));
        allocanary(folder.path(), line)
    };
    let page = run(&["report", "TRACE"]);
    assert!(page.code == Some(0) && page.out.contains("allocations"), "{page:?}");
    assert_eq!(run(&["trace", "check", "TRACE"]).out, "the trace is sound\n");
    assert!(run(&["trace", "export", "TRACE"]).out.starts_with("seconds,requested_bytes,"));
    let json = run(&["trace", "export", "TRACE", "--format", "json"]).out;
    assert!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["allocations"].as_u64() > Some(1000));
    let ran = run(&["report", "TRACE", "--output", "page.html"]);
    assert!(ran.code == Some(0) && ran.err.contains("page.html"), "{ran:?}");
    let html = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(html.contains("What jq allocates") && html.ends_with("</html>\n"), "{html}");
    let has_stacks = cfg!(all(target_arch = "x86_64", target_env = "gnu"));
    assert_eq!(html.contains("Whose blocks pin the pages"), has_stacks, "{html}");
    let ran = run(&["replay", "TRACE", "--repeats", "2", "--candidates", "system", "jemalloc", "--out-dir", "out"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("peak") && !ran.out.contains("1 thread"), "{}", ran.out);
    assert_eq!(samples(&folder.path().join("out")).len(), 4);
    for (line, said) in [
        (["trace", "check", "TRACE", "--format", "json"], "--format: is for `trace export`"),
        (
            ["report", "TRACE", "--format", "markdown", "--output=x"],
            "--format: of a trace wanted table, html, csv or json",
        ),
    ] {
        let wrong = run(&line);
        assert!(wrong.code == Some(2) && wrong.err.contains(said), "{line:?}: {wrong:?}");
    }
    let none = run(&["replay", "/no/such/trace"]);
    assert!(none.code == Some(2) && none.err.contains("/no/such/trace"), "{none:?}");
    let wrong = allocanary(folder.path(), ["trace", "check", "/bin/sh"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("wanted a trace"), "{wrong:?}");
}
