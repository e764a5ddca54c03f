//! The workloads of memory that comes and goes: a mark after every cycle, refusals before the machine swaps, memory kept
//! through a burst, addresses without memory.

use std::collections::BTreeMap;

use allocanary_rows::Moment::{Filled, Idle, Purged, Start};
use allocanary_rows::sample::FailureKind;

use super::support::{answer, cell, cell_with, reading, run_cell};

const CHURN: &str = "churn:high=8MiB,low=1MiB,chunk=64KiB,cycles=5,settle=1ms";
const STORM: &str = "storm:live=1MiB,load=2,in_flight=60,steady=20,requests=150,bursts=4,settle=1ms";

/// Why a cell was refused.
fn refusal(allocator: &str, workload: &str) -> String {
    let failure = run_cell(&cell(allocator, workload, 1)).unwrap().error.unwrap();
    assert_eq!(failure.kind, FailureKind::Refused, "{workload}: {}", failure.text);
    failure.text
}

#[test]
fn every_cycle_of_a_churn_is_a_mark() {
    for (allocator, threads) in [("system", 1), ("jemalloc", 2), ("mimalloc", 3)] {
        let answer = answer(&cell(allocator, CHURN, threads));
        let rests = answer.each("resident_bytes", Idle);
        assert_eq!((rests.len(), answer.moments.len()), (5, 10));
        for (rss, live) in rests {
            assert!(live <= 1 << 20 && live > 1 << 19, "{allocator}: {live} live after a cycle down to 1 MiB");
            assert!(rss >= live, "{allocator}: {rss} resident, {live} live");
        }
        assert!(answer.requested(Filled).unwrap() >= 1 << 20 && answer.requested(Purged) == Some(0));
        assert!(answer.operations > 500 && answer.verified > answer.operations, "{}", answer.verified);
    }
}

#[test]
fn marks_that_cannot_be_are_refused() {
    let upside_down = refusal("system", "churn:high=1MiB,low=2MiB");
    assert_eq!(upside_down, "parameter `low`: wanted less than `high`, 1048576, found 2097152: it would not shrink");
    let flat = refusal("system", "churn:high=1MiB,low=1MiB");
    assert_eq!(flat, "parameter `low`: wanted less than `high`, 1048576, found 1048576: it would not shrink");
    let most = refusal("jemalloc", "churn:high=16TiB");
    assert!(most.contains("parameter `high`") && most.contains("available under"), "{most}");
    let load = refusal("system", "storm:load=9,in_flight=8");
    assert_eq!(load, "parameter `load`: wanted at most `in_flight`, 8, found 9");
    let ballast = refusal("system", "storm:ballast=2GiB");
    assert!(ballast.starts_with("parameter `ballast`: system: "), "{ballast}");
    for allocator in ["system", "jemalloc", "mimalloc"] {
        let size = refusal(allocator, "reserve:size=4096TiB");
        assert!(size.starts_with("parameter `size`: wanted 4096 TiB in one block: "), "{size}");
    }
}

#[test]
fn a_ballast_spares_a_storm_its_faults_and_costs_memory() {
    let faults = |allocator: &str, settings: &[(&str, &str)], ballast: &str| {
        let settings: BTreeMap<String, String> =
            settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let answer = answer(&cell_with(allocator, &format!("{STORM}{ballast}"), &settings));
        assert_eq!((answer.operations, answer.each("resident_bytes", Idle).len()), (600, 4));
        let faults = reading(&answer, "minor_faults", Idle) - reading(&answer, "minor_faults", Filled);
        (faults, reading(&answer, "resident_bytes", Idle))
    };
    let decays = [("dirty_decay_ms", "0")];
    let (without, given_back) = faults("jemalloc", &decays, "");
    let (with, kept) = faults("jemalloc", &decays, ",ballast=64MiB");
    assert!(with * 2 < without, "{with} faults with a ballast, {without} without");
    assert!(kept > given_back, "{kept} resident at rest with a ballast, {given_back} without");
}

#[test]
fn addresses_cost_nothing_until_they_are_touched() {
    const SIZE: u64 = 64 << 20;
    for allocator in ["system", "jemalloc", "mimalloc"] {
        let grown = |touched: u64, name: &str| {
            let answer = answer(&cell(allocator, &format!("reserve:size=64MiB,touched={touched},settle=1ms"), 2));
            reading(&answer, name, Idle) - reading(&answer, name, Start)
        };
        assert!(grown(0, "vsz_bytes") >= SIZE, "{allocator}");
        // Huge pages, threads and the workload itself need some memory.
        for touched in [0, 50, 100] {
            let (resident, wanted) = (grown(touched, "resident_bytes"), SIZE * touched / 100);
            assert!((wanted..wanted + (16 << 20)).contains(&resident), "{allocator}, {touched} %: {resident}");
        }
    }
}
