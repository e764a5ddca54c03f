//! The main result, at the end of a terminal's report: which candidate uses the least memory, at what price, and the
//! lines that configure a program so. In: findings. Out: sentences and lines.

use super::words;
use crate::lines::Lines;
use allocanary_study::summary::{
    Axis, Better, Comparison, Estimate, Findings, LEAST_SAMPLES, Line, Metric, PRICE, Panel, Section, Verdict,
    metric_of_all,
};

/// One or two sentences for each panel, in the study's order, and remarks that apply to all panels.
pub fn sentences(findings: &Findings) -> Vec<String> {
    let several = findings.sections.iter().map(|section| section.panels.len()).sum::<usize>() > 1;
    let mut all = Vec::new();
    for section in &findings.sections {
        if let Some((decided, _)) = &section.about.decided {
            // The report of a program has it already.
            if !section.is_program() && !all.contains(decided) {
                all.push(decided.clone());
            }
            continue;
        }
        for panel in &section.panels {
            let Some(answer) = of(panel, metric_of(section)) else { continue };
            all.push(if several { format!("{}, {answer}", panel.title) } else { capital(&answer) });
        }
        all.extend(words::remarks(section));
    }
    all
}

/// The metric that a section is about.
fn metric_of(section: &Section) -> &Metric {
    let named = section.about.metrics.iter().find(|metric| metric.better != Better::Neither);
    named.unwrap_or_else(|| metric_of_all("rss"))
}

/// The candidates to choose: of each panel the best one, if it is certainly better than the first candidate or is the
/// first itself. Each stands once, with its lines. Without lines: an allocator that this build does not know.
pub fn chosen(findings: &Findings) -> Vec<(String, Option<Lines>)> {
    let mut all: Vec<(String, Option<Lines>)> = Vec::new();
    // The reports of programs and of searches have lines of their own.
    let is_open = |section: &&Section| !section.is_program() && section.about.decided.is_none();
    for section in findings.sections.iter().filter(is_open) {
        let metric = metric_of(section);
        for panel in section.panels.iter().filter(|panel| panel.lines.len() > 1) {
            let Some((at, last, _)) = best(panel, metric) else { continue };
            let compared = panel.comparison(&metric.name, at, last);
            if at > 0 && !compared.is_some_and(|compared| compared.verdict == Verdict::Better) {
                continue;
            }
            let line = &panel.lines[at];
            if !all.iter().any(|(chosen, _)| *chosen == line.name()) {
                all.push((line.name(), Lines::of(&line.candidate)));
            }
        }
    }
    all
}

/// The best candidate of a panel at its largest column, but for those that fail more often than the first: its place, the
/// column's, and its estimate.
fn best<'a>(panel: &'a Panel, metric: &Metric) -> Option<(usize, usize, &'a Estimate)> {
    let last = panel.columns.len().checked_sub(1)?;
    let sound = panel.lines.iter().enumerate().filter(|(at, _)| !panel.fails_more(*at, last));
    let known = sound.filter_map(|(at, line)| Some((at, found(line, last, metric)?)));
    let more = metric.better == Better::Higher;
    let order = |a: f64, b: f64| if more { b.total_cmp(&a) } else { a.total_cmp(&b) };
    let (at, best) = known.min_by(|a, b| order(a.1.median, b.1.median))?;
    Some((at, last, best))
}

fn found<'a>(line: &'a Line, column: usize, metric: &Metric) -> Option<&'a Estimate> {
    line.points[column].as_ref()?.get(&metric.name)
}

/// `at 16 threads system has the least rss: 30.2 MiB, better -40 % than jemalloc; throughput equal, p99 undecided.`
fn of(panel: &Panel, metric: &Metric) -> Option<String> {
    let (at, last, best) = best(panel, metric)?;
    let figure = words::median(metric, Some(best));
    let name = &*metric.name;
    let candidate = panel.lines[at].name();
    let mut text = match panel.axis {
        Axis::Program => format!("here {candidate} has "),
        axis => format!("at {} {candidate} has ", words::column(axis, panel.columns[last])),
    };
    if panel.lines.iter().filter(|line| found(line, last, metric).is_some()).count() == 1 {
        text.push_str(&format!("{name} {figure}"));
    } else {
        let most = if metric.better == Better::Higher { "most" } else { "least" };
        text.push_str(&format!("the {most} {name}, {figure}"));
    }
    let first = panel.lines[0].name();
    match panel.comparison(name, at, last) {
        Some(compared) if at > 0 => {
            text.push_str(&format!(" ({} against {first})", brief(compared)));
            let price = PRICE.iter().filter(|price| **price != name);
            let price = price.filter_map(|price| Some((*price, panel.comparison(price, at, last)?)));
            let price: Vec<String> = price
                .filter(|(_, compared)| compared.n.0 > 0 && compared.n.1 > 0)
                .map(|(price, compared)| format!("{price} {}", brief(compared)))
                .collect();
            if !price.is_empty() {
                text.push_str(&format!("; its price: {}", price.join(", ")));
            }
        }
        _ => {}
    }
    let fails = (0..panel.lines.len()).filter(|at| panel.fails_more(*at, last));
    let fails: Vec<String> = fails.map(|at| panel.lines[at].name()).collect();
    if !fails.is_empty() {
        text.push_str(&format!("; left out, because more runs failed than of {first}: {}", fails.join(", ")));
    }
    if best.n < LEAST_SAMPLES {
        text.push_str(&format!("; n {} is too few to be sure", best.n));
    }
    text.push('.');
    Some(text)
}

/// `worse +52 %`, `equal`, `undecided`; and the spikes.
fn brief(compared: &Comparison) -> String {
    use allocanary_study::summary::Verdict::{Equal, Undecided};
    let verdict = match compared.verdict {
        verdict @ (Equal | Undecided) => verdict.text().into(),
        verdict => format!("{} {}", verdict.text(), words::change(compared.ratio())),
    };
    words::spikes(compared).map_or(verdict.clone(), |spikes| format!("{verdict} with {spikes}"))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
