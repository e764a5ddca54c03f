//! One reading in every output: the same bytes have the same key, and a key has the same bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use allocanary_heap::{Area, Part, Reading};
use allocanary_inside::give_back::condition::Condition;
use allocanary_measure::summary::{Findings, Fold, StudyNotes};
use allocanary_rows::Moment;
use allocanary_rows::fleet::{ContainerState, NodeReport};
use allocanary_rows::job::Job;
use allocanary_rows::program::Program;
use allocanary_rows::sample::{Measured, Sample};
use allocanary_text::outside::TerminalStyle;
use allocanary_text::units::Bytes;
use serde_json::Value;

/// Bytes by key.
type Keys = BTreeMap<String, u64>;

const LOOK: TerminalStyle = TerminalStyle { color: false, width: 80 };

/// A service that has Python's arenas beside glibc's heap, and memory that it mapped itself.
fn reading() -> Reading {
    serde_json::from_str(include_str!("../../../../tests/golden/heap-after.json")).unwrap()
}

/// What every output must say.
fn wanted() -> Keys {
    let keys: Keys = filled(reading().parts().iter().map(|(part, bytes)| (part.key().to_string(), bytes)));
    assert!(keys.len() >= 9, "{keys:?}");
    keys
}

/// Those that have bytes; bytes of one key are added up.
fn filled(all: impl IntoIterator<Item = (String, u64)>) -> Keys {
    let mut keys = Keys::new();
    all.into_iter().filter(|(_, bytes)| *bytes > 0).for_each(|(key, bytes)| *keys.entry(key).or_default() += bytes);
    keys
}

#[test]
fn json_has_the_parts_by_their_keys_and_its_sizes_and_times_end_in_their_unit() {
    let (reading, json) = (reading(), serde_json::to_value(reading()).unwrap());
    let number = |value: &Value| value.as_u64().unwrap();
    let of_heap = |heap: &Value| -> Vec<(String, u64)> {
        let parts = heap["parts_bytes"].as_object().unwrap().iter();
        parts.map(|(key, bytes)| (key.clone(), number(bytes))).collect()
    };
    let of_area = |area: &Value| {
        let known: Area = serde_json::from_value(area.clone()).unwrap();
        (reading.part_of(&known).key().to_string(), number(&area["resident_bytes"]))
    };
    let heaps = json["heaps"].as_array().unwrap().iter().flat_map(of_heap);
    assert_eq!(filled(heaps.chain(json["areas"].as_array().unwrap().iter().map(of_area))), wanted());
    assert_eq!(number(&json["resident_bytes"]), reading.parts().sum());
    // What parts and counters were called, and sizes and times without a unit.
    const WAS: &[&str] = &[
        "held",
        "caches",
        "inside",
        "dirty",
        "muzzy",
        "kept",
        "structures",
        "huge",
        "unexplained",
        "rss",
        "resident",
        "share",
        "swapped",
        "lazy",
        "parts",
        "taken",
        "started",
        "stopped",
        "bytes",
        "at_most",
        "forecast",
    ];
    let mut keys = Vec::new();
    collect(&json, &mut keys);
    let old: Vec<&String> = keys.iter().filter(|key| WAS.contains(&key.as_str())).collect();
    assert!(old.is_empty() && keys.len() > 30, "{old:?} of {keys:?}");
}

/// Every key of a document but those of parts, which have no unit of their own.
fn collect(value: &Value, keys: &mut Vec<String>) {
    match value {
        Value::Object(all) => all.iter().for_each(|(key, value)| {
            keys.push(key.clone());
            if key != "parts_bytes" {
                collect(value, keys);
            }
        }),
        Value::Array(all) => all.iter().for_each(|value| collect(value, keys)),
        _ => {}
    }
}

#[test]
fn a_row_and_the_csv_of_it_have_part_key_bytes() {
    let columns = allocanary_study::program::columns(&reading().parts());
    let part = |name: &str| name.strip_prefix("part_")?.strip_suffix("_bytes").map(String::from);
    assert_eq!(filled(columns.iter().map(|(name, bytes)| (part(name).unwrap(), *bytes))), wanted());
    let csv = (allocanary_screens::report::find("csv").unwrap().render)(&findings(&columns), &LOOK);
    let line = |line: &str| {
        // workload,candidate,version,axis,value,metric,unit,n,median,...
        let fields: Vec<&str> = line.split(',').collect();
        Some((part(fields[5])?, fields[8].parse().unwrap()))
    };
    assert_eq!(filled(csv.lines().filter_map(line)), wanted(), "{csv}");
}

/// A program that ended, with these parts at its peak.
fn findings(columns: &[(&'static str, u64)]) -> Findings {
    let mut row: Sample = serde_json::from_str(include_str!("../../../../tests/golden/sample.jsonl")).unwrap();
    row.cell.job = Job::of_program(Program { command: vec!["service".into()], ..Program::default() });
    (row.cell.candidate, row.cell.settings) = ("own".into(), BTreeMap::new());
    let readings = columns.iter().map(|(name, bytes)| (name.to_string(), vec![Some(*bytes)])).collect();
    row.measured = Some(Measured {
        moments: vec![Moment::Peak],
        requested_bytes: vec![0],
        readings,
        active_ns: 1,
        ..Measured::default()
    });
    let mut fold = Fold::default();
    fold.add(&row).unwrap();
    Findings::of(fold, |_, _| StudyNotes::default())
}

#[test]
fn the_agents_page_has_a_series_of_one_metric_for_each_part() {
    let row = ContainerState { pod: "web-1".into(), parts: reading().parts(), ..ContainerState::default() };
    let report = NodeReport { rows: vec![row], ..NodeReport::default() };
    let page = allocanary_node::metrics::page(Arc::new(report)).unwrap();
    let series = |line: &str| {
        let rest = line.strip_prefix("allocanary_resident_bytes{")?;
        let (labels, bytes) = rest.rsplit_once(' ')?;
        let (_, key) = labels.split_once("part=\"")?;
        Some((key.split('"').next()?.to_string(), bytes.parse::<f64>().unwrap() as u64))
    };
    assert_eq!(filled(page.lines().filter_map(series)), wanted(), "{page}");
}

#[test]
fn a_condition_compares_the_part_and_the_sums_that_it_names() {
    let (reading, parts) = (reading(), reading().parts());
    let sums = [("resident", parts.sum()), ("overhead", parts.overhead()), ("outside", parts.outside())];
    let sums = sums.map(|(name, bytes)| (name.to_string(), bytes));
    for (key, bytes) in wanted().into_iter().chain(sums) {
        let holds = |than: u64| Condition::parse(&format!("{key} > {than}")).unwrap().holds(&reading);
        assert!(holds(bytes - 1) && !holds(bytes), "{key}");
    }
}

#[test]
fn the_text_has_a_line_of_each_part_with_its_bytes() {
    let text = allocanary_screens::views::heap::text(&reading(), &[], &LOOK);
    for (key, bytes) in wanted() {
        let part = Part::of(&key).unwrap();
        // Runtimes, files and shared memory have lines by what they are.
        if [Part::Runtime, Part::Files, Part::Shared].contains(&part) {
            continue;
        }
        let shown = Bytes(bytes).to_string();
        let found = text.lines().any(|line| {
            line.strip_prefix("  ").and_then(|line| line.strip_prefix(part.name())).is_some_and(|rest| {
                let rest = rest.trim_start();
                rest.starts_with(&shown) && rest.ends_with('%')
            })
        });
        assert!(found, "{}: {shown}\n{text}", part.name());
    }
}
