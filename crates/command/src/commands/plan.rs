//! `allocanary study --plan`: what a study, or each study of a group, would do. In: the study's flags. Out: a summary of at most
//! ten lines, then every cell.

use std::process::ExitCode;
use std::time::Duration;

use super::{cells, terminal};
use crate::args::StudyFlags;
use allocanary_rows::Cell;
use allocanary_rows::error::Result;
use allocanary_screens::draw::wrapped;
use allocanary_study::session::{Study, StudyFile, expected_time, planned};
use allocanary_text::outside::in_one_line;
use allocanary_text::units::show_duration;

/// The most lines of the summary.
const MOST_LINES: usize = 10;

/// Prints the plan. It runs nothing except cells that describe themselves.
pub fn run(flags: &StudyFlags) -> Result<ExitCode> {
    let (_, group) = super::studies::study(flags)?;
    let cells = match group.0.as_slice() {
        [StudyFile { program: Some(program), .. }] => super::run::descriptions(program, &flags.run.cells)?,
        _ => cells::roster_for(&group, &flags.run.cells)?.descriptions(),
    };
    let studies = planned(&group, &cells)?;
    let spans: Vec<Duration> = studies.iter().map(|(_, planned)| expected_time(planned, &cells)).collect();
    let width = usize::from(terminal::look().width);
    let mut out = match studies.as_slice() {
        [(study, planned)] => of_one(study, planned, spans[0], width),
        _ => of_several(&studies, &spans, width),
    };
    out.push('\n');
    let mut number = 0;
    for ((study, planned), span) in studies.iter().zip(&spans) {
        if studies.len() > 1 {
            out.push_str(&format!("{}\n\n", heading(study)));
        }
        for cell in planned {
            number += 1;
            out.push_str(&format!("{number:>5}  {}\n", cell.title()));
        }
        out.push_str(&format!("\n{}\n", total(study, planned, *span)));
        if studies.len() > 1 {
            out.push('\n');
        }
    }
    if studies.len() > 1 {
        out.push_str(&format!("{}\n", total_of(&studies, &spans)));
    }
    terminal::print_plain(&out)
}

/// The line `280 cells, about 2 min, at most 105 s (time budget); seed 1`.
fn total(study: &Study, planned: &[Cell], span: Duration) -> String {
    let budget =
        study.budget.map_or(String::new(), |budget| format!(", at most {} (time budget)", show_duration(budget)));
    format!("{} processes, about {}{budget}; seed {}", planned.len(), show_duration(span), study.seed)
}

fn total_of(studies: &[(Study, Vec<Cell>)], spans: &[Duration]) -> String {
    let cells: usize = studies.iter().map(|(_, planned)| planned.len()).sum();
    let within =
        |((study, _), span): (&(Study, Vec<Cell>), &Duration)| study.budget.map_or(*span, |most| most.min(*span));
    let span: Duration = studies.iter().zip(spans).map(within).sum();
    format!("{cells} processes of {} studies, about {}", studies.len(), show_duration(span))
}

/// The summary of one study: its question, what is combined with what, and how long it takes.
fn of_one(study: &Study, planned: &[Cell], span: Duration, width: usize) -> String {
    let mut lines = Vec::new();
    let heading = heading(study);
    if !heading.is_empty() {
        lines.extend(wrapped(&heading, width).lines().map(String::from).take(MOST_LINES - 5));
    }
    let hosts = study.hosts.iter().map(|host| match host.cores {
        Some(cores) if cores != host.threads => format!("{} threads on {cores} cores", host.threads),
        Some(cores) => format!("{cores} cores"),
        None => format!("{}", host.threads),
    });
    let on_cores = study.hosts.iter().any(|host| host.cores.is_some());
    let parts = [
        ("candidates", study.candidates.iter().map(|one| one.spec.to_string()).collect::<Vec<_>>()),
        ("workloads", study.workloads.iter().map(ToString::to_string).collect()),
        (if on_cores { "emulated" } else { "threads" }, hosts.collect()),
    ];
    for (label, values) in parts {
        lines.push(format!("{:>4} {label:<12}{}", values.len(), values.join(" ")));
    }
    lines.push(format!("{:>4} repeats", study.repeats));
    lines.push(total(study, planned, span));
    shortened(lines, width)
}

/// The study's name and question, if it has them.
fn heading(study: &Study) -> String {
    let question = in_one_line(&study.question);
    let texts: Vec<&str> =
        study.name.as_deref().into_iter().chain([question.as_str()]).filter(|text| !text.is_empty()).collect();
    texts.join(": ")
}

/// The summary of several studies: a line for each, and a line for all.
fn of_several(studies: &[(Study, Vec<Cell>)], spans: &[Duration], width: usize) -> String {
    let mut lines = vec![total_of(studies, spans)];
    for ((study, planned), span) in studies.iter().zip(spans) {
        let name = study.name.as_deref().unwrap_or("study");
        lines.push(format!("  {name}: {}", total(study, planned, *span)));
    }
    if lines.len() > MOST_LINES {
        let left = lines.len() - (MOST_LINES - 1);
        lines.truncate(MOST_LINES - 1);
        lines.push(format!("  and {left} more studies"));
    }
    shortened(lines, width)
}

/// Shortens lines that are too wide by an ellipsis. The list below has the whole texts.
fn shortened(lines: Vec<String>, width: usize) -> String {
    let short = |line: String| match line.chars().count() > width {
        true => line.chars().take(width - 1).chain(['…']).collect(),
        false => line,
    };
    lines.into_iter().map(|line| short(line) + "\n").collect()
}
