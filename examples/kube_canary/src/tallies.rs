//! The canary's counters about itself. In: events of the prober and of discovery. Out: numbers for the metrics page. They show a loss that
//! the canary itself has caused.

use std::collections::BTreeMap;

use crate::histogram::{Bounds, Histogram};

/// A cache on the node answers within the first bound. Dead servers take 6 s, because they are asked again and by TCP too. That is within
/// the last bound.
const RESOLUTION_MS: [u64; 9] = [1, 5, 20, 100, 500, 1_000, 2_000, 5_000, 10_000];

/// The reason why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The packet is shorter than a probe, or has another form.
    Malformed,
    /// The packet belongs to another program, or to another canary's run.
    Foreign,
    /// The packet comes from an address that was not asked.
    WrongSource,
    /// This probe was not sent recently.
    UnknownProbe,
    /// There are more echo requests than this canary answers.
    Flood,
}

impl Refused {
    /// All of them, in the order of their numbers.
    pub const ALL: [Refused; 5] =
        [Refused::Malformed, Refused::Foreign, Refused::WrongSource, Refused::UnknownProbe, Refused::Flood];

    /// The value of the label `reason`.
    pub const fn name(self) -> &'static str {
        match self {
            Refused::Malformed => "malformed",
            Refused::Foreign => "foreign",
            Refused::WrongSource => "wrong_source",
            Refused::UnknownProbe => "unknown_probe",
            Refused::Flood => "flood",
        }
    }
}

/// How a check of a target ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It answered.
    Ok,
    /// Its name could not be resolved.
    Dns,
    /// There was no connection.
    Connect,
    /// The certificate is not accepted, or there is no TLS.
    Tls,
    /// The answer is not HTTP, or has a status of 500 or more.
    Http,
    /// There was no answer in time.
    Timeout,
}

impl Outcome {
    /// All of them, in the order of their numbers.
    pub const ALL: [Outcome; 6] =
        [Outcome::Ok, Outcome::Dns, Outcome::Connect, Outcome::Tls, Outcome::Http, Outcome::Timeout];

    /// The value of the label `outcome`.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Dns => "dns",
            Outcome::Connect => "connect",
            Outcome::Tls => "tls",
            Outcome::Http => "http",
            Outcome::Timeout => "timeout",
        }
    }
}

/// The counters of a target outside of the mesh.
#[derive(Clone, Debug)]
pub struct TargetTally {
    /// What it is called.
    pub name: Box<str>,
    /// The number of checks by their outcome.
    pub outcomes: [u64; Outcome::ALL.len()],
    /// Times of answered checks, from the look-up of the name to the answer.
    pub times: Histogram,
    /// Whether the last check was answered. `None` before the first one.
    pub up: Option<bool>,
    /// The error of the last check, if it failed.
    pub problem: Option<String>,
}

impl TargetTally {
    /// Not checked yet.
    pub fn new(name: &str) -> Self {
        let times = Histogram::new(&Bounds::of_nanos(RESOLUTION_MS.map(|bound| bound * 1_000_000)));
        TargetTally { name: name.into(), outcomes: Default::default(), times, up: None, problem: None }
    }

    /// Adds a check.
    pub fn take(&mut self, outcome: Result<(), (Outcome, String)>, nanos: u64) {
        self.up = Some(outcome.is_ok());
        match outcome {
            Ok(()) => {
                self.outcomes[Outcome::Ok as usize] += 1;
                self.times.record(nanos);
                self.problem = None;
            }
            Err((why, problem)) => {
                self.outcomes[why as usize] += 1;
                self.problem = Some(problem);
            }
        }
    }
}

/// The counters of a source of peers.
#[derive(Clone, Debug, Default)]
pub struct SourceTally {
    /// Refreshes that gave peers.
    pub succeeded: u64,
    /// Refreshes that failed; the peers of the last good one are kept.
    pub failed: u64,
    /// Seconds since 1970 of the last good refresh.
    pub last_success: Option<u64>,
    /// The error of the last refresh, if it failed.
    pub problem: Option<String>,
}

/// The canary's own counters.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    /// Packets that were dropped, by reason.
    pub refused: [u64; Refused::ALL.len()],
    /// Echo requests of other canaries that were answered.
    pub echoed: u64,
    /// Packets that the kernel dropped because a socket of ours was full. This canary caused that loss.
    pub socket_drops: u64,
    /// TCP and HTTP probes that were not started because too many were in progress. They count as neither sent nor
    /// lost.
    pub probes_skipped: u64,
    /// Noticed steps of the wall clock. Round-trip times across a step are taken from the steady clock.
    pub clock_steps: u64,
    /// Connections to the web server that were refused because too many were open.
    pub connections_refused: u64,
    /// Pages that were refused because slow readers held the room for them.
    pub pages_refused: u64,
    /// Metrics pages without the series of peers, because these would never fit in the budget.
    pub pages_without_peers: u64,
    /// Answers to ICMP and UDP probes without the kernel's receive time, including late and duplicate ones. Their measured
    /// round trips may be up to twice the real ones plus 250 us.
    pub unstamped: u64,
    /// How long name servers took to answer or fail, by the kind of record.
    pub resolutions: BTreeMap<&'static str, Histogram>,
    /// Targets outside of the mesh, in the order of the flags.
    pub targets: Vec<TargetTally>,
    /// By name of the source: `dns`, `file`, `flags`, `hosts`, `kubernetes`.
    pub sources: BTreeMap<&'static str, SourceTally>,
}

impl Tallies {
    /// Adds the histogram for records of this kind, with counts of 0, before the first query.
    pub fn resolves(&mut self, kind: &'static str) -> &mut Histogram {
        let empty = || Histogram::new(&Bounds::of_nanos(RESOLUTION_MS.map(|bound| bound * 1_000_000)));
        self.resolutions.entry(kind).or_insert_with(empty)
    }

    /// Records the time of a name server's answer for records of one kind.
    pub fn resolved(&mut self, kind: &'static str, nanos: u64) {
        self.resolves(kind).record(nanos);
    }

    /// Counts a packet that was dropped.
    pub fn refuse(&mut self, why: Refused) {
        self.refused[why as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_name_server_is_within_the_last_bound() {
        let mut tallies = Tallies::default();
        tallies.resolved("A", 6_010_000_000);
        let counts = tallies.resolutions["A"].counts();
        assert_eq!(counts.last(), Some(&0), "beyond all bounds: {counts:?}");
    }
}
