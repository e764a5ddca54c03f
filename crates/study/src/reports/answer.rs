//! The main result, at the end of a terminal's report: which candidate uses the least memory, and at what price.
//! In: findings. Out: sentences.

use super::words;
use crate::summary::{
    Axis, Better, Comparison, Findings, LEAST_SAMPLES, Line, METRICS, Metric, PRICE, Panel, metric_index,
};

/// One or two sentences for each panel, in the study's order, and remarks that apply to all panels.
pub fn sentences(findings: &Findings) -> Vec<String> {
    let several = findings.sections.iter().map(|section| section.panels.len()).sum::<usize>() > 1;
    let mut all = Vec::new();
    for section in &findings.sections {
        let named = section.about.metrics.iter().find(|metric| metric.better != Better::Neither);
        let metric: &Metric = named.copied().unwrap_or(&METRICS[metric_index("rss")]);
        for panel in &section.panels {
            let Some(answer) = of(panel, metric) else { continue };
            all.push(if several { format!("{}, {answer}", panel.title) } else { capital(&answer) });
        }
        all.extend(words::unfinished(section));
    }
    all
}

/// `at 16 threads system has the least rss: 30.2 MiB, better -40 % than jemalloc; throughput equal, p99 undecided.`
fn of(panel: &Panel, metric: &Metric) -> Option<String> {
    let last = panel.columns.len().checked_sub(1)?;
    let found = |line: &Line| line.points[last].as_ref()?.get(metric.name).copied();
    let known = panel.lines.iter().enumerate().filter_map(|(at, line)| Some((at, line, found(line)?)));
    let more = metric.better == Better::Higher;
    let order = |a: f64, b: f64| if more { b.total_cmp(&a) } else { a.total_cmp(&b) };
    let (at, line, best) = known.clone().min_by(|a, b| order(a.2.median, b.2.median))?;
    let figure = words::median(metric.name, Some(&best));
    let name = metric.name;
    let mut text = match panel.axis {
        Axis::Program => format!("here {} has ", line.candidate),
        axis => format!("at {} {} has ", words::column(axis, panel.columns[last]), line.candidate),
    };
    if known.count() == 1 {
        text.push_str(&format!("{name} {figure}"));
    } else {
        text.push_str(&format!("the {} {name}, {figure}", if more { "most" } else { "least" }));
    }
    let first = &panel.lines[0].candidate;
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
    if best.n < LEAST_SAMPLES {
        text.push_str(&format!("; n {} is too few to be sure", best.n));
    }
    text.push('.');
    Some(text)
}

/// `worse +52 %`, `equal`, `undecided`.
fn brief(compared: &Comparison) -> String {
    use crate::summary::Verdict::{Equal, Undecided};
    match compared.verdict {
        verdict @ (Equal | Undecided) => verdict.text().into(),
        verdict => format!("{} {}", verdict.text(), words::change(compared.ratio())),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
