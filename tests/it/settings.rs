//! A setting counts only if it took effect: every setting of every allocator's table is set in a real cell and read
//! back, in the middle of its range and at both ends.

use std::collections::BTreeMap;

use allocanary_facts::setting::{Setting, SettingKind};
use allocanary_rows::Moment;
use allocanary_rows::sample::FailureKind;
use tempfile::tempdir;

use super::support::{TINY, cell, cell_with, described, ours, run_cell, samples, study};
use allocanary_testing::skipped::skipped;

/// Values within the table's range that do not work, each with the text that the cell must print. If one begins to
/// work, the test fails, and its line must be removed.
const CANNOT: &[(&str, &str, &str, &str)] = &[
    // Takes effect only in builds that found process_madvise(2); this one has the code left out.
    ("jemalloc", "process_madvise_max_batch", "1", "wanted 1, found 0"),
    ("jemalloc", "process_madvise_max_batch", "9223372036854775807", "wanted 9223372036854775807, found 0"),
    // Clipped to 32 KiB, and silently: the table's note says so.
    ("jemalloc", "tcache_max", "9223372036854775807", "wanted 9223372036854775807, found 32768"),
    // No memory is reserved from which it could allocate.
    ("mimalloc", "disallow_os_alloc", "1", "memory allocation of"),
    // Kept in KiB.
    ("mimalloc", "arena_reserve", "9223372036854775807", "found 9223372036854774784"),
    ("mimalloc", "minimal_purge_size", "9223372036854775807", "found 9223372036854774784"),
    ("mimalloc", "arena_max_object_size", "9223372036854775807", "found 9223372036854774784"),
    ("mimalloc", "reserve_os_memory", "9223372036854775807", "found 9223372036854774784"),
    // Asks for more memory than any machine has.
    ("system", "top_pad", "9223372036854775807", "memory allocation of"),
];

/// A value that is not the default, and the ends of the range.
fn values(setting: &Setting, default: Option<&String>) -> Vec<String> {
    let other = |value: &String| Some(value) != default;
    match &setting.kind {
        SettingKind::Flag => vec!["true".into(), "false".into()],
        SettingKind::Number { min, max } => {
            let middle = [1, 2, 3].into_iter().map(|add| min.max(&0) + add).filter(|value| value <= max);
            let middle = middle.map(|value| value.to_string()).find(other);
            middle.into_iter().chain([min.to_string(), max.to_string()]).collect()
        }
        SettingKind::Size { min, max } => {
            // In a user's spelling, which is not the allocator's.
            let middle = if (64 << 10) < *max { "16KiB".to_string() } else { (max / 2).to_string() };
            vec![setting.kind.canonical(&middle).unwrap(), min.to_string(), max.to_string()]
        }
        SettingKind::Choice { names } => names.iter().map(|name| name.to_string()).collect(),
        SettingKind::Text if setting.name == "narenas_ratio" => vec!["3".into(), "0.5".into(), "1.25".into()],
        SettingKind::Time { .. } | SettingKind::Path => panic!("no allocator has a setting that is a time or a path"),
        SettingKind::Text => vec!["8-1024:100|2048-4096:10".into()],
    }
}

fn assert_all_read_back(allocator: &str) {
    let description = described(allocator);
    assert!(description.settings.len() > 9, "{allocator} has a table");
    let mut wrong = Vec::new();
    // On one processor jemalloc does not use its ratio, so the ratio cannot be read back.
    let here = |setting: &&Setting| setting.name != "narenas_ratio" || allocanary::container::Cpus::here().affinity > 1;
    for setting in description.settings.iter().filter(here) {
        let name = setting.name.as_ref();
        let values = values(setting, description.effective.get(name));
        assert!(values.iter().any(|value| Some(value) != description.effective.get(name)), "{name}: {values:?}");
        for value in values {
            let wanted = BTreeMap::from([(name.to_string(), value.clone())]);
            let found = match run_cell(&cell_with(allocator, TINY, &wanted)) {
                Ok(sample) => match (sample.error, sample.measured) {
                    (Some(error), _) => Err(error.text),
                    (None, Some(answer)) if answer.found == wanted => Ok(()),
                    (None, answer) => Err(format!("no error, and found {:?}", answer.map(|answer| answer.found))),
                },
                Err(died) => Err(died),
            };
            let cannot = CANNOT.iter().find(|cannot| (cannot.0, cannot.1, cannot.2) == (allocator, name, &*value));
            match (found, cannot) {
                (Ok(()), None) => {}
                (Err(said), Some((.., text))) if said.contains(text) => {}
                (found, cannot) => wrong.push(format!("{allocator}:{name}={value}: {found:?}, expected {cannot:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_setting_is_read_back() {
    // Of each allocator at the same time: most of a cell is the start of a process.
    std::thread::scope(|scope| {
        for allocator in ours() {
            if described(allocator).settings.is_empty() {
                skipped(format_args!("{allocator} has no settings here"));
                continue;
            }
            scope.spawn(move || assert_all_read_back(allocator));
        }
    });
}

#[test]
fn a_clipped_setting_is_an_error_row_and_an_honoured_one_is_not() {
    let folder = tempdir().unwrap();
    let flags =
        format!("--repeats 1 --workloads {TINY} --candidates jemalloc:tcache_max=1MiB jemalloc:tcache_max=16KiB");
    let ran = study(folder.path(), &flags);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("tcache_max: wanted 1048576, found 32768"), "{}", ran.out);
    let rows = samples(&folder.path().join("out"));
    let row = |value: &str| rows.iter().find(|row| row.cell.settings["tcache_max"] == value).unwrap();
    let (clipped, honoured) = (row("1048576"), row("16384"));
    let failure = clipped.error.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::Setting);
    assert!(failure.text.contains("wanted 1048576, found 32768"), "{}", failure.text);
    assert_eq!(clipped.measured.as_ref().unwrap().found["tcache_max"], "32768");
    assert_eq!(honoured.error, None);
    assert_eq!(honoured.measured.as_ref().unwrap().found, honoured.cell.settings);
}

#[test]
fn a_setting_that_the_allocator_does_not_know_is_no_success() {
    let wanted = BTreeMap::from([("no_such_option".to_string(), "1".to_string())]);
    for allocator in ours() {
        let sample = run_cell(&cell_with(allocator, TINY, &wanted)).unwrap();
        let failure = sample.error.unwrap();
        assert!(failure.text.contains("no_such_option: wanted 1"), "{allocator}: {failure:?}");
        assert_eq!(run_cell(&cell(allocator, TINY, 1)).unwrap().error, None, "{allocator}");
    }
}

/// Here jemalloc never gives freed memory back by itself, so only the purge reduces memory between the two marks.
#[test]
fn the_mark_purged_is_read_after_a_purge() {
    let folder = tempdir().unwrap();
    let candidate = "jemalloc:dirty_decay_ms=-1,muzzy_decay_ms=-1,narenas=1";
    let flags =
        format!("--repeats 1 --workloads server:bursts=1,settle=1ms,live=16MiB,requests=10 --candidates {candidate}");
    let ran = study(folder.path(), &flags);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let answer = samples(&folder.path().join("out")).remove(0).measured.unwrap();
    let [released, purged] =
        [Moment::Released, Moment::Purged].map(|moment| answer.reading("resident_bytes", moment).unwrap());
    assert!(purged + (12 << 20) < released, "{purged} bytes purged, {released} released");
}
