//! The main result: what to do, what it saves at what cost, and the lines that do it. Every verb with an answer makes it once, and
//! each output shows the same value: a terminal last, the others first. In: findings. Out: answers.

mod json;

use super::{paste, words};
use crate::draw::{Answer, Pasted};
use crate::report::lines::DeployLines;
use allocanary_measure::metrics::Better;
use allocanary_measure::summary::{
    Axis, COST_TOLERANCE, Decided, Findings, GroupComparison, LEAST_SAMPLES, MedianEstimate, Panel, Recommendation,
    RecommendedStep, StudySection, Verdict,
};

pub use json::compared;

/// The answers, in the study's order: that of a search if there is one, otherwise one for each panel.
pub fn answers(findings: &Findings) -> Vec<Answer> {
    let several = findings.sections.iter().map(|section| section.panels.len()).sum::<usize>() > 1;
    let mut all: Vec<Answer> = Vec::new();
    for section in &findings.sections {
        if let Some(decided) = &section.about.decided {
            if !all.iter().any(|known| known.text == decided.text) {
                all.push(of_search(decided));
            }
            continue;
        }
        for panel in &section.panels {
            let Some(found) = Recommendation::of(section, panel) else { continue };
            let Some(text) = sentence(section, panel, &found) else { continue };
            let text = if several { format!("{}: {text}", panel.title) } else { capital(&text) };
            all.push(Answer { text, pasted: of_panel(section, panel), facts: json::of_panel(section, panel, &found) });
        }
    }
    all
}

fn of_search(decided: &Decided) -> Answer {
    let lines = decided.lines.clone();
    let name = decided.chosen.as_ref().map_or(String::new(), |chosen| chosen.candidate.clone());
    let pasted = Pasted { heading: format!("To paste, for {name}"), name, lines, note: None };
    Answer {
        text: decided.text.clone(),
        pasted: Some(pasted).filter(|pasted| !pasted.lines.is_empty()),
        facts: json::of_search(decided),
    }
}

/// The answers in words, and remarks that apply to all panels.
pub fn sentences(findings: &Findings) -> Vec<String> {
    let open = findings.sections.iter().filter(|section| section.about.decided.is_none());
    answers(findings).into_iter().map(|answer| answer.text).chain(open.flat_map(words::remarks)).collect()
}

/// The lines for the recommended candidates, each candidate once. There are no lines for a program's first candidate, if it is kept, and
/// for an allocator that this build does not know.
pub fn pasted(findings: &Findings) -> Vec<Pasted> {
    let mut all: Vec<Pasted> = Vec::new();
    for one in answers(findings).into_iter().filter_map(|answer| answer.pasted) {
        if !one.lines.is_empty() && !all.iter().any(|known| known.name == one.name && known.lines == one.lines) {
            all.push(one);
        }
    }
    all
}

/// The lines of the candidate that is recommended for a panel, if it needs any.
fn of_panel(section: &StudySection, panel: &Panel) -> Option<Pasted> {
    let found = Recommendation::of(section, panel)?;
    let at = found.line()?;
    let line = &panel.lines[at];
    let name = line.name();
    if section.is_program() {
        // The program already has a candidate that is kept, so it needs no lines.
        let RecommendedStep::Take(at) = found.choice else { return None };
        let change = found.saving(panel, at).map_or(String::new(), |one| words::change(one.ratio()));
        let (metric, first) = (&found.metric.name, panel.lines[0].name());
        let heading = format!("To run with {name} ({metric} {change} against {first}{}):", within(section));
        let environment = &line.points[found.column].as_ref()?.environment;
        return Some(Pasted { name, heading, lines: paste::lines(&line.candidate.spec, environment), note: None });
    }
    if matches!(found.choice, RecommendedStep::Alone) {
        return None;
    }
    let lines = DeployLines::of(&line.candidate)?;
    if lines.is_plain() && lines.is_everywhere {
        return None; // every program has it
    }
    let labelled = lines.labelled().into_iter().map(|(label, line)| format!("{label:<12}{line}")).collect();
    Some(Pasted { heading: format!("To paste, for {name}"), name, lines: labelled, note: lines.note() })
}

/// `at 16 threads take system: it has the least resident, 30.2 MiB (better -40 % against jemalloc); its cost (none is surely more than
/// 10 % worse): throughput equal, p99 undecided.`, or `keep jemalloc: no candidate is clearly better in resident.`
fn sentence(section: &StudySection, panel: &Panel, found: &Recommendation) -> Option<String> {
    let (metric, first) = (&found.metric.name, panel.lines[0].name());
    let place = match panel.axis {
        Axis::Program => String::new(),
        axis => format!("at {} ", words::column(axis, panel.columns[found.column])),
    };
    let most = if found.metric.better == Better::Higher { "most" } else { "least" };
    let figure = |line: usize| words::median(&found.metric, found.estimate(panel, line));
    let few = few(panel, found);
    let mut text = match &found.choice {
        RecommendedStep::Unknown(name) => {
            format!("nothing is proposed: the rows of {first} have no {name}, which is limited")
        }
        // Without any figure there is no answer.
        RecommendedStep::NoFirst => {
            found.best?;
            let ran = panel.lines[0].points[found.column].as_ref().is_some_and(|point| point.n() > 0);
            let why = if ran { "" } else { ", since none of its runs succeeded" };
            format!("{place}nothing is proposed: {first} has no {metric} to compare with{why}")
        }
        RecommendedStep::Alone if place.is_empty() => format!("here {first} has {metric} {}", figure(found.best?)),
        RecommendedStep::Alone => format!("{place}{first} has {metric} {}", figure(found.best?)),
        // With fewer samples there is no verdict: the candidate is neither better nor equal.
        RecommendedStep::Keep if few.is_some() => {
            let best = found.best.filter(|best| *best > 0);
            let least = best.map_or(String::new(), |best| {
                format!("; the {most} has {}, {}", panel.lines[best].name(), figure(best))
            });
            format!("{place}undecided: {first} has {metric} {}{least}", figure(0))
        }
        RecommendedStep::Keep if found.best? == 0 && section.within.is_empty() => {
            format!("{place}keep {first}: it has the {most} {metric}, {}", figure(0))
        }
        RecommendedStep::Keep if found.dearer.is_some() => {
            let cost = found.dearer.map_or(Vec::new(), |line| found.cost(panel, line));
            let names: Vec<&str> = cost.into_iter().map(|(name, _)| name).collect();
            format!(
                "{place}keep {first}: no candidate is clearly better in {metric} and at most {} worse in {}",
                percent(COST_TOLERANCE),
                names.join(", ")
            )
        }
        RecommendedStep::Keep => {
            let mut text =
                format!("{place}keep {first}: no candidate is clearly better in {metric}{}", within(section));
            if let Some(best) = found.best.filter(|best| *best > 0) {
                let verdict = found.saving(panel, best).map_or(String::new(), |one| format!(", {}", brief(one)));
                let what = if section.within.is_empty() { "the" } else { "without the limits the" };
                text.push_str(&format!("; {what} {most} has {}, {}{verdict}", panel.lines[best].name(), figure(best)));
                let undecided = |one: &&GroupComparison| one.verdict == Verdict::Undecided && one.interval.is_some();
                if let Some(one) = found.saving(panel, best).filter(undecided) {
                    text.push_str(&format!("; {}", words::what_would_decide(one)));
                }
            }
            text
        }
        RecommendedStep::Take(line) => {
            let name = panel.lines[*line].name();
            let saving = found.saving(panel, *line).map_or(String::new(), sure);
            let the = if found.best == Some(*line) { format!("the {most} {metric}") } else { metric.to_string() };
            format!("{place}take {name}: it has {the}, {} ({saving} against {first}){}", figure(*line), within(section))
        }
    };
    if let RecommendedStep::Take(line) = found.choice {
        let cost = cost(panel, found, line);
        if !cost.is_empty() {
            let most = match section.within.is_empty() {
                true => format!(" (none is surely more than {} worse)", percent(COST_TOLERANCE)),
                false => String::new(),
            };
            text.push_str(&format!("; its cost{most}: {cost}"));
        }
    }
    let failing: Vec<String> = found.failing.iter().map(|at| panel.lines[*at].name()).collect();
    if !failing.is_empty() {
        text.push_str(&format!("; left out, because more runs failed than of {first}: {}", failing.join(", ")));
    }
    if let Some(few) = few {
        text.push_str(&format!("; n {} is too few to be sure", few.n));
    }
    text.push('.');
    if let Some(line) = found.dearer {
        let less = if found.metric.better == Better::Higher { "More" } else { "Less" };
        let saving = found.saving(panel, line).map_or(String::new(), sure);
        let (name, figure, cost) = (panel.lines[line].name(), figure(line), cost(panel, found, line));
        text.push_str(&format!(" {less}, at a higher cost: {name}, {figure} ({saving} against {first}): {cost}."));
    }
    Some(text)
}

/// The estimate of the recommended candidate, if it has too few samples for a verdict.
fn few<'a>(panel: &'a Panel, found: &Recommendation) -> Option<&'a MedianEstimate> {
    found.line().and_then(|line| found.estimate(panel, line)).filter(|one| one.n < LEAST_SAMPLES)
}

/// The text ` within wall=5%`. Empty without limits.
fn within(section: &StudySection) -> String {
    let percent = |share: f64| format!("{}%", (share * 1e6).round() / 1e4);
    let limits: Vec<String> =
        section.within.iter().map(|(name, share)| format!("{name}={}", percent(*share))).collect();
    if limits.is_empty() { String::new() } else { format!(" within {}", limits.join(", ")) }
}

/// `throughput equal, p99 worse 3.0x`.
fn cost(panel: &Panel, found: &Recommendation, line: usize) -> String {
    let all = found.cost(panel, line);
    all.iter().map(|(name, one)| format!("{name} {}", brief(one))).collect::<Vec<_>>().join(", ")
}

/// `10 %`.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `worse +52 %`, `equal`, `undecided`; and the spikes.
fn brief(compared: &GroupComparison) -> String {
    let verdict = match compared.verdict {
        verdict @ (Verdict::Equal | Verdict::Undecided) => verdict.text().into(),
        verdict => format!("{} {}", verdict.text(), words::change(compared.ratio())),
    };
    words::spikes(compared).map_or(verdict.clone(), |spikes| format!("{verdict} with {spikes}"))
}

/// `better -40 % [-41, -39]`.
fn sure(compared: &GroupComparison) -> String {
    format!("{} {}", compared.verdict.text(), words::with_interval(compared))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
