//! Services that are recorded: the marks of the run are those of the replay.

use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use allocanary_rows::Moment;
use allocanary_rows::sample::MOST_ANON;
use allocanary_testing::programs::compiled_to;
use allocanary_testing::skipped::skipped;
use allocanary_trace::info::info;
use allocanary_trace::reader::Trace;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::record::{compiled, traces};
use super::support::{Ran, allocanary, answer, cell, samples};

const LOAD: &str = "touch {dir}/go; while [ ! -e {dir}/done ]; do sleep 0.01; done; echo loaded";

fn record(folder: &Path, flags: &[&str], program: &Path) -> Ran {
    let line = ["record", "-o", "traces", "--load", LOAD, "--settle", "2s"];
    let program = ["--", program.to_str().unwrap(), "{dir}"];
    allocanary(folder, line.iter().chain(flags).chain(&program))
}

/// Live bytes of a replay at its peak and when idle, in MiB.
fn live(trace: &Path, more: &str) -> (f64, f64) {
    let answer = answer(&cell("system", &format!("replay:trace={}{more}", trace.display()), 1));
    let mib = |moment| answer.requested(moment).unwrap() as f64 / f64::from(1 << 20);
    (mib(Moment::Peak), mib(Moment::Idle))
}

#[test]
fn the_marks_of_a_service_are_those_of_its_replay() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "service") else { return };
    let before = "echo begun > {dir}/begun";
    let flags = ["--ready", "line:ready", "--before", before, "--after", "echo {port} > after"];
    let ran = record(folder.path(), &flags, &program);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let trace = traces(&folder.path().join("traces")).remove(0);
    let marks = Trace::open(&trace).unwrap().header.marks;
    let (ready, peak, idle) = (marks.ready.unwrap(), marks.peak.unwrap(), marks.idle.unwrap());
    assert!(ready < peak && peak + 2_000_000_000 <= idle, "{marks:?}");
    // The most of the whole program is 30 MiB, after its signal.
    let near = |(peak, idle): (f64, f64), wanted: (f64, f64)| {
        assert!((peak - wanted.0).abs() < 0.3 && (idle - wanted.1).abs() < 0.3, "{peak}, {idle}: wanted {wanted:?}");
    };
    near(live(&trace, ""), (9.0, 6.0));
    near(
        live(&trace, &format!(",peak_at={}ms,idle_at={}ms", ready / 1_000_000 + 1, ready / 1_000_000 + 2)),
        (1.0, 1.0),
    );
    let page = allocanary(folder.path(), ["report", trace.to_str().unwrap()]);
    assert!(page.out.contains("marks       ready ") && page.out.contains("end of the load "), "{}", page.out);
    // The outputs of the run are kept, and the command after it has run.
    let files = std::fs::read_dir(folder.path().join("traces/program")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(std::fs::read_to_string(files.join("stdout")).unwrap(), "ready\n");
    assert_eq!(std::fs::read_to_string(files.join("load")).unwrap(), "loaded\n");
    assert!(std::fs::read_to_string(folder.path().join("after")).unwrap().trim().parse::<u16>().is_ok());
    let line = ["replay", trace.to_str().unwrap(), "--candidates", "system", "--repeats", "1", "--out-dir", "out"];
    let ran = allocanary(folder.path(), line.iter().chain(&["--mark-at", "1ms,30s"]));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let row = samples(&folder.path().join("out")).remove(0);
    let workload = row.cell.job.name();
    assert!(workload.contains("peak_at=1ms,") && workload.contains("idle_at=30000ms"), "{workload}");
    // The end of the search lies before the service was ready: the whole time until then counts.
    let most = row.measured.unwrap().notes[MOST_ANON];
    assert!(most > 50 << 10, "{most}");
}

#[test]
fn a_program_that_the_command_before_it_makes_is_recorded() {
    let folder = tempdir().unwrap();
    let flags = ["record", "-o", "traces", "--before", "cp /bin/sleep made", "--", "./made", "0.1"];
    let ran = allocanary(folder.path(), flags);
    assert!(ran.code == Some(0) && traces(&folder.path().join("traces")).len() == 1, "{ran:?}");
}

#[test]
fn a_service_that_fails_says_so() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "service") else { return };
    let ran = record(folder.path(), &["--ready", "line:never", "--run-timeout", "1s"], &program);
    assert!(ran.code == Some(2) && ran.err.contains("was not ready"), "{}", ran.err);
    let ran = record(folder.path(), &["--ready", "tcp:x"], &program);
    assert!(ran.code == Some(2) && ran.err.contains("--ready: wanted tcp:PORT"), "{}", ran.err);
    let wrong = allocanary(folder.path(), ["replay", "/dev/null", "--mark-at", "5s,1s"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("--mark-at: wanted one time"), "{}", wrong.err);
    let none = allocanary(folder.path(), ["record", "--program", "none.toml"]);
    assert!(none.code == Some(2) && none.err.contains("none.toml"), "{}", none.err);
}

/// The program and its replay under the same candidates, at the same marks.
#[test]
fn verify_compares_the_program_with_its_replay() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "service") else { return };
    let flags = ["--ready", "line:ready", "--verify", "--repeats", "2", "--candidates", "system", "mimalloc"];
    let ran = record(folder.path(), &flags, &program);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let lines: Vec<Vec<&str>> = ran.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((lines[1][0], lines[2][0], lines[1].len()), ("system", "mimalloc", 11), "{}", ran.out);
    // 9 MiB live at the peak, 6 when idle, of which 3 were freed from the top of the heap.
    let csv = std::fs::read_to_string(folder.path().join("traces/verify.csv")).unwrap();
    for (line, live) in [("peak,system,", 9.0), ("idle,mimalloc,", 6.0)] {
        let figures = csv.lines().find_map(|found| found.strip_prefix(line)).unwrap();
        let figures: Vec<f64> = figures.split(',').map(|figure| figure.parse().unwrap()).collect();
        let [real, _, _, real_runs, replay, _, _, replay_runs, difference] = figures[..] else { panic!("{csv}") };
        let live = live * f64::from(1 << 20);
        assert!(real > live && replay > live && replay < live * 4.0, "{csv}");
        assert_eq!((real_runs, replay_runs), (2.0, 2.0));
        assert!((difference - 100.0 * (replay / real - 1.0)).abs() < 0.01, "{csv}");
    }
    for part in ["real", "replay"] {
        let rows = samples(&folder.path().join("traces").join(part));
        assert!(rows.len() == 4 && rows.iter().all(|row| row.cell.study.as_deref() == Some(part)));
    }
    assert_eq!(ran.out.lines().filter(|line| line.starts_with("ranking by")).count(), 2, "{}", ran.out);

    // A program that ends has no idle mark.
    let line = ["record", "-o", "ends", "--verify", "--repeats", "1", "--candidates", "system", "--", "sleep", "1"];
    let ran = allocanary(folder.path(), line);
    assert!(ran.code == Some(0) && ran.out.contains("real peak") && !ran.out.contains("idle"), "{ran:?}");
    let alone = allocanary(folder.path(), ["record", "--candidates", "system", "--", "true"]);
    assert!(alone.code == Some(2) && alone.err.contains("--verify"), "{}", alone.err);
    let part = allocanary(folder.path(), ["record", "--verify", "--window", "1s", "--", "true"]);
    assert!(part.code == Some(2) && part.err.contains("cannot be used with"), "{}", part.err);
}

/// Threads whose every free has a stamp of its own, in a program that is killed: its memory was read all the same.
#[test]
fn memory_is_read_while_blocks_are_handed_over() {
    let folder = tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/programs/handover.rs");
    let Some(program) = compiled_to(&folder.path().join("handover"), &[&source], &["-O"]) else { return };
    let ran = record(folder.path(), &["--ready", "line:ready", "--stop", "SIGKILL"], &program);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let info = info(&Trace::open(&traces(&folder.path().join("traces"))[0]).unwrap()).unwrap();
    // An address that several threads used in turn may lose a few frees: see crates/trace/FORMAT.md.
    assert!(info.merged.strays < 5 && info.merged.damage.is_empty(), "{:?}", info.merged);
    assert!(
        info.crossing > 1000 && info.most_resident > info.peak_live / 2,
        "{} {}",
        info.crossing,
        info.most_resident
    );
}

/// Its child and the program that the child executes may not make files in the folder of its own trace.
#[test]
fn a_service_that_changes_its_user_is_recorded_in_each_of_its_processes() {
    if allocanary_sys::private::user() != 0 {
        return skipped("only root can change its user");
    }
    let preload = Path::new(env!("CARGO_BIN_EXE_preload-record"));
    let is_open = |path: &Path| path.metadata().is_ok_and(|meta| meta.permissions().mode() & 1 != 0);
    if !preload.ancestors().all(is_open) {
        return skipped(format_args!("other users cannot read {}", preload.display()));
    }
    // Lets other users pass through, because only its user can enter the folder of a test.
    let folder = tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    let Some(program) = compiled(folder.path(), "changes_user") else { return };
    let ran = allocanary(folder.path(), ["record", "-o", "traces", "--", program.to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "first 0\nchild 64321\nagain 64321\n"), "{}", ran.err);
    let out = folder.path().join("traces");
    let found = traces(&out);
    assert_eq!(found.len(), 3, "{}", ran.err);
    for path in &found {
        let info = info(&Trace::open(path).unwrap()).unwrap();
        assert!(info.merged.events >= 2000, "{}: {:?}", path.display(), info.merged);
    }
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 3, "nothing else is left");
    assert_eq!(std::fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o711);
}

/// Parts that are not written have no pages in memory. With the disk's read-ahead each process would have megabytes of
/// zeros.
#[test]
fn the_begin_of_a_trace_brings_in_no_more_of_its_file_than_is_written() {
    let folder = tempdir().unwrap();
    let mut command = Command::new("/bin/true");
    command.env_clear().env("LD_PRELOAD", env!("CARGO_BIN_EXE_preload-record"));
    command.env("ALLOCANARY_RECORD", folder.path());
    assert!(command.finish().unwrap().status.success());
    let [path] = &traces(folder.path())[..] else { return skipped("/bin/true allocates nothing here") };
    let file = std::fs::File::open(path).unwrap();
    const PAGES: usize = 4096;
    let mut resident = vec![0_u8; PAGES];
    // SAFETY: a mapping of our own, and a byte for each of its pages.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), PAGES * 4096, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(at, libc::MAP_FAILED);
        assert_eq!(libc::mincore(at, PAGES * 4096, resident.as_mut_ptr()), 0);
        libc::munmap(at, PAGES * 4096);
    }
    let resident = resident.iter().filter(|page| **page & 1 != 0).count();
    assert!((1..=16).contains(&resident), "{resident} pages");
}
