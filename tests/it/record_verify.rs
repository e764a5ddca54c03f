//! `record --verify`: the comparison, the refusals before anything is recorded, and the texts around the table.

use std::fs;
use std::path::Path;

use tempfile::tempdir;

use super::record::traces;
use super::support::{Ran, allocanary, samples, words};

fn verify(folder: &Path, flags: &str, program: &[&str]) -> Ran {
    let flags = words("record -o traces --verify").into_iter().chain(words(flags));
    allocanary(folder, flags.chain(["--"]).chain(program.iter().copied()))
}

/// A candidate may be spelled in any order, and a program may print something else each time. A process that becomes
/// another program is one process.
#[test]
fn rows_are_found_by_their_own_spelling_and_outputs_are_not_compared() {
    let folder = tempdir().unwrap();
    let flags = "--repeats 2 --candidates jemalloc:tcache=false,narenas=1 system";
    let ran = verify(folder.path(), flags, &["sh", "-c", "echo $$; exec sleep 0.3"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let csv = fs::read_to_string(folder.path().join("traces/verify.csv")).unwrap();
    for line in ["peak,\"jemalloc:narenas=1,tcache=false\",", "peak,system,"] {
        let figures = csv.lines().find_map(|found| found.strip_prefix(line)).unwrap_or_else(|| panic!("{csv}"));
        assert!(figures.split(',').all(|figure| figure.parse::<f64>().is_ok()), "{line}: {figures}");
    }
    assert!(!ran.out.contains("processes"), "one process after the other: {}", ran.out);
    assert!(samples(&folder.path().join("traces/real")).iter().all(|row| row.error.is_none() && row.command.is_some()));
}

#[test]
fn processes_beside_the_one_that_is_replayed_are_told() {
    let folder = tempdir().unwrap();
    let ran = verify(
        folder.path(),
        "--repeats 1 --candidates system",
        &["sh", "-c", "sleep 2 & ls -R /usr/include >/dev/null; wait"],
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("processes lived at one time"), "{}", ran.out);
    let left_out: Vec<&str> = ran.out.lines().filter(|line| line.starts_with("left out: ")).collect();
    let of =
        |start: &str, end: &str| left_out.iter().filter(|line| line.contains(start) && line.ends_with(end)).count();
    // The shell, and the process that it forked, which became another program.
    assert_eq!((left_out.len(), of("sh-", "; wait"), of("sleep-", ": sleep 2")), (2, 1, 1), "{}", ran.out);
    assert!(!ran.err.contains("about 0 ns"), "{}", ran.err);
}

#[test]
fn what_a_replay_cannot_have_is_refused_before_anything_runs() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("two.toml"), "emulate_cpus = [4, 8]\n[program]\ncommand = ['true']\n").unwrap();
    for (flags, said) in [
        ("--candidates own", "candidate `own`: a replay "),
        ("--candidates system preload=/lib/x.so", "preload=/lib/x.so"),
        ("--candidates jemalloc:thread_idle=100ms", "jemalloc has no setting `thread_idle`"),
        ("--candidates jemaloc", "no candidate `jemaloc`"),
        ("--program two.toml", "emulate_cpus: wanted one number with --verify, found 2"),
    ] {
        let ran = verify(folder.path(), flags, &["touch", "ran"]);
        assert!(ran.code == Some(2) && ran.err.contains(said), "{flags}: {ran:?}");
        assert!(!folder.path().join("ran").exists() && !folder.path().join("traces").exists(), "{flags}");
    }
}

/// Candidates, repeats and cores of a study file count; flags replace them.
#[test]
fn a_file_says_what_is_compared() {
    let folder = tempdir().unwrap();
    let text = "emulate_cpus = [3]\ncandidates = ['system']\nrepeats = 2\n[program]\ncommand = ['sleep', '0.1']\n";
    fs::write(folder.path().join("file.toml"), text).unwrap();
    let ran = allocanary(folder.path(), words("record -o traces --verify --program file.toml"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for part in ["real", "replay"] {
        let rows = samples(&folder.path().join("traces").join(part));
        let found: Vec<_> = rows.iter().map(|row| (row.cell.candidate.spec.name.as_str(), row.cell.cores)).collect();
        assert_eq!(found, [("system", Some(3)), ("system", Some(3))], "{part}");
    }
    assert_eq!(traces(&folder.path().join("traces")).len(), 1);
}

/// Each recording is replayed, with the repeats divided among them.
#[test]
fn several_recordings_are_replayed_alike() {
    let folder = tempdir().unwrap();
    let ran = verify(folder.path(), "--recordings 3 --repeats 5 --candidates system", &["sleep", "0.1"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let place = folder.path().join("traces");
    let made = traces(&place);
    assert_eq!(made.len(), 3);
    let rows = samples(&place.join("replay"));
    for trace in &made {
        let trace = trace.file_name().unwrap().to_string_lossy();
        assert_eq!(rows.iter().filter(|row| format!("{:?}", row.cell.job).contains(&*trace)).count(), 2, "{trace}");
    }
    assert!(ran.out.contains("replay: of 3 recordings, which have "), "{}", ran.out);
    let csv = fs::read_to_string(place.join("verify.csv")).unwrap();
    assert_eq!(csv.lines().nth(1).unwrap().split(',').nth(9), Some("6"), "runs of the replay: {csv}");
}
