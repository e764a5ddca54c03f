//! What to do about a process's memory, and what each step would give. In: a reading, and what the process shows. Out: remedies; the
//! first one is that which certainly gives the most. `heap`, `doctor`, `give-back` and `allocanary PROCESS` show them with the same
//! words.

mod call;
mod conclusion;
mod study;

use allocanary_allocators::paste;
use allocanary_heap::{Heap, Reading, Sure};
use allocanary_text::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::allocators::{Case, part};
use crate::process::Process;
use crate::runtimes;
use crate::advice::Advice;
use crate::flavour::Flavour;

pub use conclusion::conclusion;

/// A remedy: something that a person can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    /// A name for scripts: `give-back`, `arena_max`.
    pub id: String,
    /// What to do: `give whole free pages back`.
    pub what: String,
    /// Who can do it, and when.
    pub who: Who,
    /// What it gives.
    pub gives: Gives,
    /// The reasons, and how they are known, in sentences.
    pub evidence: String,
    /// Its cost; empty if nothing is known.
    pub price: String,
    /// The lines to paste. Those for the first place come first.
    pub lines: Vec<Line>,
}

/// A line to paste.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
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
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Gives {
    /// Exactly this many: the pages that the allocator would give back were counted.
    Exact {
        /// Bytes.
        bytes: u64,
    },
    /// At most this many, and perhaps none.
    Bound {
        /// Bytes.
        bytes: u64,
    },
    /// The gain is not known. A text says how to find it out.
    Unknown {
        /// How to find it out, without a period.
        find_out: String,
    },
}

/// A remedy for less than one in this many of the resident bytes is not shown.
const LEAST: u64 = 20;

/// The process and its memory, for which remedies are made.
pub(crate) struct Subject<'a> {
    /// The process's memory.
    pub reading: &'a Reading,
    /// The other facts that the process shows.
    pub process: &'a Process,
}

impl Subject<'_> {
    /// Whether this many bytes are worth a remedy.
    pub fn matters(&self, bytes: u64) -> bool {
        matters(self.reading, bytes)
    }

    /// Whether an allocator can be preloaded into it: it has a dynamic loader.
    pub fn is_dynamic(&self) -> bool {
        self.process.maps.files.iter().any(|file| {
            let name = crate::identity::file_name(&file.path);
            name.starts_with("ld-linux") || name.starts_with("ld-2.") || name.starts_with("ld-musl")
        })
    }
}

fn matters(reading: &Reading, bytes: u64) -> bool {
    bytes > 0 && bytes.saturating_mul(LEAST) >= reading.resident
}

/// Every remedy that gives something here, or whose gain has to be found out. Without a process (a saved reading), only the remedies
/// that the memory alone shows.
pub fn remedies(reading: &Reading, process: Option<&Process>) -> Vec<Remedy> {
    let mut all: Vec<Remedy> = reading.heaps.iter().filter_map(|heap| call::remedy(reading, heap)).collect();
    if let Some(process) = process {
        let subject = Subject { reading, process };
        for runtime in runtimes::ALL.iter().filter(|runtime| (runtime.is_here)(process)) {
            (runtime.remedies)(&subject, &mut all);
        }
        all.extend(of_settings(&subject));
    }
    all.extend(study::remedy(reading));
    // Known gains come before gains that have to be found out. Equal ones stay in the order in which they were added: first those for now,
    // then those for the next start.
    all.sort_by_key(|one| one.gives.rank());
    all
}

/// The remedies by settings of the allocators.
fn of_settings(subject: &Subject) -> Vec<Remedy> {
    let Subject { reading, process } = subject;
    let flavours = process.identity.flavours();
    let mut all = Vec::new();
    for &flavour in &flavours {
        let Some(allocator) = flavour.allocator() else { continue };
        let Some(part) = part(allocator.name) else { continue };
        let case = Case {
            at: &process.surroundings,
            variables: &process.variables,
            flavour,
            subject: Some(&flavours),
            seen: &process.seen,
        };
        let divided = |heap: &&Heap| heap.allocator == allocator.heap && heap.sure != Sure::NotKnown;
        let heaps: Vec<&Heap> = reading.heaps.iter().filter(divided).collect();
        match (heaps.as_slice(), part.remedies, part.advice) {
            ([], _, Some(advice)) => all.extend(advice(&case).map(|advice| not_divided(&case, &advice))),
            (heaps, Some(remedies), _) => all.extend(heaps.iter().flat_map(|heap| remedies(&case, subject, heap))),
            _ => {}
        }
    }
    all
}

/// The remedy by settings for an allocator whose heap is not divided: its gain is not known.
fn not_divided(case: &Case, advice: &Advice) -> Remedy {
    Remedy {
        id: advice.allocator.into(),
        what: format!("settings of {}", advice.allocator),
        who: Who::OperatorRestart,
        gives: Gives::Unknown {
            find_out: "its heap is not divided here; try it on one replica, or `allocanary run` measures it".into(),
        },
        evidence: format!("{}.", advice.reasons.join(". ")),
        price: String::new(),
        lines: { lines_of(advice) }.into_iter().filter(|line| line.place != "Rust" || is_rust(case)).collect(),
    }
}

impl Gives {
    /// The rank: exact gains first, then the larger ones.
    pub fn rank(&self) -> (u8, std::cmp::Reverse<u64>) {
        let kind = match self {
            Gives::Exact { .. } => 0,
            Gives::Bound { .. } => 1,
            Gives::Unknown { .. } => 2,
        };
        (kind, std::cmp::Reverse(self.bytes().unwrap_or(0)))
    }

    /// The gain in bytes, if it is known or has a bound.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Gives::Exact { bytes } | Gives::Bound { bytes } => Some(*bytes),
            Gives::Unknown { .. } => None,
        }
    }

    /// `677 MiB`, `at most 677 MiB`, `gain not known`.
    pub fn text(&self) -> String {
        match self {
            Gives::Exact { bytes } => Bytes(*bytes).to_string(),
            Gives::Bound { bytes } => format!("at most {}", Bytes(*bytes)),
            Gives::Unknown { .. } => "gain not known".into(),
        }
    }
}

impl Who {
    /// The time at which it is done, as the beginning of a sentence.
    pub fn text(self) -> &'static str {
        match self {
            Who::OperatorNow => "Now",
            Who::OperatorRestart => "At the next start",
            Who::Developer => "In the program",
        }
    }
}

impl Remedy {
    /// `Now, 677 MiB: have glibc give its whole free pages back`.
    pub fn title(&self) -> String {
        format!("{}, {}: {}", self.who.text(), self.gives.text(), self.what)
    }

    /// The sentences below the title: evidence, how to find out, price.
    pub fn details(&self) -> String {
        let mut text = self.evidence.clone();
        if let Gives::Unknown { find_out } = &self.gives {
            text.push_str(&format!(" To find out: {find_out}."));
        }
        if !self.price.is_empty() {
            text.push_str(&format!(" Price: {}.", self.price));
        }
        text
    }

    /// The lines for the place of the first line.
    pub fn first_lines(&self) -> impl Iterator<Item = &str> {
        let first = self.lines.first().map(|line| line.place.as_str());
        self.lines.iter().filter(move |line| Some(line.place.as_str()) == first).map(|line| line.text.as_str())
    }
}

impl Line {
    /// A line for a place.
    pub fn new(place: &str, text: impl Into<String>) -> Line {
        Line { place: place.into(), text: text.into() }
    }
}

/// A variable, as lines for every place that takes one.
pub(crate) fn variable(name: &str, value: &str) -> Vec<Line> {
    let mut all = vec![Line::new("environment", paste::shell(name, value))];
    all.push(Line::new("Dockerfile", paste::dockerfile(name, value)));
    all.extend(paste::kubernetes(name, value).map(|text| Line::new("Kubernetes", text)));
    all.push(Line::new("systemd", paste::systemd(name, value)));
    all
}

/// The lines of an advice: its variable, and the line for Rust if it is a Rust program.
pub(crate) fn lines_of(advice: &Advice) -> Vec<Line> {
    let mut all = variable(&advice.variable.0, &advice.variable.1);
    all.extend(advice.install.iter().flat_map(|text| text.lines()).map(|text| Line::new("Rust", text)));
    all
}

/// Whether the program may be a Rust program, so that it gets a line for Rust.
pub(crate) fn is_rust(case: &Case) -> bool {
    case.seen.rust != Some(false) || matches!(case.flavour, Flavour::RustJemalloc { .. })
}

#[cfg(test)]
mod tests;
