//! Readings over time: one line for each, for a terminal.

use super::bytes;
use allocanary_heap::{Part, Reading};
use allocanary_text::outside::harmless;
use std::time::Duration;

/// The parts with a separate column.
const SHOWN: [Part; 5] = [Part::Live, Part::Cached, Part::Fragmentation, Part::FreePages, Part::LazyFree];

/// The head of the lines.
pub fn head() -> String {
    let heads = ["time (UTC)", "resident", "live", "cached", "frag", "free pg", "lazy", "rest"];
    heads.iter().map(|head| format!("{head:>10}")).collect::<Vec<_>>().join("") + "\n"
}

/// A reading as a line.
pub fn line(reading: &Reading) -> String {
    let parts = reading.parts();
    let known = SHOWN.map(|part| parts.of(part));
    let rest = reading.resident.saturating_sub(known.iter().sum());
    let seconds = Duration::from_millis(reading.taken).as_secs();
    let time = format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let figures = [reading.resident].into_iter().chain(known).chain([rest]);
    let undivided: Vec<&str> = reading.allocators().filter(|(_, divided)| !divided).map(|(name, _)| name).collect();
    let mark = match undivided.is_empty() {
        true => String::new(),
        false => format!("  {} not analysed", harmless(&undivided.join(", "))),
    };
    format!("{time:>10}{}{mark}\n", figures.map(|number| format!("{:>10}", bytes(number))).collect::<String>())
}
