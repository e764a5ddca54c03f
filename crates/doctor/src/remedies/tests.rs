//! Tests of remedies, from saved readings and this process.

use super::*;
use crate::flavour::Flavour;
use crate::host::sample;
use crate::seen::ProcessTraits;
use allocanary_heap::Part;
use allocanary_text::units::OneDecimal;

fn reading(name: &str) -> Reading {
    let path = format!("{}/../../tests/golden/heap-{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A process with glibc's malloc and many threads, on a host with 40 cores.
fn process(quota_milli: Option<u64>) -> ProcessFacts {
    let mut process =
        ProcessFacts::look_at(std::process::id(), crate::host::Surroundings::of(std::process::id())).unwrap();
    process.surroundings = sample(quota_milli, "madvise");
    process.seen = ProcessTraits { threads: Some(64), rust: Some(false), ..ProcessTraits::default() };
    process.variables.clear();
    process.identity.main.flavour = Flavour::Glibc;
    process.identity.c = None;
    process
}

/// All calls can be made.
fn passed() -> CallChecks {
    let mut checks = CallChecks::default();
    ["glibc", "jemalloc", "mimalloc"].into_iter().for_each(|one| checks.add(one, CallCheck::Passed));
    checks
}

fn ids(all: &[Remedy]) -> Vec<&str> {
    all.iter().map(|one| one.id.as_str()).collect()
}

#[test]
fn a_call_that_cannot_be_made_is_last_has_no_line_and_says_why() {
    let reading = reading("after");
    let with = |check| {
        let mut checks = CallChecks::default();
        checks.add("glibc", check);
        remedies(&reading, Some(&process(Some(1000))), &checks)
    };
    let all = with(CallCheck::Refused("process 3 traces it already (a debugger?)".into()));
    let last = all.last().unwrap();
    assert_eq!((ids(&all), last.lines.len()), (vec!["arena_max", "thread_idle", "record", "give-back"], 0));
    assert!(last.title().starts_with("Not possible, 520.0 MiB: have glibc give"), "{}", last.title());
    assert_eq!(last.details(), "Process 3 traces it already (a debugger?).");
    assert!(conclusion(&reading, &all).starts_with("Up to "), "{}", conclusion(&reading, &all));
    let alone = conclusion(&reading, &all[3..]);
    assert_eq!(alone, "No call can give back the 520.0 MiB of free pages: process 3 traces it already (a debugger?).");
    // What was not looked at is no refusal, and is not promised for now.
    let all = with(CallCheck::NotTried("it has a filter".into()));
    assert!(all[0].title().starts_with("Not tried, 520.0 MiB: ") && all[0].lines.len() == 1, "{:?}", all[0]);
    assert!(all[0].details().contains("Not tried: it has a filter."), "{}", all[0].details());
    let json = serde_json::to_value(&all[0]).unwrap();
    assert_eq!((&json["check"], &json["why"]), (&"not_tried".into(), &"it has a filter".into()));
    assert_eq!(serde_json::from_value::<Remedy>(json).unwrap(), all[0]);
    let restart = serde_json::to_value(&all[1]).unwrap();
    assert!(restart.get("check").is_none() && serde_json::from_value::<Remedy>(restart).unwrap() == all[1]);
}

#[test]
fn a_small_exact_gain_does_not_hide_what_may_be_much_more() {
    let reading = reading("after");
    let call = remedies(&reading, Some(&process(Some(1000))), &passed()).remove(0);
    let with = |bytes: u64| {
        let more = Remedy { id: "GC.run".into(), gives: Gives::Bound { bytes }, check: None, ..call.clone() };
        let all = [call.clone(), more];
        all.each_ref().map(|one| one.rank(&all))
    };
    let [exact, bound] = with((3 * 520) << 20);
    assert!(exact < bound, "an exact gain is first");
    let [exact, bound] = with((5 * 520) << 20);
    assert!(bound < exact, "unless it is less than a quarter");
}

#[test]
fn arenas_of_threads_that_have_ended_are_fewer_at_the_next_start_and_nobody_waits() {
    let reading = reading("after");
    let mut process = process(Some(1000));
    process.seen.threads = Some(1);
    let all = remedies(&reading, Some(&process), &passed());
    assert_eq!(ids(&all), ["give-back", "arena_max", "record"], "{all:?}");
    assert!(all[1].evidence.starts_with("Now it has 14, and the process may use 1 processor."), "{}", all[1].evidence);
}

#[test]
fn free_pages_of_mimalloc_have_a_setting_unless_it_is_set() {
    let mut reading = reading("after");
    reading.heaps[0].allocator = "mimalloc".into();
    let mut process = process(None);
    process.identity.main.flavour = Flavour::Named("mimalloc");
    let lines = |process: &ProcessFacts| {
        let all = remedies(&reading, Some(process), &passed());
        all.into_iter().find(|one| one.id == "purge_delay").map(|one| one.lines[0].text.clone())
    };
    assert_eq!(lines(&process).as_deref(), Some("MIMALLOC_PURGE_DELAY=0"));
    process.variables.insert("MIMALLOC_PURGE_DELAY".into(), "10".into());
    assert_eq!(lines(&process), None);
}

#[test]
fn a_program_without_a_loader_is_not_told_to_be_recorded() {
    let reading = reading("after");
    let lines = |process: &ProcessFacts| {
        let all = remedies(&reading, Some(process), &passed());
        all.into_iter().find(|one| one.id == "record").map(|one| (one.lines.len(), one.details()))
    };
    let mut process = process(Some(1000));
    assert_eq!(lines(&process).unwrap().0, 1);
    process.maps.files.retain(|file| !file.path.contains("/ld-"));
    let (count, details) = lines(&process).unwrap();
    assert!(count == 0 && details.contains("linked statically"), "{details}");
}

#[test]
fn one_line_makes_the_calls_of_all_heaps_and_says_their_sum() {
    let mut reading = reading("after");
    let mut second = reading.heaps[0].clone();
    second.allocator = "jemalloc".into();
    second.remedies[0].name = "arena.4096.purge".into();
    second.remedies[0].bytes = 10 << 20;
    reading.heaps.push(second);
    let calls = |checks: &CallChecks| {
        let all = remedies(&reading, None, checks);
        all.into_iter().filter(|one| one.id == "give-back").collect::<Vec<_>>()
    };
    let both = calls(&passed());
    assert_eq!((both.len(), both[0].gives.bytes()), (1, Some(530 << 20)), "{both:?}");
    assert!(both[0].what.starts_with("have glibc and jemalloc give their free pages back"), "{}", both[0].what);
    let said = conclusion(&reading, &both);
    assert!(said.starts_with("530.0 MiB can go back now, with `allocanary give-back 812`"), "{said}");
    let mut checks = passed();
    checks.add("glibc", CallCheck::Refused("it is in two files".into()));
    checks.add("jemalloc", CallCheck::NotTried("it has a filter".into()));
    // The other heap alone gives too little to be told of.
    let refused = calls(&checks);
    assert!(refused.len() == 1 && refused[0].refused().is_some(), "{refused:?}");
}

#[test]
fn what_is_counted_stands_before_what_is_bounded_and_nothing_is_advised_that_gives_nothing() {
    let mut reading = reading("after");
    let all = remedies(&reading, Some(&process(Some(1000))), &passed());
    // Counted bytes come before a larger bound. Of two bounds the larger one comes first.
    assert_eq!(ids(&all), ["give-back", "arena_max", "thread_idle", "record"], "{all:?}");
    assert!(matches!(all[0].gives, Gives::Exact { .. }) && matches!(all[1].gives, Gives::Bound { .. }));
    assert!(all[1].gives.bytes() > all[0].gives.bytes() && all[3].gives.bytes().is_none());
    assert!(
        conclusion(&reading, &all).contains(" can go back now, with `malloc_trim(0)`"),
        "{}",
        conclusion(&reading, &all)
    );
    let arenas =
        all.iter().find(|one| one.id == "arena_max").expect("it has more arenas than the quota has processors");
    assert_eq!(arenas.first_lines().collect::<Vec<_>>(), ["MALLOC_ARENA_MAX=1"]);
    assert!(arenas.lines.iter().all(|line| line.place != "Rust"), "it is C");
    let parts = reading.of_heaps();
    assert!(arenas.gives.bytes().unwrap() <= reading.resident - parts.of(Part::Live), "live blocks stay");
    let gives = format!(" {} are neither live nor cached, ", OneDecimal(arenas.gives.bytes().unwrap()));
    assert!(arenas.evidence.contains(&gives), "the bound has its reason: {}", arenas.evidence);
    // There are more processors than arenas, so fewer arenas are not proposed.
    assert!(!ids(&remedies(&reading, Some(&process(None)), &passed())).contains(&"arena_max"));
    // With the same threads and cores, but without kept pages.
    reading.heaps[0].remedies[0].bytes = 0;
    reading.heaps[0].parts.pass(Part::FreePages, Part::Live, u64::MAX);
    reading.heaps[0].parts.pass(Part::Fragmentation, Part::Live, u64::MAX);
    let none = remedies(&reading, Some(&process(Some(1000))), &passed());
    assert_eq!(ids(&none), Vec::<&str>::new());
    let said = conclusion(&reading, &none);
    assert!(said.starts_with("No call can give memory back: the program itself holds "), "{said}");
}

#[test]
fn settings_in_force_are_not_advised_again() {
    let reading = reading("after");
    let mut process = process(Some(1000));
    process.seen.code =
        [("thread_idle", "100ms"), ("arena_max", "1")].map(|(key, value)| (key.into(), value.into())).into();
    let all = remedies(&reading, Some(&process), &passed());
    assert!(ids(&all).iter().all(|id| !["thread_idle", "arena_max"].contains(id)), "{:?}", ids(&all));
}

#[test]
fn a_jvm_has_its_own_way() {
    let reading = reading("after");
    let mut process = process(Some(1000));
    process.maps.files.push(crate::process::MappedFile {
        path: "/opt/jdk/lib/server/libjvm.so".into(),
        from: 0,
        to: 0,
    });
    (process.seen.jvm, process.seen.jdk) = (true, Some((17, 0, 13)));
    let all = remedies(&reading, Some(&process), &passed());
    assert_eq!(ids(&all), ["give-back", "arena_max", "TrimNativeHeapInterval", "record"]);
    assert!(all[0].lines.iter().any(|line| line.text.starts_with("jcmd ")), "{:?}", all[0].lines);
    assert!(all[2].lines[0].text.contains("TrimNativeHeapInterval=1000"), "{:?}", all[2].lines);
    process.seen.jdk = Some((11, 0, 20));
    assert!(!ids(&remedies(&reading, Some(&process), &passed())).contains(&"TrimNativeHeapInterval"));
}

#[test]
fn what_is_not_divided_has_no_figure_and_never_stands_first() {
    let mut reading = reading("after");
    reading.heaps.clear();
    reading.undivided = vec!["glibc".into()];
    let all = remedies(&reading, Some(&process(Some(1000))), &passed());
    assert!(!all.is_empty() && all.iter().all(|one| one.gives.bytes().is_none()), "{all:?}");
    assert!(all.iter().any(|one| one.what == "settings of glibc"), "{all:?}");
    assert!(!conclusion(&reading, &all).contains(" now"));
}

#[test]
fn a_remedy_is_the_same_after_its_way_from_the_child() {
    let all = remedies(&reading("after"), Some(&process(Some(1000))), &passed());
    let text = serde_json::to_string(&all).unwrap();
    assert!(text.contains(r#""gives":{"bound":"exact","reclaimable_bytes":"#), "{text}");
    assert_eq!(serde_json::from_str::<Vec<Remedy>>(&text).unwrap(), all);
}
