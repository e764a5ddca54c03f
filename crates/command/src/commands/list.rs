//! `allocanary list`: what the user can choose from. In: the available cells and the lists of this build. Out: a summary
//! of at most ten lines, then tables.

use std::process::ExitCode;

use comfy_table::{ContentArrangement, Table};

use super::run::candidates;
use super::{cells, terminal};
use crate::args::ListFlags;
use crate::given;
use allocanary_facts::setting::PerCore;
use allocanary_measure::metrics::ALL as METRICS;
use allocanary_rows::description::Description;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::perhaps;
use allocanary_screens::report as reports;
use allocanary_study::program::{huge_pages, runtimes};
use allocanary_study::session::{CASES, SHIPPED, StudyFile};

/// A part of the list.
struct Part {
    /// The name by which it is requested.
    name: &'static str,
    /// Its whole table.
    table: fn(&[Description]) -> Table,
    /// The names of its entries, for the summary.
    names: fn(&[Description]) -> Vec<String>,
    /// Where an entry is used.
    used: &'static str,
}

/// All parts, in order.
const PARTS: &[Part] = &[
    Part {
        name: "allocators",
        table: allocators,
        names: |cells| distinct(cells.iter().map(|cell| cell.allocator.clone())),
        used: "study --candidates system jemalloc",
    },
    Part {
        name: "settings",
        table: settings,
        names: |cells| {
            let of =
                |name: &String| cells.iter().find(|cell| cell.allocator == *name).map_or(0, |cell| cell.settings.len());
            let allocators = distinct(cells.iter().map(|cell| cell.allocator.clone()));
            allocators.iter().map(|name| format!("{} of {name}", of(name))).collect()
        },
        used: "study --candidates jemalloc:narenas=1,tcache=false",
    },
    Part {
        name: "workloads",
        table: workloads,
        names: |cells| distinct(cells.iter().flat_map(|cell| cell.workloads.iter().map(|one| one.name.clone()))),
        used: "study --workloads server:live=64MiB",
    },
    Part {
        name: "meters",
        table: all_meters,
        names: |_| {
            let mut names: Vec<String> = given::readings().into_iter().map(|one| one.meter.into()).collect();
            names.dedup();
            names
        },
        used: "the readings in each row of samples.jsonl",
    },
    Part {
        name: "metrics",
        table: metrics,
        names: |_| METRICS.iter().map(|metric| metric.name.to_string()).collect(),
        used: "compare OLD NEW --metrics peak_resident --gate resident=5%",
    },
    Part {
        name: "studies",
        table: studies,
        names: |_| SHIPPED.iter().map(|shipped| shipped.name).chain([CASES.name]).map(str::to_string).collect(),
        used: "study cores",
    },
    Part {
        name: "formats",
        table: formats,
        names: |_| reports::ALL.iter().map(|report| report.name.to_string()).collect(),
        used: "report ROWS --format markdown",
    },
];

/// The most lines of a summary.
const MOST_LINES: usize = 10;

/// Prints a summary, then all parts or the requested one.
pub fn run(flags: &ListFlags) -> Result<ExitCode> {
    let wanted = |part: &&Part| flags.what.as_deref().is_none_or(|what| what == part.name);
    let parts: Vec<&Part> = PARTS.iter().filter(wanted).collect();
    if parts.is_empty() {
        let what = flags.what.as_deref().unwrap_or_default();
        let perhaps = perhaps(what, PARTS.iter().map(|part| part.name));
        return Err(Error::Input(format!("nothing to list by the name `{what}`{perhaps}")));
    }
    let cells = cells::roster(&flags.cells)?.descriptions();
    let width = terminal::look().width.into();
    let summary = match parts.as_slice() {
        [part] => summary(part, &cells, width),
        _ => overview(&parts, &cells, width),
    };
    let tables: Vec<String> = match parts.as_slice() {
        [part] => vec![format!("{}\n", (part.table)(&cells))],
        _ => parts.iter().map(|part| format!("{}\n{}\n", part.name, (part.table)(&cells))).collect(),
    };
    terminal::print_plain(&format!("{}\n\n{}", summary.join("\n"), tables.join("\n")))
}

/// One part in at most ten lines: where its entries are used, and their names.
fn summary(part: &Part, cells: &[Description], width: usize) -> Vec<String> {
    let names = (part.names)(cells);
    let mut lines = vec![format!("{}, used in: {}", part.name, part.used)];
    lines.extend(filled(&names, "  ", width, MOST_LINES - 1));
    lines
}

/// All parts in at most ten lines, one line each.
fn overview(parts: &[&Part], cells: &[Description], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for part in parts {
        let names = (part.names)(cells);
        let head = format!("{:<12}", part.name);
        lines.extend(filled(&names, &head, width, 1));
    }
    lines.push("`allocanary list PART` prints one part.".into());
    lines
}

/// Names separated by commas, on at most `most` lines after `head`. Names that do not fit are counted.
fn filled(names: &[String], head: &str, width: usize, most: usize) -> Vec<String> {
    let indent = " ".repeat(head.chars().count());
    let mut lines = vec![head.to_string()];
    for (at, name) in names.iter().enumerate() {
        let left = names.len() - at - 1;
        let comma = if left > 0 { "," } else { "" };
        let last = lines.len() == most;
        let line = lines.last_mut().expect("there is always a last line");
        let space = if line.ends_with(' ') { "" } else { " " };
        let more = format!("{space}and {} more", left + 1);
        // The last line needs room for the count of names that do not fit.
        let spare = if last && left > 0 { format!(" and {left} more").len() } else { 0 };
        if line.chars().count() + space.len() + name.chars().count() + comma.len() + spare <= width {
            line.push_str(&format!("{space}{name}{comma}"));
        } else if last {
            line.push_str(&more);
            break;
        } else {
            lines.push(format!("{indent}{name}{comma}"));
        }
    }
    lines.into_iter().map(|line| line.trim_end().to_string()).collect()
}

/// Each text once, in order of first occurrence.
fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    texts.for_each(|text| {
        if !seen.contains(&text) {
            seen.push(text);
        }
    });
    seen
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
    let of_others = candidates::installed().into_iter().map(|one| {
        let place = one.path.display().to_string();
        [one.name, one.version, "-".into(), place]
    });
    table(["allocator", "version", "by cores", "cell, or library"], cells.iter().map(row).chain(of_others))
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
    let of_programs = [(huge_pages::setting(), "own, each preload"), (candidates::idle(), "each preload")];
    let of_programs = of_programs.map(|(setting, whose)| {
        let about = format!("of {whose}, for `run` and `tune`; {} ({})", setting.about, setting.kind.wanted());
        [setting.name.to_string(), "-".into(), about]
    });
    let of_runtimes = runtimes::ALL.iter().flat_map(|runtime| runtime.knobs).map(|knob| {
        [format!("own:{}", knob.setting.name), "-".into(), format!("{} ({})", knob.setting.about, knob.wanted())]
    });
    table(["setting", "here", "what it does, what it takes"], rows.chain(of_programs).chain(of_runtimes))
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
    let rows = given::readings().into_iter().map(|one| [one.meter.into(), one.name.into(), one.about.into()]);
    table(["meter", "reading", "what it is"], rows)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_offers_every_part() {
        assert!(PARTS.iter().map(|part| part.name).eq(crate::args::values::PARTS));
    }

    #[test]
    fn names_fill_lines_and_the_rest_is_counted() {
        let names: Vec<String> = (10..40).map(|number| format!("name{number}")).collect();
        let one = filled(&names, "  30 names ", 40, 1);
        assert_eq!(one, ["  30 names name10, name11, and 28 more"]);
        let two = filled(&names, "  ", 24, 2);
        assert_eq!(two, ["  name10, name11,", "  name12, and 27 more"]);
        let all = filled(&names, "  ", 80, 9);
        assert!(all.len() == 4 && all.iter().all(|line| line.len() <= 80), "{all:?}");
        assert!(all.join(" ").ends_with("name38, name39"));
        assert_eq!(filled(&[], "x ", 80, 1), ["x"]);
    }
}
