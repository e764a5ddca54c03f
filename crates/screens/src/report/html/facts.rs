//! When and where the rows were measured, and by which command, as far as the rows record this. In: findings. Out: a list.

use std::time::Duration;

use maud::{Markup, html};

use allocanary_measure::summary::Findings;
use allocanary_text::units::{Unit, show_time};

/// The list; empty if the rows record none of it.
pub fn list(findings: &Findings) -> Markup {
    let commands = few(findings.commands.iter().map(|command| html! { code { (command) } }).collect());
    let hosts = few(hosts(findings).into_iter().map(|host| html! { (host) }).collect());
    let dates = date(findings).into_iter().map(|date| html! { (date) }).collect();
    let rows = [("Date", dates), ("Host", hosts), ("Command", commands)];
    html! {
        @if rows.iter().any(|(_, values)| !values.is_empty()) {
            dl.facts {
                @for (label, values) in rows.iter().filter(|(_, values)| !values.is_empty()) {
                    dt { (label) }
                    @for value in values { dd { (value) } }
                }
            }
        }
    }
}

fn date(findings: &Findings) -> Option<String> {
    let time = |millis: u64| show_time(Duration::from_millis(millis));
    findings.started_ms.map(|(first, last)| match (time(first), time(last)) {
        (first, last) if first == last => format!("{first} UTC"),
        // If both are on the same day, the second date is left out.
        (first, last) if first[..10] == last[..10] => format!("{first} to {} UTC", &last[11..]),
        (first, last) => format!("{first} to {last} UTC"),
    })
}

fn hosts(findings: &Findings) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    for host in findings.provenance.iter().map(|provenance| &provenance.host) {
        let memory = Unit::Bytes.show(host.memory_bytes as f64);
        let text = format!("{}: {}, {} cores, {memory}, Linux {}", host.name, host.cpu, host.cores, host.kernel);
        if !hosts.contains(&text) {
            hosts.push(text);
        }
    }
    hosts
}

/// The first few texts, and how many more there are.
fn few(mut texts: Vec<Markup>) -> Vec<Markup> {
    const SHOWN: usize = 3;
    let more = texts.len().saturating_sub(SHOWN);
    texts.truncate(SHOWN);
    if more > 0 {
        texts.push(html! { "and " (more) " more" });
    }
    texts
}
