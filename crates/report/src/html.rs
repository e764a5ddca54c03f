//! `html`: one page with pictures and every figure, which opens offline. In: findings. Out: HTML that fetches nothing.

mod panel;
mod study;
mod tables;

use std::time::Duration;

use super::markup::{escaped, prose};
use super::{answer, figures, pictures::palette, words};
use crate::format::ReportFormat;
use allocanary_kernel::terminal::Look;
use allocanary_kernel::units::{Unit, show_time};
use allocanary_study::summary::{Findings, Panel, Section};

/// The report.
pub const REPORT: ReportFormat =
    ReportFormat { name: "html", about: "one page with pictures that opens offline", render };

pub const STYLE: &str = include_str!("html/style.css");

/// What the reader must know about every figure.
const METHOD: &str = "Each figure is the median over fresh processes that ran in shuffled order, and the brackets \
                      hold the 95 % interval of that median.";

fn render(findings: &Findings, _look: &Look) -> String {
    let question = match findings.sections.as_slice() {
        [one] if !one.about.question.trim().is_empty() => one.about.question.trim(),
        [_, _, ..] => "What memory management costs, case by case",
        _ => "What memory allocators cost",
    };
    let title = match findings.sections.as_slice() {
        [Section { name: Some(name), .. }] => format!("{}: {}", escaped(name), escaped(question)),
        _ => escaped(question),
    };
    let question = escaped(question);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title} - allocanary</title>\n<style>\n{}{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<p class=\"brand\">allocanary</p>\n<h1>{question}</h1>\n{}<p>{}</p>\n{}{}</header>\n\
         <main>\n{}{}</main>\n<footer>\n{}</footer>\n</body>\n</html>\n",
        palette::css(),
        facts(findings),
        prose(METHOD),
        answer(findings),
        contents(findings),
        troubles(findings),
        sections(findings),
        foot(findings),
    )
}

/// When, where and by which command the rows were measured, as far as they say so.
fn facts(findings: &Findings) -> String {
    let time = |millis: u64| show_time(Duration::from_millis(millis));
    let date = findings.started_ms.map(|(first, last)| match (time(first), time(last)) {
        (first, last) if first == last => format!("{first} UTC"),
        // On one day the second date says nothing.
        (first, last) if first[..10] == last[..10] => format!("{first} to {} UTC", &last[11..]),
        (first, last) => format!("{first} to {last} UTC"),
    });
    let mut hosts: Vec<String> = Vec::new();
    for host in findings.provenance.iter().map(|provenance| &provenance.host) {
        let memory = Unit::Bytes.show(host.memory_bytes as f64);
        let text = format!("{}: {}, {} cores, {memory}, Linux {}", host.name, host.cpu, host.cores, host.kernel);
        if !hosts.contains(&text) {
            hosts.push(text);
        }
    }
    let commands = findings.commands.iter().map(|command| format!("<code>{}</code>", escaped(command)));
    let hosts = hosts.iter().map(|host| escaped(host));
    let rows: [(&str, Vec<String>); 3] = [
        ("Date", date.into_iter().map(|date| escaped(&date)).collect()),
        ("Host", few(hosts.collect())),
        ("Command", few(commands.collect())),
    ];
    let row = |(label, values): &(&str, Vec<String>)| {
        let values: String = values.iter().map(|value| format!("<dd>{value}</dd>")).collect();
        format!("<dt>{label}</dt>{values}\n")
    };
    let rows: String = rows.iter().filter(|(_, values)| !values.is_empty()).map(row).collect();
    if rows.is_empty() { rows } else { format!("<dl class=\"facts\">\n{rows}</dl>\n") }
}

/// The first of some texts; the rest is counted.
fn few(mut texts: Vec<String>) -> Vec<String> {
    const SHOWN: usize = 3;
    let more = texts.len().saturating_sub(SHOWN);
    texts.truncate(SHOWN);
    if more > 0 {
        texts.push(format!("and {more} more"));
    }
    texts
}

/// Links to the panels if there are several, grouped by study if there are several studies.
fn contents(findings: &Findings) -> String {
    if panels(findings).count() < 2 {
        return String::new();
    }
    let link = |at: usize, panel: &Panel| format!("<li><a href=\"#panel-{at}\">{}</a></li>\n", panel::title(panel));
    let mut links = String::new();
    let mut last = None;
    for (at, (study, section, panel)) in panels(findings).enumerate() {
        if findings.sections.len() > 1 && last != Some(study) {
            let heading = escaped(&figures::heading(section));
            links.push_str(&format!("<li><a href=\"#study-{study}\"><b>{heading}</b></a></li>\n"));
        }
        last = Some(study);
        links.push_str(&link(at, panel));
    }
    format!("<nav aria-label=\"Contents\">\n<ul>\n{links}</ul>\n</nav>\n")
}

/// Every panel with its section and that section's number.
fn panels(findings: &Findings) -> impl Iterator<Item = (usize, &Section, &Panel)> {
    let sections = findings.sections.iter().enumerate();
    sections.flat_map(|(at, section)| section.panels.iter().map(move |panel| (at, section, panel)))
}

/// Failures come first, because the figures below do not include them. A long list is folded, so that it does not hide
/// the result.
fn troubles(findings: &Findings) -> String {
    const IN_SIGHT: usize = 8;
    let items: Vec<String> =
        words::troubles(findings).iter().map(|trouble| format!("<li>{}</li>\n", escaped(trouble))).collect();
    let (seen, folded) = items.split_at(items.len().min(IN_SIGHT));
    if seen.is_empty() {
        return String::new();
    }
    let folded = match folded.len() {
        0 => String::new(),
        more => format!("<details>\n<summary>{more} more</summary>\n<ul>\n{}</ul>\n</details>\n", folded.concat()),
    };
    let seen = seen.concat();
    format!("<section class=\"troubles\">\n<h2>What went wrong</h2>\n<ul>\n{seen}</ul>\n{folded}</section>\n")
}

/// Each study's panels, after the study's own head if it has one.
fn sections(findings: &Findings) -> String {
    if panels(findings).next().is_none() {
        return "<p>There are no figures to show.</p>\n".into();
    }
    let mut out = String::new();
    let mut last = None;
    for (at, (study, section, panel)) in panels(findings).enumerate() {
        if last != Some(study) {
            out.push_str(&study::head(study, section, findings.sections.len() > 1));
        }
        last = Some(study);
        out.push_str(&panel::section(at, panel, &findings.metrics));
    }
    out
}

/// The answer, and the lines that configure a program so: before anything else.
fn answer(findings: &Findings) -> String {
    let sentences: String =
        answer::sentences(findings).iter().map(|text| format!("<p class=\"answer\">{}</p>\n", prose(text))).collect();
    let lines = |pasted: answer::Pasted| {
        let note = pasted.note.map_or(String::new(), |note| format!("<p class=\"note\">{}</p>\n", prose(&note)));
        format!("<h3>{}</h3>\n<pre>{}</pre>\n{note}", prose(&pasted.heading), escaped(&pasted.lines.join("\n")))
    };
    let lines: String = answer::pasted(findings).into_iter().map(lines).collect();
    if sentences.is_empty() {
        sentences
    } else {
        format!("<section id=\"answer\">\n<h2>Answer</h2>\n{sentences}{lines}</section>\n")
    }
}

fn foot(findings: &Findings) -> String {
    let hosts: String =
        words::provenance(findings).iter().map(|line| format!("<li>{}</li>\n", escaped(line))).collect();
    let hosts = if hosts.is_empty() { hosts } else { format!("<ul>\n{hosts}</ul>\n") };
    format!("<h2>Where the figures come from</h2>\n<p>{} rows.</p>\n{hosts}", findings.rows)
}

#[cfg(test)]
mod tests;
