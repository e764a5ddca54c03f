//! `markdown`: tables for a README, a pull request or an issue. In: findings. Out: GitHub's Markdown.

use super::{anatomies, answer, figures, words};
use crate::report::format::ReportFormat;
use allocanary_measure::metrics::metric_of_all;
use allocanary_measure::summary::{Anatomy, COST, Findings, Panel, StudySection};
use allocanary_text::outside::TerminalStyle;

/// The report.
pub const REPORT: ReportFormat = ReportFormat { name: "markdown", about: "tables for a pull request", render };

fn render(findings: &Findings, _look: &TerminalStyle) -> String {
    let mut out = answer(findings);
    for section in &findings.sections {
        let heading = figures::heading(section);
        match &section.name {
            Some(_) => out.push_str(&format!("## {}\n\n", escaped(&heading))),
            None if heading.is_empty() => {}
            None => out.push_str(&format!("**{}**\n\n", escaped(&heading))),
        }
        match section.about.metrics.is_empty() {
            true => section.panels.iter().for_each(|panel| out.push_str(&whole(panel))),
            false => out.push_str(&own(section)),
        }
        let published = figures::published(section);
        if !published.is_empty() {
            out.push_str("Published:\n\n");
            published.iter().for_each(|line| out.push_str(&format!("- {}\n", escaped(line))));
            out.push('\n');
        }
    }
    for trouble in words::troubles(findings) {
        out.push_str(&format!("- {}\n", escaped(&trouble)));
    }
    for line in words::provenance(findings) {
        out.push_str(&format!("\n<sub>{} rows. {}</sub>\n", findings.rows, escaped(&line)));
    }
    out
}

fn whole(panel: &Panel) -> String {
    let mut out = format!("### {}: resident memory when idle, by {}\n\n", escaped(&panel.title), panel.axis.name());
    out.push_str(&memory(panel));
    if let Some(headline) = words::headline(panel) {
        out.push_str(&format!("\n{}\n", escaped(&headline)));
    }
    out.push_str(&verdicts(panel));
    out.push_str(&cost(panel));
    out.push_str(&anatomy(panel));
    out.push('\n');
    out
}

/// The metrics that the study names, with intervals.
fn own(section: &StudySection) -> String {
    let heads: Vec<&str> = section.about.metrics.iter().map(|metric| &*metric.name).collect();
    let rule = "--:|".repeat(heads.len() + 1);
    let mut out = format!("| | candidate | n | {} |\n|---|---|{rule}\n", heads.join(" | "));
    for block in figures::blocks(section) {
        for (at, row) in block.rows.iter().enumerate() {
            let title = if at == 0 { escaped(&block.title) } else { String::new() };
            out.push_str(&format!("| {title} | {} | {} |", code(&row.candidate), row.n));
            for figure in &row.figures {
                let texts = [figure.mark, &figure.median, &figure.interval];
                let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
                out.push_str(&format!(" {} |", texts.join(" ")));
            }
            out.push('\n');
        }
    }
    out.push_str(&format!("\n{} {}\n\n", figures::key(section), escaped(&figures::meanings(section))));
    let settled = figures::settled(section);
    if !settled.is_empty() {
        settled.iter().for_each(|line| out.push_str(&format!("- {}\n", escaped(line))));
        out.push('\n');
    }
    for panel in &section.panels {
        let table = anatomy(panel);
        if !table.is_empty() {
            out.push_str(&format!("{}\n", table.trim_start()));
        }
    }
    out
}

fn memory(panel: &Panel) -> String {
    let heads: Vec<String> = panel.columns.iter().map(|value| words::column(panel.axis, *value)).collect();
    let mut out = format!("| candidate | {} |\n|---|{}\n", heads.join(" | "), "--:|".repeat(heads.len()));
    let (common, n) = words::common(words::counts(panel, "resident"));
    for (at, line) in panel.lines.iter().enumerate() {
        out.push_str(&format!("| {} |", code(&line.name())));
        for (column, point) in line.points.iter().enumerate() {
            let rss = point.as_ref().and_then(|point| point.get("resident"));
            let (median, interval) =
                (words::median(metric_of_all("resident"), rss), words::interval(metric_of_all("resident"), rss));
            let best = words::starred(panel, column, "resident") == Some(at);
            let median = if best { format!("**{median}**") } else { median };
            out.push_str(format!(" {median} {interval}").trim_end());
            if let Some(n) = rss.map(words::count).filter(|n| common.as_ref() != Some(n)) {
                out.push_str(&format!(", {n}"));
            }
            out.push_str(" |");
        }
        out.push('\n');
    }
    out.push_str(&format!("\nMedian, [95 % interval], {n}.\n"));
    out
}

/// Time and work at the largest column.
fn cost(panel: &Panel) -> String {
    let Some((first, last)) = panel.lines.first().zip(panel.columns.len().checked_sub(1)) else { return String::new() };
    let mut rows = String::new();
    for (at, line) in panel.lines.iter().enumerate().skip(1) {
        let cell = |metric: &&str| match panel.comparison(metric, at, last).filter(|found| found.n.0.min(found.n.1) > 0)
        {
            Some(found) => words::verdict(found),
            None => "-".into(),
        };
        let cells: Vec<String> = COST.iter().map(cell).collect();
        if cells.iter().any(|cell| cell != "-") {
            rows.push_str(&format!("| {} | {} |\n", code(&line.name()), cells.join(" | ")));
        }
    }
    if rows.is_empty() {
        return rows;
    }
    let at = words::column(panel.axis, panel.columns[last]);
    let heads = COST.join(" | ");
    let first = code(&first.name());
    format!("\nThe cost at {at}, against {first}:\n\n| candidate | {heads} |\n|---|---|---|---|\n{rows}")
}

/// Where the memory is at the largest column: the parts of the process with the median resident memory.
fn anatomy(panel: &Panel) -> String {
    let Some(last) = panel.columns.len().checked_sub(1) else { return String::new() };
    let found = anatomies::at(panel, last);
    if found.is_empty() {
        return String::new();
    }
    let all: Vec<Anatomy> = found.iter().map(|(_, _, anatomy)| *anatomy).collect();
    let parts = anatomies::named(&all);
    let untouched = all.iter().any(|anatomy| anatomies::is_much(anatomy.never_touched));
    let heads = parts.iter().map(|(_, _, name)| name.as_str());
    let heads: Vec<&str> = heads.chain(untouched.then_some("never touched, not resident")).collect();
    let heading = escaped(&format!("{}: {}", panel.title, anatomies::heading(panel, last, &found)));
    let mut out = format!("\n{heading}, in MiB, of the process with the median resident memory:\n\n");
    out.push_str(&format!(
        "| candidate | resident | {} |\n|---|--:|{}\n",
        heads.join(" | "),
        "--:|".repeat(heads.len())
    ));
    for (_, line, anatomy) in &found {
        let figures = parts.iter().map(|(part, _, _)| anatomy.get(*part));
        let figures = figures.chain(untouched.then_some(anatomy.never_touched));
        let cell = |bytes: f64| if anatomies::is_much(bytes) { words::mebibytes(bytes) } else { String::new() };
        let cells: Vec<String> = figures.map(cell).collect();
        let (name, rss) = (code(&line.name()), anatomies::whole(anatomy));
        out.push_str(&format!("| {name} | {rss} | {} |\n", cells.join(" | ")));
    }
    let said = found.iter().filter_map(|(_, line, anatomy)| anatomies::sentence(&line.name(), anatomy));
    let said = said.collect::<Vec<_>>().join(" ");
    if !said.is_empty() {
        out.push_str(&format!("\n{}\n", escaped(&said)));
    }
    out
}

fn verdicts(panel: &Panel) -> String {
    let Some(first) = panel.lines.first().filter(|_| panel.lines.len() > 1) else { return String::new() };
    let mut out = format!("\nAgainst {}:\n\n", code(&first.name()));
    for (line, column, comparison) in &panel.comparisons {
        let at = words::column(panel.axis, panel.columns[*column]);
        out.push_str(&format!("- {}, {at}: {}\n", code(&panel.lines[*line].name()), words::verdict(comparison)));
    }
    out
}

/// The answer, and the lines that configure a program accordingly. They come first, because many readers of a pull
/// request read no further.
fn answer(findings: &Findings) -> String {
    let sentences = answer::sentences(findings);
    if sentences.is_empty() {
        return String::new();
    }
    let mut out = String::from("### Answer\n\n");
    sentences.iter().for_each(|sentence| out.push_str(&format!("- {}\n", escaped(sentence))));
    for pasted in answer::pasted(findings) {
        let lines: Vec<String> = pasted.lines.iter().map(|line| line.replace("```", "'''")).collect();
        out.push_str(&format!("\n{}\n\n```\n{}\n```\n", escaped(&pasted.heading), lines.join("\n")));
        if let Some(note) = &pasted.note {
            out.push_str(&format!("\n{}\n", escaped(note)));
        }
    }
    out + "\n"
}

/// Escapes the text of a failure, which may contain anything. A `|`, a tag or a backtick in it would break the page. Characters that
/// control a terminal were replaced when the row was read.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|").replace('`', "'")
}

/// A name as code. Code cannot contain a backtick, and a `|` would end the table's cell.
fn code(name: &str) -> String {
    format!("`{}`", name.replace('`', "'").replace('|', "\\|"))
}
