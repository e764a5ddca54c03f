//! `allocanary fleet`: the reports of many nodes as one table. In: agents, and files. Out: a table, JSON, or a page.

use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use super::terminal;
use crate::args::{AgentTrust, FleetFlags};
use allocanary_node::client::{Token, Trust, fetch_all};
use allocanary_rows::error::{Error, Result};
use allocanary_rows::fleet::{Fleet, NodeReport};
use allocanary_screens::views::fleet;
use allocanary_sys::{input, private};

/// Prints the report. The exit code is 1 if a node did not answer: its replicas are then missing from all figures.
pub fn run(flags: &FleetFlags) -> Result<ExitCode> {
    let (mut reports, mut missing) = (Vec::new(), Vec::new());
    for answer in read_all(&flags.nodes, &flags.trust).map_err(Error::Input)? {
        match answer {
            Ok(report) => reports.push(report),
            Err(error) => missing.push(error),
        }
    }
    if let Some(first) = missing.first().filter(|_| reports.is_empty()) {
        return Err(Error::Input(first.clone()));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let old: Vec<String> = reports.iter().filter_map(|report| report.old(now)).collect();
    let mut fleet = Fleet::of(reports);
    fleet.problems.extend(old);
    fleet.problems.extend(missing.iter().map(|error| format!("left out: {error}")));
    let json = || serde_json::to_string(&fleet).map_err(|error| Error::Input(error.to_string()));
    if let Some(file) = &flags.to {
        let is_json = file.extension().is_some_and(|end| end == "json");
        let text = if is_json { json()? } else { fleet::page(&fleet, flags.price) };
        private::replace(file, text.as_bytes()).map_err(|error| Error::file(file, "writing the page", error))?;
        terminal::tell(format_args!("page: {}", file.display()));
    }
    let text = if flags.json { json()? + "\n" } else { fleet::table(&fleet, flags.price, &terminal::look()) };
    let printed = terminal::print(text.as_bytes())?;
    Ok(if missing.is_empty() { printed } else { ExitCode::from(1) })
}

/// The report of an agent or a file. The error names it.
pub(super) fn read(node: &str, trust: &AgentTrust) -> std::result::Result<NodeReport, String> {
    read_all(&[node.to_string()], trust)?.pop().expect("one answer for one node")
}

/// The reports of all nodes: first those of files, then those of agents.
fn read_all(
    nodes: &[String],
    trust: &AgentTrust,
) -> std::result::Result<Vec<std::result::Result<NodeReport, String>>, String> {
    let is_url = |node: &&String| node.starts_with("http://") || node.starts_with("https://");
    let (agents, files): (Vec<&String>, Vec<&String>) = nodes.iter().partition(is_url);
    let parsed = |node: &str, text: &str| NodeReport::parse(text).map_err(|error| format!("{node}: {error}"));
    let file = |node: &String| {
        let text = input::text(Path::new(node));
        text.map_err(|error| format!("{node}: {error}: wanted a URL or a file")).and_then(|text| parsed(node, &text))
    };
    let url = |node: &&String| format!("{}/report.json", node.trim_end_matches('/').trim_end_matches("/report.json"));
    let urls: Vec<String> = agents.iter().map(url).collect();
    let token = trust.token.clone().map(Token::File);
    let trust = Trust { authority: trust.authority.clone(), token, unverified: false };
    let answers = fetch_all(&urls, &trust)?.into_iter().zip(&urls);
    let answered = answers.map(|(answer, url)| answer.and_then(|bytes| parsed(url, &String::from_utf8_lossy(&bytes))));
    Ok(files.into_iter().map(file).chain(answered).collect())
}
