//! What the API server has said of tokens. In: verdicts. Out: the same verdict for a short time, so that not each scrape asks it again.
//! Nothing here asks.

use std::collections::BTreeMap;
use std::time::Duration;

use ring::digest::{SHA256, digest};

/// How long a verdict is good: the times of kube-rbac-proxy. Whoever loses a right is answered for so long.
const ALLOWED: Duration = Duration::from_secs(120);
const REFUSED: Duration = Duration::from_secs(30);
/// The most verdicts that are kept.
const MOST: usize = 256;

/// Whether the owner of a token may have a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They may.
    Allowed,
    /// The API server does not know the token.
    Unknown,
    /// They may not. Their name, by which their right can be looked for.
    Refused(String),
}

/// A token and a path. Tokens themselves are not kept: whoever reads the agent's memory finds none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked([u8; 32]);

impl Asked {
    /// This token for this path.
    pub fn new(token: &str, path: &str) -> Asked {
        // No token has a line's end in it.
        let sum = digest(&SHA256, format!("{token}\n{path}").as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(sum.as_ref());
        Asked(bytes)
    }
}

/// The verdicts that are still good.
#[derive(Debug, Default)]
pub struct Verdicts(BTreeMap<Asked, (Duration, Verdict)>);

impl Verdicts {
    /// The verdict, if it is still good.
    pub fn get(&self, asked: &Asked, now: Duration) -> Option<Verdict> {
        self.0.get(asked).filter(|(until, _)| now < *until).map(|(_, verdict)| verdict.clone())
    }

    /// Keeps one. If there are too many, the one goes that would be good for the shortest time: a crowd of unknown tokens replaces its own.
    pub fn put(&mut self, asked: Asked, now: Duration, verdict: Verdict) {
        let good = if verdict == Verdict::Allowed { ALLOWED } else { REFUSED };
        self.0.retain(|_, (until, _)| now < *until);
        if self.0.len() >= MOST
            && let Some(first) = self.0.iter().min_by_key(|(_, (until, _))| *until).map(|(asked, _)| *asked)
        {
            self.0.remove(&first);
        }
        self.0.insert(asked, (now + good, verdict));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_verdict_is_good_for_a_short_time_and_for_its_path_alone() {
        let mut verdicts = Verdicts::default();
        let (asked, other) = (Asked::new("token", "/metrics"), Asked::new("token", "/report"));
        verdicts.put(asked, SECOND, Verdict::Allowed);
        assert_eq!(verdicts.get(&asked, ALLOWED), Some(Verdict::Allowed));
        assert_eq!(verdicts.get(&asked, SECOND + ALLOWED), None);
        assert_eq!(verdicts.get(&other, SECOND), None);
        verdicts.put(other, SECOND, Verdict::Refused("u".into()));
        assert_eq!(verdicts.get(&other, REFUSED), Some(Verdict::Refused("u".into())));
        assert_eq!(verdicts.get(&other, SECOND + REFUSED), None);
    }

    #[test]
    fn a_crowd_of_unknown_tokens_replaces_its_own_and_not_those_that_may() {
        let mut verdicts = Verdicts::default();
        let may = Asked::new("token", "/metrics");
        verdicts.put(may, Duration::ZERO, Verdict::Allowed);
        for number in 0..MOST * 4 {
            verdicts.put(Asked::new(&number.to_string(), "/metrics"), SECOND, Verdict::Unknown);
            assert!(verdicts.0.len() <= MOST);
        }
        assert_eq!(verdicts.get(&may, SECOND), Some(Verdict::Allowed));
        assert_eq!(verdicts.0.len(), MOST);
    }
}
