//! The parts of resident memory: every candidate of the default study has them, a replay too, and a program, whose heap is
//! divided from outside. Whether they add up to the kernel's count is a measured check.

use std::process::Command;

use allocanary_measure::summary::Anatomy;
use allocanary_measure::summary::anatomy::Part;
use allocanary_rows::Moment;
use allocanary_rows::Spec;
use allocanary_rows::job::Job;
use allocanary_study::session::find_shipped;

use allocanary_testing::skipped::skipped;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::record::{compiled, traces};
use super::run::run;
use super::support::{allocanary, answer, cell_with, samples, words};

fn anatomy(candidate: &str, threads: u32) -> Anatomy {
    let spec = Spec::parse(candidate).unwrap();
    let cell = cell_with(&spec.name, "server:settle=1ms", &spec.settings);
    let answer = answer(&allocanary_rows::Cell { job: Job::workload("server:settle=1ms", threads), ..cell });
    assert_eq!(answer.reading("part_files_bytes", Moment::Start), None, "it is read only when idle");
    let found = Anatomy::of(&answer, Some(threads)).expect("a cell of this build has the readings");
    assert!(answer.reading("smaps_resident_bytes", Moment::Idle).is_some(), "the kernel's own sum");
    found
}

#[test]
fn every_candidate_of_the_default_study_has_the_parts() {
    let study = find_shipped("default").unwrap().unwrap();
    for candidate in study.0[0].candidates.iter().flatten() {
        for threads in [1, 16] {
            let found = anatomy(candidate, threads);
            assert!(found.is_divided && (found.sum() - found.rss).abs() < 1.0, "{candidate}: {found:?}");
            let has = |part| found.get(part) > 0.0;
            assert!([Part::Live, Part::Files, Part::Stacks].into_iter().all(has), "{candidate}: {found:?}");
        }
    }
}

#[test]
fn jemallocs_thread_caches_are_told_apart_and_gone_when_turned_off() {
    let (with, without) = (anatomy("jemalloc", 16), anatomy("jemalloc:tcache=false", 16));
    assert!(with.caches_are_known && with.get(Part::Cached) > 0.0, "{with:?}");
    assert_eq!(without.get(Part::Cached), 0.0, "{without:?}");
}

#[test]
fn a_replay_has_the_parts_and_its_reports_show_them() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "threads") else { return };
    let recorded = allocanary(folder.path(), ["record", "-o", "traces", "--", program.to_str().unwrap()]);
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    let trace = traces(&folder.path().join("traces")).remove(0);
    let flags =
        "--repeats 1 --out-dir out --candidates system system:arena_max=1 jemalloc mimalloc mimalloc:allow_thp=0";
    let ran = allocanary(folder.path(), ["replay", trace.to_str().unwrap()].into_iter().chain(words(flags)));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows = samples(&folder.path().join("out"));
    assert_eq!(rows.len(), 5);
    for row in &rows {
        let found = Anatomy::of(row.measured.as_ref().unwrap(), row.cell.job.threads())
            .expect("the cells of a replay are ours");
        assert!(found.is_divided && found.moment == Moment::Idle, "{}: {found:?}", row.cell.candidate);
        assert!((found.sum() - found.rss).abs() < 1.0, "{}: {found:?}", row.cell.candidate);
    }
    let table = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(table.contains("where the memory is when idle (MiB)"), "{}", ran.out);
    for (format, said) in
        [("markdown", "in MiB, of the process with the median"), ("csv", ",parts_resident_bytes,bytes,1,")]
    {
        let report = allocanary(folder.path(), ["report", "out", "--format", format]);
        assert!(report.out.contains(said), "{said}\n{}", report.out);
    }
}

#[test]
fn a_program_has_its_parts_and_a_service_a_divided_heap() {
    let of = |flags: &str, program: &[&str], moment: Moment| {
        let folder = tempdir().unwrap();
        let ran = run(folder.path(), &format!("--repeats 1 --candidates own jemalloc {flags}"), program);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        for row in samples(&folder.path().join("out")) {
            let answer = row.measured.as_ref().unwrap();
            let found = Anatomy::of(answer, row.cell.job.threads()).expect("it was looked at");
            assert!(found.moment == moment && (found.sum() - found.rss).abs() < 1.0, "{found:?}");
            assert!(found.get(Part::Files) > 0.0, "{found:?}");
            // How often a program that ends is read depends on how busy the machine is. A service is read when it is idle.
            let has = |part| found.get(part) > 0.0;
            assert!(found.is_divided && has(Part::Live) || !found.is_divided && has(Part::Unknown), "{found:?}");
            assert!(found.is_divided || moment != Moment::Idle, "{found:?}");
            assert!(answer.reading("peak_resident_bytes", moment).is_some());
        }
        // Sentences of a table are broken at the width of a terminal.
        let table = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        (table, allocanary(folder.path(), words("report out --format markdown")).out)
    };
    // The same two processes the whole time. The second one already sleeps when the line is written, because on a busy
    // machine it is small for a long time.
    let service = "trap 'kill $!; exit 0' TERM; sleep 600 & \
        until read -r pid name state rest < /proc/$!/stat && [ \"$name$state\" = '(sleep)S' ]; do :; done; echo up; wait";
    let (table, _) = of("--ready line:up --settle 200ms", &["sh", "-c", service], Moment::Idle);
    assert!(table.contains("where the memory is when idle (MiB)") && !table.contains("heap, not analysed"), "{table}");
    if Command::new("python3").arg("--version").finish().is_err() {
        return skipped("no python3");
    }
    let held = "import time; held = bytearray(8 << 20); time.sleep(1.5)";
    let (table, markdown) = of("", &["python3", "-c", held], Moment::Peak);
    let when = ["where the memory is near the peak (MiB)", "where the memory is in the largest reading (MiB)"];
    assert!(when.iter().any(|when| table.contains(when)), "{table}");
    assert!(markdown.contains("| files |"), "{markdown}");
}
