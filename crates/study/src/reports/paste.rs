//! The lines to paste for the best candidate of the user's program. In: a section of findings. Out: texts for a
//! Dockerfile, Kubernetes, systemd and Rust; or why what there is should be kept.

use std::collections::BTreeMap;

use super::words;
use crate::summary::{Better, Metric, Panel, Section, Verdict};
use allocanary_cell::spec::{PRELOAD, Spec};

/// The proposal for each panel of a section about a program: a heading, and lines.
pub fn proposals(section: &Section) -> Vec<(String, Vec<String>)> {
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
        section.about.within.iter().map(|(name, share)| format!("{name}={}", percent(*share))).collect();
    let within = if limits.is_empty() { String::new() } else { format!(" within {}", limits.join(", ")) };
    let mut best: Option<(usize, f64)> = None;
    for line in 1..panel.lines.len() {
        let Some(compared) = panel.comparison(metric.name, line, last) else { continue };
        let better = compared.verdict == Verdict::Better && is_within(section, panel, line, last);
        let value = if metric.better == Better::Higher { -compared.new } else { compared.new };
        if better && best.is_none_or(|(_, least)| value < least) {
            best = Some((line, value));
        }
    }
    let Some((at, _)) = best else {
        let text = format!("Keep {}: no candidate is surely better in {}{within}.", first.candidate, metric.name);
        return Some((text, Vec::new()));
    };
    let line = &panel.lines[at];
    let environment = &line.points[last].as_ref()?.environment;
    let change = panel.comparison(metric.name, at, last).map_or(String::new(), |one| words::change(one.ratio()));
    let heading =
        format!("To run with {} ({} {change} against {}{within}):", line.candidate, metric.name, first.candidate);
    Some((heading, lines(&line.candidate, environment)))
}

/// Whether a candidate is surely not worse than the user allows, in each metric that the user limits.
fn is_within(section: &Section, panel: &Panel, line: usize, column: usize) -> bool {
    section.about.within.iter().all(|(name, share)| {
        let metric = crate::summary::find_metric(name);
        let compared = panel.comparison(name, line, column);
        let (Some(metric), Some(compared)) = (metric, compared) else { return false };
        matches!(compared.verdict, Verdict::Better)
            || compared.worsening(metric.better).is_some_and(|(_, most)| most <= *share)
    })
}

/// The lines for a candidate with these variables.
fn lines(candidate: &str, environment: &BTreeMap<String, String>) -> Vec<String> {
    let pairs = |text: fn(&str, &str) -> String| -> Vec<String> {
        environment.iter().map(|(name, value)| text(name, value)).collect()
    };
    let mut out = Vec::new();
    if let Some(library) = environment.get("LD_PRELOAD") {
        let library = library.split(':').next().unwrap_or_default();
        out.push(format!("Library:     {library}, to be copied into the image or installed under that path"));
    }
    out.push(format!("Shell:       {}", pairs(|name, value| format!("{name}={}", shell(value))).join(" ")));
    out.push(format!("Dockerfile:  ENV {}", pairs(|name, value| format!("{name}=\"{value}\"")).join(" ")));
    let kubernetes = pairs(|name, value| format!("{{name: {name}, value: \"{value}\"}}"));
    out.push(format!("Kubernetes:  env: [{}]", kubernetes.join(", ")));
    out.push(format!("systemd:     {}", pairs(|name, value| format!("Environment=\"{name}={value}\"")).join(" ")));
    if let Ok(spec) = Spec::parse(candidate)
        && ["system", "jemalloc", "mimalloc"].contains(&spec.name.as_str())
        && !spec.name.starts_with(PRELOAD)
    {
        let value = |value: &str| match value.parse::<f64>().is_ok() || ["true", "false"].contains(&value) {
            true => value.to_string(),
            false => format!("\"{value}\""),
        };
        let settings = spec.settings.iter().filter(|(name, _)| *name != "thread_idle");
        let settings: String = settings.map(|(name, text)| format!(", {name} = {}", value(text))).collect();
        out.push(format!("Rust:        allocanary::install!({}{settings});", spec.name));
    }
    out
}

fn shell(value: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-+=.,:/@%".contains(c);
    if value.chars().all(plain) { value.to_string() } else { format!("'{value}'") }
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
        let lines = lines("jemalloc:narenas=1,tcache=false", &environment);
        assert_eq!(
            lines,
            [
                "Library:     /opt/preload-jemalloc, to be copied into the image or installed under that path",
                "Shell:       LD_PRELOAD=/opt/preload-jemalloc _RJEM_MALLOC_CONF=narenas:1,tcache:false",
                "Dockerfile:  ENV LD_PRELOAD=\"/opt/preload-jemalloc\" _RJEM_MALLOC_CONF=\"narenas:1,tcache:false\"",
                "Kubernetes:  env: [{name: LD_PRELOAD, value: \"/opt/preload-jemalloc\"}, \
                 {name: _RJEM_MALLOC_CONF, value: \"narenas:1,tcache:false\"}]",
                "systemd:     Environment=\"LD_PRELOAD=/opt/preload-jemalloc\" \
                 Environment=\"_RJEM_MALLOC_CONF=narenas:1,tcache:false\"",
                "Rust:        allocanary::install!(jemalloc, narenas = 1, tcache = false);",
            ]
        );
    }
}
