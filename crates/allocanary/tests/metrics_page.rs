//! The metrics page of a process with jemalloc installed, as Prometheus reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allocanary::metrics::AllocatorCollector;
use allocanary::tuning;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use allocanary_sys::proc::ProcStatus;
use allocanary_testing::skipped::skipped;

allocanary::install!(jemalloc, narenas = 3);

/// One test at a time: jemalloc's sums agree only if no other test allocates.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn page(collector: AllocatorCollector) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector));
    let mut page = String::new();
    encode(&mut page, &registry).unwrap();
    page
}

/// Samples by name and labels.
fn samples(page: &str) -> BTreeMap<&str, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap()).map(|(name, value)| (name, value.parse().unwrap())).collect()
}

#[test]
fn every_gauge_is_there_with_its_label_and_a_value_that_can_be() {
    let _alone = alone();
    let held = std::hint::black_box(vec![1_u8; 20 << 20]);
    let text = page(AllocatorCollector::new());
    let samples = samples(&text);
    let gauge = |name: &str| samples[format!("allocanary_{name}{{allocator=\"jemalloc\"}}").as_str()];
    assert!(gauge("allocator_allocated_bytes") >= held.len() as f64);
    assert!(gauge("allocator_active_bytes") >= gauge("allocator_allocated_bytes"));
    assert!(gauge("allocator_resident_bytes") >= gauge("allocator_active_bytes"));
    assert!(gauge("allocator_metadata_bytes") > 0.0);
    assert!(gauge("allocator_retained_bytes") >= 0.0);
    assert_eq!(gauge("allocator_arenas_limit"), 3.0);
    // Huge blocks have a separate arena, in addition to those for threads.
    assert!((1.0..=4.0).contains(&gauge("allocator_arenas")));
    assert!(gauge("allocator_fragmentation_ratio") >= 1.0);
    assert!(gauge("allocator_mapped_bytes") >= gauge("allocator_resident_bytes"));
    let unknown = samples["allocanary_resident_bytes{allocator=\"jemalloc\",part=\"unknown\"}"];
    assert!(unknown >= held.len() as f64, "anonymous memory is not analysed");
    let faults = |kind| {
        samples[format!("allocanary_process_page_faults_total{{allocator=\"jemalloc\",kind=\"{kind}\"}}").as_str()]
    };
    assert!(faults("minor") > 1000.0 && faults("major") >= 0.0);
    assert_eq!(gauge("allocator_statistics_age_seconds"), 0.0, "read by this very scrape");
    assert!(gauge("allocator_cached_bytes") <= gauge("allocator_allocated_bytes") - held.len() as f64);
    assert!(gauge("allocator_dirty_bytes") >= 0.0 && gauge("allocator_muzzy_bytes") >= 0.0);
    // Without shared memory there is no series of it.
    let parts = samples.keys().filter(|name| name.starts_with("allocanary_resident_bytes")).count();
    assert!((2..=3).contains(&parts) && samples.len() == 15 + parts, "{text}");
}

#[test]
fn what_is_freed_is_not_allocated() {
    let _alone = alone();
    let live = || {
        let page = page(AllocatorCollector::new());
        let gauge =
            |key| samples(&page)[format!("allocanary_allocator_{key}_bytes{{allocator=\"jemalloc\"}}").as_str()];
        gauge("allocated") - gauge("cached")
    };
    let blocks: Vec<Vec<u8>> = (0..256).map(|_| std::hint::black_box(vec![1_u8; 1 << 20])).collect();
    let before = live();
    drop(blocks);
    let less = (before - live()) / f64::from(1 << 20);
    assert!(less > 128.0, "{less} MiB less");
}

#[test]
fn the_parts_add_up_to_the_resident_memory_with_stacks_when_they_are_asked_for() {
    let _alone = alone();
    let name = "allocanary_resident_bytes{allocator=\"jemalloc\",part=";
    let resident = ProcStatus::own().unwrap().resident.unwrap() as f64;
    for has_stacks in [false, true] {
        let text = page(AllocatorCollector::new().with_parts(has_stacks));
        let samples = samples(&text);
        let sum: f64 = samples.iter().filter(|(found, _)| found.starts_with(name)).map(|(_, value)| value).sum();
        // Between the two readings other tests of this process allocate and free up to 400 MiB.
        assert!((sum - resident).abs() < 400e6, "{sum} {resident}");
        assert!(samples[format!("{name}\"files\"}}").as_str()] > 1e6, "{text}");
        assert_eq!(samples.contains_key(format!("{name}\"stacks\"}}").as_str()), has_stacks, "{text}");
    }
}

#[test]
fn counters_stand_as_long_as_they_may_and_their_age_is_told() {
    let _alone = alone();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(AllocatorCollector::new().with_refresh(Duration::from_secs(3600))));
    let scrape = || {
        let mut page = String::new();
        encode(&mut page, &registry).unwrap();
        let value = |name: &str| samples(&page)[format!("allocanary_{name}}}").as_str()];
        let unknown = "resident_bytes{allocator=\"jemalloc\",part=\"unknown\"";
        let counters = ["allocated_bytes", "statistics_age_seconds"];
        let [allocated, age] = counters.map(|name| value(&format!("allocator_{name}{{allocator=\"jemalloc\"")));
        [allocated, age, value(unknown)]
    };
    let [before, age, resident] = scrape();
    assert_eq!(age, 0.0);
    let held = std::hint::black_box(vec![1_u8; 64 << 20]);
    let [after, age, grown] = scrape();
    assert!(after == before && age > 0.0, "{after} {before} {age}");
    assert!(grown > resident, "the process's own metrics are fresh");
    assert!(tuning::statistics().unwrap().counters.allocated.unwrap() as f64 > before + held.len() as f64 / 2.0);
    let fresh = page(AllocatorCollector::new().with_refresh(Duration::ZERO));
    assert!(samples(&fresh)["allocanary_allocator_allocated_bytes{allocator=\"jemalloc\"}"] > before);
}

#[test]
fn pss_is_there_when_it_is_asked_for() {
    let _alone = alone();
    let name = "allocanary_pss_bytes{allocator=\"jemalloc\"}";
    assert!(!page(AllocatorCollector::new()).contains("allocanary_pss"));
    let text = page(AllocatorCollector::new().with_pss(true));
    assert!(samples(&text)[name] > 0.0, "{text}");
}

#[test]
fn names_help_and_types_follow_the_conventions() {
    let _alone = alone();
    let text = page(AllocatorCollector::new().with_pss(true).with_parts(true));
    let mut types = BTreeMap::new();
    let mut helped = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# ")) {
        match line.split_once(' ') {
            Some(("HELP", rest)) => {
                let (name, help) = rest.split_once(' ').expect("a help text");
                assert!(help.len() > 10, "{line}");
                helped.insert(name);
            }
            Some(("TYPE", rest)) => {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!(types.insert(name, kind), None, "declared twice: {line}");
            }
            _ => assert!(line == "EOF" || line.starts_with("UNIT "), "{line}"),
        }
    }
    assert!(text.ends_with("# EOF\n"));
    let samples = samples(&text);
    assert!(samples.len() >= 18, "{samples:?}");
    for sample in samples.keys() {
        let name = sample.split('{').next().unwrap();
        let family = name.strip_suffix("_total").unwrap_or(name);
        let counter = types[family] == "counter";
        assert!(helped.contains(family), "{name} has no help");
        assert_eq!(name.ends_with("_total"), counter, "{name}: _total is for counters");
        assert!(name.starts_with("allocanary_") && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        assert!(!["kib", "kb", "mib", "mb", "ms", "percent"].iter().any(|unit| name.ends_with(unit)), "{name}");
    }
}

#[test]
fn promtool_finds_nothing_to_complain_of() {
    let _alone = alone();
    let text = prometheus_text(&page(AllocatorCollector::new().with_pss(true).with_parts(true)));
    assert!(samples(&text).len() >= 18, "an empty page has nothing to complain of: {text}");
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = match promtool {
        Ok(promtool) => promtool,
        Err(error) => {
            skipped(format_args!("promtool is not installed ({error})"));
            return;
        }
    };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}\n{text}", String::from_utf8_lossy(&said));
}

/// The page in Prometheus' older text format, the only one that promtool reads: it declares the whole name of a
/// counter, while OpenMetrics leaves out `_total`. The content type tells a scraping server the format.
fn prometheus_text(page: &str) -> String {
    let counters: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let line = |line: &str| {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "EOF"] | ["#", "UNIT", ..] => String::new(),
            ["#", what, name, rest] if counters.contains(&name) => format!("# {what} {name}_total {rest}\n"),
            _ => format!("{line}\n"),
        }
    };
    page.lines().map(line).collect()
}
