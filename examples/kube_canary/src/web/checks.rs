//! The canary's own problems, in words. In: its sources of peers and its own counters. Out: lines for the page, `/peers` and
//! `/readyz`. Loss that the canary itself caused, and an outdated list of peers, must not look like faults of the network.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::mesh::Mesh;
use crate::protocol::Loss;
use crate::tallies::Tallies;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// Whether there is no problem.
    pub(super) ok: bool,
    /// The checked part, and its problem.
    pub(super) says: String,
}

/// All checks: one for each source of peers, one for each target that was checked, and one for each of the canary's own
/// trouble counters that is not 0.
pub(super) fn checks(mesh: &Mesh) -> Vec<Check> {
    let mut checks = sources(&mesh.tallies);
    let send_errors: u64 =
        mesh.entries().flat_map(|(_, entry)| entry.books.iter().flatten()).map(|book| book.lost_for(Loss::Send)).sum();
    let tallies = &mesh.tallies;
    checks.extend(tallies.targets.iter().filter_map(|target| {
        let says = match &target.problem {
            Some(problem) => format!("{} does not answer: {problem}", target.name),
            None => format!("{} answers", target.name),
        };
        target.up.map(|ok| Check { ok, says })
    }));
    let of_itself = [
        (tallies.socket_drops, "packets were dropped at this canary's own socket: its loss is too high"),
        (send_errors, "probes could not be sent: no route, no descriptor, or a firewall of this node"),
        (tallies.probes_skipped, "probes were not begun: too many wait for peers that do not answer"),
        (tallies.unstamped, "answers came without the kernel's time: round trips look longer than they are"),
        (tallies.pages_without_peers, "pages of metrics had no room for the peers: set --peers-max"),
        (tallies.clock_steps, "steps of this node's clock"),
    ];
    for (count, what) in of_itself.into_iter().filter(|(count, _)| *count > 0) {
        checks.push(Check { ok: false, says: format!("{count} {what} (since the start)") });
    }
    if checks.iter().all(|check| check.ok) {
        checks.push(Check { ok: true, says: "self-checks: no packet dropped, none unsent, none skipped".into() });
    }
    checks
}

/// Each source of peers, with its error.
pub(super) fn sources(tallies: &Tallies) -> Vec<Check> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let line = |(name, tally): (&&str, &crate::tallies::SourceTally)| match (&tally.problem, tally.last_success) {
        (None, _) => Check { ok: true, says: format!("peers from {name}") },
        (Some(problem), Some(at)) => {
            let age = span(now.saturating_sub(at));
            Check { ok: false, says: format!("peers from {name} are those of {age} ago: {problem}") }
        }
        (Some(problem), None) => Check { ok: false, says: format!("no peers from {name} yet: {problem}") },
    };
    tallies.sources.iter().map(line).collect()
}

fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Bounds;
    use crate::peer::Peer;
    use crate::protocol::Protocol;

    fn says(mesh: &Mesh) -> Vec<(bool, String)> {
        checks(mesh).into_iter().map(|check| (check.ok, check.says)).collect()
    }

    #[test]
    fn a_dead_name_server_and_lost_packets_of_its_own_are_said() {
        let mut mesh = Mesh::new(Bounds::default(), 0, 9, "a");
        mesh.update("dns", vec![Peer::at([10, 0, 0, 1].into())], 0);
        mesh.tallies.sources.entry("dns").or_default().succeeded = 1;
        let well = (true, "self-checks: no packet dropped, none unsent, none skipped".to_string());
        assert_eq!(says(&mesh), [(true, "peers from dns".into()), well]);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let source = mesh.tallies.sources.entry("dns").or_default();
        (source.problem, source.last_success) = (Some("request timed out".into()), Some(now - 300));
        assert_eq!(says(&mesh), [(false, "peers from dns are those of 5 min ago: request timed out".into())]);
        mesh.tallies.sources.entry("dns").or_default().last_success = None;
        mesh.tallies.socket_drops = 3;
        let (id, _) = mesh.at([10, 0, 0, 1].into()).unwrap();
        let book = mesh.book(id, Protocol::Icmp).unwrap();
        let sequence = book.send(0);
        book.lost(sequence, Loss::Send);
        let said = says(&mesh);
        assert_eq!(said[0], (false, "no peers from dns yet: request timed out".into()));
        assert!(said[1].1.starts_with("3 packets were dropped") && said[2].1.starts_with("1 probes"), "{said:?}");
    }
}
