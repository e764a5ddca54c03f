//! The first screen about a process. In: a reading and its remedies. Out: a text of at most 24 lines. It has as many remedies as fit, but
//! at least one.

use std::time::Duration;

use allocanary_doctor::remedies::{Remedy, conclusion};
use allocanary_heap::Reading;
use allocanary_text::outside::{TerminalStyle, harmless};
use allocanary_text::units::{OneDecimal, show_duration};

use crate::views::heap::{bold, headline, subject};
use crate::views::remedies::list;

/// The maximum number of remedies on the screen.
const MOST: usize = 3;
/// The lines of a terminal.
const LINES: usize = 24;

/// The processes that a process has started, directly or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descendants {
    /// Their number.
    pub count: usize,
    /// Their resident bytes. Memory that several processes share is counted in each.
    pub resident: u64,
}

/// What the screen shows besides remedies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// How long the reading took.
    pub took: Duration,
    /// The children.
    pub below: Descendants,
}

/// The whole text.
pub fn screen(reading: &Reading, remedies: &[Remedy], seen: &Seen, look: &TerminalStyle) -> String {
    let with = |most| with(reading, remedies, seen, look, most);
    // One line is left free for the shell's prompt.
    (2..=MOST).rev().map(with).find(|text| text.lines().count() < LINES).unwrap_or_else(|| with(1))
}

fn with(reading: &Reading, remedies: &[Remedy], seen: &Seen, look: &TerminalStyle, most: usize) -> String {
    let wrapped = |text: &str| crate::draw::wrapped(&harmless(text), look.width.into());
    let took = show_duration(seen.took);
    let mut out = format!("{}\n", wrapped(&format!("{}; read in {took}, without stopping it", subject(reading))));
    out.push_str(&format!("{}\n", bold(&wrapped(&headline(reading, remedies)), look)));
    if let Some(text) = children(reading, seen.below) {
        // A line to paste is not part of a sentence, because a broken line cannot be pasted.
        out.push_str(&format!("{}\n  allocanary {} --tree\n", bold(&wrapped(&text), look), reading.process.pid));
    }
    if reading.is_apart() {
        out.push_str(&format!("{}\n  allocanary heap {} --freeze\n", wrapped(&moved(reading)), reading.process.pid));
    }
    out.push('\n');
    out.push_str(&list(remedies, most, reading.process.pid, look));
    let pid = reading.process.pid;
    let lines = [
        (format!("allocanary heap {pid}"), "all parts and arenas, and how sure they are"),
        (format!("allocanary heap {pid} --contents"), "what is live: kinds, holders, leaks"),
    ];
    let gap = if remedies.is_empty() { "" } else { "\n" };
    out.push_str(&format!("{gap}{}\n", bold("Look deeper", look)));
    let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    for (line, what) in lines {
        out.push_str(&format!("  {line:<width$}  {what}\n"));
    }
    out
}

/// Where most of the memory is, if the process's children have it.
fn children(reading: &Reading, below: Descendants) -> Option<String> {
    let (noun, them) = match below.count {
        1 => ("process below it has", "both"),
        _ => ("processes below it have", "all of them"),
    };
    (below.resident > reading.resident).then(|| {
        let resident = OneDecimal(below.resident);
        format!("The {} {noun} {resident}, shared pages counted in each. This line reads {them}:", below.count)
    })
}

/// A sentence for the case that the pages that were read differ from the kernel's count.
fn moved(reading: &Reading) -> String {
    format!(
        "The kernel counts {}: memory moved while it was read, so these parts are not right. This line stops the process and reads \
         it at one moment:",
        OneDecimal(reading.kernel.resident)
    )
}

/// The processes of a tree that run the same program.
#[derive(Clone, Copy, Debug)]
pub struct Alike {
    /// The first process of the tree.
    pub root: u32,
    /// Their number.
    pub count: usize,
    /// What the calls would give back in all these processes together.
    pub reclaimable: u64,
}

/// What to do about one of several processes. `like` are those that run the same program.
pub fn of_one(reading: &Reading, remedies: &[Remedy], like: Alike, look: &TerminalStyle) -> String {
    let others = match like.count {
        0 | 1 => String::new(),
        count => format!(", one of {count} that run this program"),
    };
    let title = format!("What to do: {}{others}", subject(reading));
    let mut out = format!("\n{}\n", bold(&crate::draw::wrapped(&title, look.width.into()), look));
    out.push_str(&list(remedies, MOST, reading.process.pid, look));
    out.push_str(&format!("{}\n", crate::draw::wrapped(&harmless(&conclusion(reading, remedies)), look.width.into())));
    if like.count > 1 && like.reclaimable > 0 {
        let all = format!(
            "All {} together: up to {} by calls in each process. This line asks once and makes them:",
            like.count,
            OneDecimal(like.reclaimable)
        );
        let all = crate::draw::wrapped(&harmless(&all), look.width.into());
        out.push_str(&format!("{all}\n  allocanary give-back {} --tree\n", like.root));
    }
    out
}
