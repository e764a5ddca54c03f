//! `allocanary list`: what the user can choose from. In: the available cells and the lists of this build. Out: tables.

use std::process::ExitCode;

use comfy_table::{ContentArrangement, Table};

use super::{measure, terminal};
use crate::args::ListFlags;
use allocanary_allocators::allocator::PerCore;
use allocanary_cell::description::{Description, perhaps};
use allocanary_cell::meters;
use allocanary_study::error::{Error, Result};
use allocanary_study::reports;
use allocanary_study::summary::METRICS;
use allocanary_study::{CASES, SHIPPED, StudyFile};

/// A part of the list: its name, and the function that renders it.
type Part = (&'static str, fn(&[Description]) -> Table);

const PARTS: &[Part] = &[
    ("allocators", allocators),
    ("settings", settings),
    ("workloads", workloads),
    ("meters", all_meters),
    ("metrics", metrics),
    ("studies", studies),
    ("formats", formats),
];

/// Prints all parts, or the requested one.
pub fn run(flags: &ListFlags) -> Result<ExitCode> {
    let wanted = |(name, _): &&Part| flags.what.as_deref().is_none_or(|what| what == *name);
    let parts: Vec<&Part> = PARTS.iter().filter(wanted).collect();
    if parts.is_empty() {
        let what = flags.what.as_deref().unwrap_or_default();
        let perhaps = perhaps(what, PARTS.iter().map(|(name, _)| *name));
        return Err(Error::Input(format!("nothing to list by the name `{what}`{perhaps}")));
    }
    let cells = measure::roster(&flags.cells)?.descriptions();
    let out: Vec<String> = parts.iter().map(|(name, part)| format!("{name}\n{}\n", part(&cells))).collect();
    terminal::print(out.join("\n").as_bytes())
}

fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(terminal::look().width).force_no_tty();
    table.set_header(head);
    table.add_rows(rows);
    table
}

fn allocators(cells: &[Description]) -> Table {
    let row = |cell: &Description| {
        let by_cores = |per_core: &PerCore| {
            let on_one = per_core.on_one.map_or(String::new(), |on_one| format!(", {on_one} on one"));
            format!("{} = {} x cores{on_one}", per_core.setting, per_core.ratio)
        };
        let per_core = cell.per_core.as_ref().map(by_cores);
        let build = format!("{} {} ({})", cell.build.package, cell.build.version, cell.build.id);
        [cell.allocator.clone(), cell.version.clone(), per_core.unwrap_or_else(|| "-".into()), build]
    };
    table(["allocator", "version", "by cores", "cell"], cells.iter().map(row))
}

fn settings(cells: &[Description]) -> Table {
    // The cells of two packages for one allocator have the same settings: show them once.
    let first = |at: usize| cells[..at].iter().all(|cell| cell.allocator != cells[at].allocator);
    let rows = cells.iter().enumerate().filter(|(at, _)| first(*at)).flat_map(|(_, cell)| {
        cell.settings.iter().map(|setting| {
            let default = cell.effective.get(setting.name.as_ref()).cloned().unwrap_or_else(|| "-".into());
            let about = format!("{} ({})", setting.about, setting.kind.wanted());
            [format!("{}:{}", cell.allocator, setting.name), default, about]
        })
    });
    table(["setting", "here", "what it does, what it takes"], rows)
}

fn workloads(cells: &[Description]) -> Table {
    let mut seen = Vec::new();
    let mut rows = Vec::new();
    for workload in cells.iter().flat_map(|cell| &cell.workloads) {
        if seen.contains(&&workload.name) {
            continue;
        }
        seen.push(&workload.name);
        let about = format!("{}; an operation is one {}", workload.about, workload.operation);
        rows.push([workload.name.clone(), String::new(), about]);
        for parameter in &workload.parameters {
            let name = format!("{}:{}", workload.name, parameter.setting.name);
            rows.push([name, parameter.default.clone(), parameter.setting.about.to_string()]);
        }
    }
    table(["workload", "default", "what it does"], rows)
}

fn all_meters(_cells: &[Description]) -> Table {
    let at_phases = meters::ALL.iter().flat_map(|meter| {
        let row = |reading: &allocanary_cell::meter::Reading| {
            [meter.name.to_string(), reading.name.to_string(), reading.about.to_string()]
        };
        meter.readings.iter().map(row)
    });
    let latency = meters::LATENCY_READINGS
        .iter()
        .map(|reading| ["latency".to_string(), reading.name.to_string(), reading.about.to_string()]);
    table(["meter", "reading", "what it is"], at_phases.chain(latency))
}

fn metrics(_cells: &[Description]) -> Table {
    let rows = METRICS
        .iter()
        .map(|metric| [metric.name.to_string(), metric.unit.name().to_string(), metric.about.to_string()]);
    table(["metric", "unit", "what it is"], rows)
}

fn studies(_cells: &[Description]) -> Table {
    let rows = SHIPPED.iter().map(|shipped| {
        let file = StudyFile::parse(shipped.name, shipped.text).unwrap_or_default();
        [shipped.name.to_string(), file.question.unwrap_or_default()]
    });
    let group = [CASES.name.to_string(), format!("{}: {}", CASES.about, CASES.studies.join(", "))];
    table(["study", "its question"], rows.chain([group]))
}

fn formats(_cells: &[Description]) -> Table {
    table(
        ["format", "what it is for"],
        reports::ALL.iter().map(|report| [report.name.to_string(), report.about.to_string()]),
    )
}
