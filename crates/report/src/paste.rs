//! The lines to paste for the best candidate of the user's program. In: a section of findings. Out: texts for a
//! Dockerfile, Kubernetes, systemd and Rust; or why what there is should be kept.

use std::collections::BTreeMap;

use super::words;
use crate::lines::Lines;
use allocanary_allocators::paste;
use allocanary_cell::candidate::Candidate;
use allocanary_cell::spec::Spec;
use allocanary_study::summary::{Better, Metric, Panel, Section, Verdict};

/// The answer of a search; or the proposal for each panel of a section about a program: a heading, and lines.
pub fn proposals(section: &Section) -> Vec<(String, Vec<String>)> {
    if let Some(decided) = &section.about.decided {
        return vec![decided.clone()];
    }
    if !section.is_program() {
        return Vec::new();
    }
    let Some(metric) = section.about.metrics.iter().find(|metric| metric.better != Better::Neither) else {
        return Vec::new();
    };
    section.panels.iter().filter_map(|panel| proposal(section, panel, metric)).collect()
}

fn proposal(section: &Section, panel: &Panel, metric: &Metric) -> Option<(String, Vec<String>)> {
    let last = panel.columns.len().checked_sub(1)?;
    let first = panel.lines.first().filter(|_| panel.lines.len() > 1)?;
    let limits: Vec<String> =
        section.within.iter().map(|(name, share)| format!("{name}={}", percent(*share))).collect();
    let within = if limits.is_empty() { String::new() } else { format!(" within {}", limits.join(", ")) };
    // What no row has limits nothing, and what is not proposed would be so for another reason.
    let is_there = |name: &str| panel.lines[0].points[last].as_ref().is_some_and(|point| point.get(name).is_some());
    if let Some((name, _)) = section.within.iter().find(|(name, _)| !is_there(name)) {
        let text = format!("Nothing is proposed: the rows of {} have no {name}, which is limited.", first.name());
        return Some((text, Vec::new()));
    }
    let mut best: Option<(usize, f64)> = None;
    for line in 1..panel.lines.len() {
        let Some(compared) = panel.comparison(&metric.name, line, last) else { continue };
        let sound = is_within(section, panel, line, last) && !panel.fails_more(line, last);
        let better = compared.verdict == Verdict::Better && sound;
        let value = if metric.better == Better::Higher { -compared.new } else { compared.new };
        if better && best.is_none_or(|(_, least)| value < least) {
            best = Some((line, value));
        }
    }
    let Some((at, _)) = best else {
        let text = format!("Keep {}: no candidate is surely better in {}{within}.", first.name(), metric.name);
        return Some((text, Vec::new()));
    };
    let line = &panel.lines[at];
    let environment = &line.points[last].as_ref()?.environment;
    let change = panel.comparison(&metric.name, at, last).map_or(String::new(), |one| words::change(one.ratio()));
    let heading = format!("To run with {} ({} {change} against {}{within}):", line.name(), metric.name, first.name());
    Some((heading, lines(&line.candidate.spec, environment)))
}

/// Whether a candidate is surely not worse than the user allows, in each metric that the user limits.
fn is_within(section: &Section, panel: &Panel, line: usize, column: usize) -> bool {
    section.within.iter().all(|(name, share)| {
        let metric = section.about.metrics.iter().find(|metric| metric.name == *name);
        let compared = panel.comparison(name, line, column);
        let (Some(metric), Some(compared)) = (metric, compared) else { return false };
        matches!(compared.verdict, Verdict::Better)
            || compared.worsening(metric.better).is_some_and(|(_, most)| most <= *share)
    })
}

/// The lines for a candidate with these variables, for a shell, a Dockerfile, Kubernetes, systemd and Rust.
pub fn lines(candidate: &Spec, environment: &BTreeMap<String, String>) -> Vec<String> {
    let each = |text: fn(&str, &str) -> String| environment.iter().map(move |(name, value)| text(name, value));
    let mut out = Vec::new();
    if let Some(library) = environment.get("LD_PRELOAD") {
        let library = library.split(':').next().unwrap_or_default();
        out.push(format!("library     {library}, to be copied into the image or installed under that path"));
    }
    out.push(format!("shell       {}", each(paste::shell).collect::<Vec<_>>().join(" ")));
    out.extend(each(paste::dockerfile).map(|line| format!("Dockerfile  {line}")));
    out.extend(each(paste::kubernetes_line).map(|line| format!("Kubernetes  {line}")));
    out.extend(each(paste::systemd).map(|line| format!("systemd     {line}")));
    // A program that `install!` serves calls `thread_idle` itself: it is a setting of the preloads only.
    let mut settable = Candidate::from(candidate.clone());
    settable.spec.settings.remove("thread_idle");
    if let Some(install) = Lines::of(&settable).and_then(|lines| lines.install) {
        out.push(format!("Rust        {install}"));
    }
    out
}

fn percent(share: f64) -> String {
    format!("{}%", (share * 1e6).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_gets_every_variable() {
        let environment = BTreeMap::from([
            ("LD_PRELOAD".to_string(), "/opt/preload-jemalloc".to_string()),
            ("_RJEM_MALLOC_CONF".to_string(), "narenas:1,tcache:false".to_string()),
        ]);
        let lines = lines(&Spec::parse("jemalloc:narenas=1,tcache=false").unwrap(), &environment);
        assert_eq!(
            lines,
            [
                "library     /opt/preload-jemalloc, to be copied into the image or installed under that path",
                "shell       LD_PRELOAD=/opt/preload-jemalloc _RJEM_MALLOC_CONF=narenas:1,tcache:false",
                "Dockerfile  ENV LD_PRELOAD=/opt/preload-jemalloc",
                "Dockerfile  ENV _RJEM_MALLOC_CONF=narenas:1,tcache:false",
                "Kubernetes  - {name: LD_PRELOAD, value: \"/opt/preload-jemalloc\"}",
                "Kubernetes  - {name: _RJEM_MALLOC_CONF, value: \"narenas:1,tcache:false\"}",
                "systemd     Environment=\"LD_PRELOAD=/opt/preload-jemalloc\"",
                "systemd     Environment=\"_RJEM_MALLOC_CONF=narenas:1,tcache:false\"",
                "Rust        allocanary::install!(jemalloc, narenas = 1, tcache = false);",
            ]
        );
    }
}
