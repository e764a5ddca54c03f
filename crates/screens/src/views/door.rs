//! The first screen about a process. In: a reading and its remedies. Out: a text of 24 lines, with as many remedies as fit, at least
//! one.

use std::time::Duration;

use allocanary_doctor::remedies::{Gives, Remedy, conclusion};
use allocanary_heap::{Reading, answer};
use allocanary_text::outside::{TerminalStyle, harmless};
use allocanary_text::units::{Bytes, show_duration};

use crate::views::heap::{bold, subject};
use crate::views::remedies::list;

/// The maximum number of remedies on the screen.
const MOST: usize = 3;
/// The lines of a terminal.
const LINES: usize = 24;

/// The whole text.
pub fn screen(reading: &Reading, remedies: &[Remedy], took: Duration, look: &TerminalStyle) -> String {
    let with = |most| with(reading, remedies, took, look, most);
    // One line is left free for the shell's prompt.
    (2..=MOST).rev().map(with).find(|text| text.lines().count() < LINES).unwrap_or_else(|| with(1))
}

fn with(reading: &Reading, remedies: &[Remedy], took: Duration, look: &TerminalStyle, most: usize) -> String {
    let wrapped = |text: &str| crate::draw::wrapped(&harmless(text), look.width.into());
    let took = show_duration(took);
    let mut out = format!("{}\n", wrapped(&format!("{}; only read, in {took}, and not stopped", subject(reading))));
    out.push_str(&format!("{}\n", bold(&wrapped(&answer::answer(reading)), look)));
    if reading.is_apart() {
        out.push_str(&format!("{}\n", wrapped(&moved(reading))));
    }
    out.push('\n');
    // A remedy whose effect is unknown never comes first.
    if remedies.first().is_none_or(|first| matches!(first.gives, Gives::Unknown { .. })) {
        out.push_str(&format!("{}\n", bold(&wrapped(&conclusion(reading, remedies)), look)));
    }
    out.push_str(&list(remedies, most, look));
    let pid = reading.process.pid;
    let lines = [
        (format!("allocanary heap {pid}"), "all parts and arenas, and how sure they are"),
        (format!("allocanary heap {pid} --contents"), "what is live: kinds, holders, leaks"),
    ];
    out.push_str(&format!("\n{}\n", bold("Look deeper", look)));
    let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    for (line, what) in lines {
        out.push_str(&format!("  {line:<width$}  {what}\n"));
    }
    out
}

/// What it means that the pages are not those that the kernel counts.
fn moved(reading: &Reading) -> String {
    format!(
        "The kernel counts {}: memory moved while it was read, so these parts are not right. `allocanary heap {} --freeze` stops the \
         process and reads it at one moment.",
        Bytes(reading.kernel.resident),
        reading.process.pid
    )
}

/// What to do about one process of several. `like` is the number of processes that run the same program.
pub fn of_one(reading: &Reading, remedies: &[Remedy], like: usize, look: &TerminalStyle) -> String {
    let others = match like {
        0 | 1 => String::new(),
        like => format!(", one of {like} that run this program"),
    };
    let title = format!("What to do: {}{others}", subject(reading));
    let mut out = format!("\n{}\n", bold(&crate::draw::wrapped(&title, look.width.into()), look));
    out.push_str(&list(remedies, MOST, look));
    out.push_str(&format!("{}\n", crate::draw::wrapped(&harmless(&conclusion(reading, remedies)), look.width.into())));
    out
}
