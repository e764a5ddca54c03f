//! Decides when the kubelet is asked for the names of pods. In: a clock, and the pods and containers without a name. Out: whether to ask
//! now. Nothing here sends a request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long the names of pods are used before they are asked for again.
const GOOD: Duration = Duration::from_secs(600);
/// The shortest time between two requests.
pub const AGAIN: Duration = Duration::from_secs(15);
/// A new pod or container without a name causes a request at once, at most this many times. The kubelet may know it a moment later than the
/// kernel. It never names the container that holds a pod's network.
const TRIES: u8 = 2;

/// The requests so far.
#[derive(Clone, Debug, Default)]
pub struct NameRequests {
    last: Option<Duration>,
    failures: u32,
    asked: BTreeMap<String, u8>,
}

impl NameRequests {
    /// Whether to ask now. `unnamed` are the pods and containers that have no name.
    pub fn is_due(&self, now: Duration, unnamed: &BTreeSet<String>) -> bool {
        let is_new = |id: &String| self.asked.get(id).is_none_or(|times| *times < TRIES);
        let is_old = self.last.is_none_or(|last| now.saturating_sub(last) >= GOOD);
        is_old || self.failures > 0 || unnamed.iter().any(is_new)
    }

    /// Notes an answer. Only the pods and containers that have no name after it are remembered.
    pub fn answered(&mut self, now: Duration, unnamed: &BTreeSet<String>) {
        let times = |id: &String| self.asked.get(id).copied().unwrap_or(0).saturating_add(1);
        self.asked = unnamed.iter().map(|id| (id.clone(), times(id))).collect();
        (self.last, self.failures) = (Some(now), 0);
    }

    /// Notes a request without an answer.
    pub fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// How long to wait before the next call of [`is_due`](Self::is_due).
    pub fn pause(&self) -> Duration {
        AGAIN * 2_u32.pow(self.failures.min(4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|id| id.to_string()).collect()
    }

    #[test]
    fn it_is_asked_at_once_only_for_what_is_new() {
        let mut asking = NameRequests::default();
        let mut now = AGAIN;
        assert!(asking.is_due(now, &ids(&[])), "the first time");
        for _ in 0..TRIES {
            asking.answered(now, &ids(&["pause"]));
            now += AGAIN;
        }
        assert!(!asking.is_due(now, &ids(&["pause"])), "the kubelet does not know it");
        assert!(asking.is_due(now, &ids(&["pause", "new"])), "a container was restarted");
        assert!(asking.is_due(now + GOOD, &ids(&[])), "names grow old");
        asking.answered(now, &ids(&[]));
        assert!(asking.asked.is_empty(), "what has a name is not kept");
    }

    #[test]
    fn one_that_is_away_is_asked_more_and_more_seldom() {
        let mut asking = NameRequests::default();
        asking.answered(AGAIN, &ids(&[]));
        let mut pauses = Vec::new();
        for _ in 0..6 {
            asking.failed();
            assert!(asking.is_due(AGAIN, &ids(&[])));
            pauses.push(asking.pause().as_secs());
        }
        assert_eq!(pauses, [30, 60, 120, 240, 240, 240]);
        asking.answered(AGAIN, &ids(&[]));
        assert_eq!(asking.pause(), AGAIN);
    }
}
