//! The type of a remedy, and its texts: sentences, and lines to paste.

use std::cmp::Reverse;

use allocanary_facts::paste;
use allocanary_text::units::OneDecimal;
use serde::{Deserialize, Serialize};

use crate::call_check::CallCheck;

/// A remedy: something that a person can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    /// A name for scripts: `give-back`, `arena_max`.
    pub id: String,
    /// What to do: `give free pages back`.
    pub what: String,
    /// Who can do it, and when.
    pub who: Who,
    /// What it gives.
    pub gives: Gives,
    /// The reasons, and the facts behind them, in sentences.
    pub evidence: String,
    /// Its cost; empty if nothing is known.
    pub cost: String,
    /// The lines to paste. Those for the first place come first.
    pub lines: Vec<PasteLine>,
    /// For a call in the process: whether it can be made.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CallCheck>,
}

/// A line to paste.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasteLine {
    /// The place for it: `shell`, `environment`, `Dockerfile`.
    pub place: String,
    /// The line.
    pub text: String,
}

/// Who can do something, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// The person who runs the process, now.
    OperatorNow,
    /// The person who runs the process, at its next start.
    OperatorRestart,
    /// The person who writes the program.
    Developer,
}

/// What a remedy gives: resident bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "bound", rename_all = "snake_case")]
pub enum Gives {
    /// Exactly this many: the pages that the allocator would give back were counted.
    Exact {
        /// Bytes.
        #[serde(rename = "reclaimable_bytes")]
        bytes: u64,
    },
    /// At most this many, and perhaps none.
    #[serde(rename = "at_most")]
    Bound {
        /// Bytes.
        #[serde(rename = "reclaimable_bytes")]
        bytes: u64,
    },
    /// The gain is not known. A text says how to find it out.
    Unknown {
        /// How to find it out, without a period.
        find_out: String,
    },
}

impl Gives {
    /// The gain in bytes, if it is known or has a bound.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Gives::Exact { bytes } | Gives::Bound { bytes } => Some(*bytes),
            Gives::Unknown { .. } => None,
        }
    }

    /// `676.6 MiB`, `up to 676.6 MiB`, `gain not known`.
    pub fn text(&self) -> String {
        match self {
            Gives::Exact { bytes } => OneDecimal(*bytes).to_string(),
            Gives::Bound { bytes } => format!("up to {}", OneDecimal(*bytes)),
            Gives::Unknown { .. } => "gain not known".into(),
        }
    }
}

impl Who {
    /// The time at which it is done, as the beginning of a sentence.
    pub fn text(self) -> &'static str {
        match self {
            Who::OperatorNow => "Now",
            Who::OperatorRestart => "From the next start",
            Who::Developer => "In the program",
        }
    }
}

/// An exact gain is small if it is less than one part in this many of another one.
const SMALL: u64 = 4;

impl Remedy {
    /// Its rank among others: exact gains first, then larger ones, and last those that cannot be done. An exact gain that is small next to
    /// the possible gain of another remedy for now has the same rank as that one.
    pub fn rank(&self, others: &[Remedy]) -> (u8, Reverse<u64>) {
        let now = others.iter().filter(|one| one.who == Who::OperatorNow && one.refused().is_none());
        let most = now.filter_map(|one| one.gives.bytes()).max().unwrap_or(0);
        let kind = match (&self.check, &self.gives) {
            (Some(CallCheck::Refused(_)), _) => 3,
            (_, Gives::Exact { bytes }) if bytes.saturating_mul(SMALL) < most => 1,
            (_, Gives::Exact { .. }) => 0,
            (_, Gives::Bound { .. }) => 1,
            (_, Gives::Unknown { .. }) => 2,
        };
        (kind, Reverse(self.gives.bytes().unwrap_or(0)))
    }

    /// Why it cannot be done.
    pub fn refused(&self) -> Option<&str> {
        match &self.check {
            Some(CallCheck::Refused(why)) => Some(why),
            _ => None,
        }
    }

    /// When to do it. `Not tried` if it is not certain that it can be done.
    pub fn when(&self) -> &'static str {
        match self.check {
            Some(CallCheck::Refused(_)) => "Not possible",
            Some(CallCheck::NotTried(_)) => "Not tried",
            _ => self.who.text(),
        }
    }

    /// `Now, 676.6 MiB: have glibc give its free pages back`.
    pub fn title(&self) -> String {
        format!("{}, {}: {}", self.when(), self.gives.text(), self.what)
    }

    /// The sentences below the title: evidence, how to find out, cost.
    pub fn details(&self) -> String {
        let mut text = match &self.check {
            Some(CallCheck::Refused(why)) => return format!("{}.", in_front(why)),
            Some(CallCheck::NotTried(why)) if !why.is_empty() => format!("{} Not tried: {why}.", self.evidence),
            _ => self.evidence.clone(),
        };
        if let Gives::Unknown { find_out } = &self.gives {
            text.push_str(&format!(" To find out: {find_out}."));
        }
        if !self.cost.is_empty() {
            text.push_str(&format!(" Cost: {}.", self.cost));
        }
        text
    }

    /// The lines for the place of the first line.
    pub fn first_lines(&self) -> impl Iterator<Item = &str> {
        let first = self.lines.first().map(|line| line.place.as_str());
        self.lines.iter().filter(move |line| Some(line.place.as_str()) == first).map(|line| line.text.as_str())
    }
}

/// A part of a sentence as its begin.
fn in_front(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

impl PasteLine {
    /// A line for a place.
    pub fn new(place: &str, text: impl Into<String>) -> PasteLine {
        PasteLine { place: place.into(), text: text.into() }
    }
}

/// A variable, as lines for every place that takes one.
pub(crate) fn variable(name: &str, value: &str) -> Vec<PasteLine> {
    let mut all = vec![PasteLine::new("environment", paste::shell(name, value))];
    all.push(PasteLine::new("Dockerfile", paste::dockerfile(name, value)));
    all.extend(paste::kubernetes(name, value).map(|text| PasteLine::new("Kubernetes", text)));
    all.push(PasteLine::new("systemd", paste::systemd(name, value)));
    all
}
