//! Where the memory is: the parts of every candidate of the default study add up to its resident memory.

use allocanary_cell::spec::Spec;
use allocanary_cell::workload::Phase;
use allocanary_study::find_shipped;
use allocanary_study::summary::Anatomy;
use allocanary_study::summary::anatomy::Part;

use super::support::{answer, cell_with};

fn anatomy(candidate: &str, threads: u32) -> Anatomy {
    let spec = Spec::parse(candidate).unwrap();
    let cell = cell_with(&spec.name, "server:idle=1", &spec.settings);
    let answer = answer(&allocanary_cell::Cell { threads, ..cell });
    assert_eq!(answer.reading("program_bytes", Phase::Start), None, "it is read only when idle");
    let found = Anatomy::of(&answer, threads).expect("a cell of this build has the readings");
    let exact = answer.reading("smaps_rss_bytes", Phase::Idle).unwrap() as f64;
    // The two walks of the kernel are a moment apart.
    assert!((found.rss / exact - 1.0).abs() < 0.01, "{candidate}: {} and {exact}", found.rss);
    found
}

#[test]
fn every_candidate_of_the_default_study_adds_up_within_two_percent() {
    let study = find_shipped("default").unwrap().unwrap();
    for candidate in study.0[0].candidates.iter().flatten() {
        for threads in [1, 16] {
            let found = anatomy(candidate, threads);
            assert!(found.adds_up(), "{candidate}, {threads} threads: {found:?}");
            assert!((found.sum() - found.rss).abs() < 1.0, "{candidate}: {found:?}");
            assert!(found.get(Part::Live) > 4.0e6, "{candidate}: {found:?}");
            assert!(found.get(Part::Program) > 1.0e6 && found.get(Part::Stacks) > 0.0, "{candidate}: {found:?}");
            if candidate.starts_with("system") {
                // glibc's count and the kernel's are made independently.
                assert!(found.never_touched < 0.02 * found.rss, "{candidate}: {found:?}");
            }
        }
    }
}

#[test]
fn jemallocs_thread_caches_are_told_apart_and_gone_when_turned_off() {
    let (with, without) = (anatomy("jemalloc", 16), anatomy("jemalloc:tcache=false", 16));
    assert!(with.caches_are_known && with.get(Part::Caches) > 2.0e6, "{with:?}");
    assert_eq!(without.get(Part::Caches), 0.0, "{without:?}");
    assert!(without.rss < with.rss);
}
