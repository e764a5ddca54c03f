//! `compare`: its exit codes and texts about gates; the rules of gates are tested with the judgement. And properties that
//! flags and surroundings of a study must not change.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use allocanary_rows::sample::Sample;
use tempfile::tempdir;

use super::bounded::{Bounded, end_of};
use super::support::{Ran, TINY, allocanary, command, golden_path, samples, words};

/// Two files of rows: eight repeats of two candidates, and the same after `change`.
fn pair(folder: &Path, change: impl Fn(&mut Sample) -> bool) {
    let template = samples(&golden_path("sample.jsonl")).into_iter().find(|sample| sample.error.is_none()).unwrap();
    let (mut old, mut new) = (String::new(), String::new());
    for (place, candidate) in ["one", "two"].into_iter().enumerate() {
        for repeat in 0..8 {
            let mut sample = template.clone();
            sample.cell.candidate = candidate.into();
            (sample.cell.place, sample.cell.repeat) = (place as u32, repeat);
            let readings = &mut sample.measured.as_mut().unwrap().readings;
            for reading in readings.values_mut().flatten().flatten() {
                *reading += u64::from(repeat) * 4096;
            }
            old.push_str(&format!("{}\n", serde_json::to_string(&sample).unwrap()));
            if change(&mut sample) {
                new.push_str(&format!("{}\n", serde_json::to_string(&sample).unwrap()));
            }
        }
    }
    fs::write(folder.join("old.jsonl"), old).unwrap();
    fs::write(folder.join("new.jsonl"), new).unwrap();
}

fn gate(change: impl Fn(&mut Sample) -> bool) -> Ran {
    gate_with("--gate resident=5%", change)
}

fn gate_with(flags: &str, change: impl Fn(&mut Sample) -> bool) -> Ran {
    let folder = tempdir().unwrap();
    pair(folder.path(), change);
    allocanary(folder.path(), words("compare old.jsonl new.jsonl").into_iter().chain(words(flags)))
}

/// Multiplies the resident memory of a row.
fn grow(sample: &mut Sample, times: f64) {
    let readings = &mut sample.measured.as_mut().unwrap().readings;
    let grown = readings.get_mut("resident_bytes").unwrap().iter_mut().flatten();
    grown.for_each(|rss| *rss = (*rss as f64 * times) as u64);
}

fn is_two(sample: &Sample) -> bool {
    sample.cell.candidate == "two".into()
}

#[test]
fn a_gate_is_open_for_what_stayed_and_closed_for_what_grew() {
    let same = gate(|_| true);
    assert_eq!(same.code, Some(0));
    let passed = same.out.split("Answer\n").nth(1).unwrap_or_default();
    assert!(passed.starts_with("gate passed: resident +0.0 % [") && passed.contains("], limit +5 %"), "{}", same.out);
    let grown = gate(|sample| {
        let readings = &mut sample.measured.as_mut().unwrap().readings;
        readings.get_mut("resident_bytes").unwrap().iter_mut().flatten().for_each(|rss| *rss *= 2);
        sample.provenance.host.name = "other".into();
        true
    });
    assert_eq!(grown.code, Some(1));
    let named =
        grown.out.lines().any(|line| line.starts_with("differs: host: ") && line.ends_with(", other in the new"));
    assert!(named, "{}", grown.out);
    assert!(grown.err.contains("gate broken: resident of one, "), "{}", grown.err);
    assert!(grown.out.contains("Answer\ngate failed: resident 2.0x "), "the answer is last: {}", grown.out);
    let gone = gate(|sample| !is_two(sample));
    assert_eq!(gone.code, Some(1));
    assert!(gone.err.contains("lost: two, ") && gone.err.contains("not in the new rows"), "{}", gone.err);
    let ungated = gate_with("", |sample| {
        sample.planned = Some(20);
        !is_two(sample)
    });
    assert_eq!(ungated.code, Some(0), "without a gate it only compares: {ungated:?}");
    assert!(ungated.out.contains("\nnew: not finished: 8 of 20 planned processes have rows\n"), "{ungated:?}");
}

/// A job's annotations are on standard output, and its summary in the file that GitHub names.
#[test]
fn a_job_gets_annotations_and_a_summary() {
    let folder = tempdir().unwrap();
    pair(folder.path(), |sample| {
        if is_two(sample) {
            grow(sample, 2.0);
        }
        true
    });
    let line = || words("compare old.jsonl new.jsonl --gate resident=5% --format github");
    let plain = allocanary(folder.path(), line());
    assert_eq!(plain.code, Some(1), "{plain:?}");
    assert!(plain.out.starts_with("## Memory: gates failed\n"), "{}", plain.out);
    let mut job = command(folder.path());
    fs::write(folder.path().join("summary.md"), "before\n").unwrap();
    let job: Ran = job.env("GITHUB_STEP_SUMMARY", "summary.md").args(line()).finish().unwrap().into();
    assert_eq!(job.code, Some(1), "{job:?}");
    let annotations: Vec<&str> = job.out.lines().collect();
    assert!(annotations.iter().all(|line| line.starts_with("::")), "{}", job.out);
    assert!(annotations[0].starts_with("::error title=allocanary::gate failed: resident 2.0x "), "{}", job.out);
    let summary = fs::read_to_string(folder.path().join("summary.md")).unwrap();
    assert!(summary.starts_with("before\n## Memory: gates failed\n\n- gate failed: resident 2.0x "), "{summary}");
    assert!(plain.out.ends_with(&job.out), "{}", plain.out);
}

/// Two results without a common candidate: the candidates of each are listed.
#[test]
fn sides_without_anything_in_common_are_both_listed() {
    let ran = gate_with("", |sample| {
        sample.cell.candidate = if is_two(sample) { "four".into() } else { "three".into() };
        true
    });
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let (old, new) = ran.err.split_once("the new rows are of three, ").expect(&ran.err);
    assert!(old.contains("have no candidate, workload and column in common: the old rows are of one, "), "{}", ran.err);
    assert!(old.contains("two, ") && new.contains("four, "), "{}", ran.err);
}

/// Medians 13 % apart, and samples that spread further than that.
#[test]
fn an_undecided_gate_fails_and_says_how_many_repeats_would_decide() {
    let spread = |sample: &mut Sample| {
        let factors = [0.85, 0.9, 0.98, 1.1, 1.16, 1.3, 1.4, 1.5];
        grow(sample, factors[sample.cell.repeat as usize]);
        true
    };
    let ran = gate(spread);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.err.contains("gate undecided: resident of one, ") && ran.err.contains("and the gate is 5 %"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains(" repeats would decide") && ran.err.contains("--undecided pass"), "{}", ran.err);
    assert!(ran.out.contains("undecided") && !ran.out.contains("no difference"), "{}", ran.out);
    assert_eq!(gate_with("--gate resident=5% --undecided pass", spread).code, Some(0));
    let worse = |sample: &mut Sample| {
        grow(sample, 2.0);
        true
    };
    assert_eq!(gate_with("--gate resident=5% --undecided pass", worse).code, Some(1), "it lets nothing else through");
    assert_eq!(gate_with("--undecided perhaps", spread).code, Some(2));
}

#[test]
fn rows_go_to_a_socket_as_well() {
    let folder = tempdir().unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut study = command(folder.path());
    study.args(words(&format!("study --candidates system --threads 1 --repeats 1 --output - --workloads {TINY}")));
    let status = end_of(&mut study.stdout(OwnedFd::from(theirs)).spawn().unwrap());
    drop(study); // holds the other end of the socket
    assert!(status.success());
    let text = std::io::read_to_string(ours).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("{\"schema\":1")).count(), 1, "{text}");
}

#[test]
fn an_environment_that_is_no_text_does_no_harm_and_old_variables_count() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempdir().unwrap();
    let text = std::ffi::OsStr::from_bytes(b"\xff");
    let mut here = command(folder.path());
    here.env("X", text).args(words(&format!("--threads 1 --repeats 1 --workloads {TINY} --out-dir out")));
    let ran: Ran = here.finish().unwrap().into();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let environment = super::support::described("system").environment;
    assert!(environment.owns("MALLOC_ARENA_MAX") && !environment.owns("MALLOC_CONF"));
}
