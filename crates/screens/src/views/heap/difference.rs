//! Two readings compared. In: what changed. Out: the answer, and the rows that changed.

use super::columns::columns;
use super::{bold, bytes};
use crate::draw::wrapped;
use allocanary_heap::{CountChange, Difference, signed};
use allocanary_text::outside::TerminalStyle;

/// The number of arenas with a separate line.
const ARENAS: usize = 8;

/// The text.
pub fn difference(found: &Difference, look: &TerminalStyle) -> String {
    let mut out = format!("{}\n", bold(&wrapped(&found.answer(), look.width.into()), look));
    if !found.is_same {
        let note = "The readings are of different processes: what grew is the difference between the two.";
        out.push_str(&format!("{}\n", wrapped(note, look.width.into())));
    }
    let table = |title: &str, changes: &[&CountChange]| {
        let mut table = vec![[title, "before", "after", "change"].map(String::from).to_vec()];
        let row = |change: &&CountChange| {
            vec![change.name.clone(), bytes(change.before), bytes(change.after), signed(change.by())]
        };
        table.extend(changes.iter().map(row));
        columns(&table, look)
    };
    let rows: Vec<&CountChange> = found.rows.iter().chain([&found.resident]).collect();
    out.push_str(&format!("\n{}", table("part", &rows)));
    let mut arenas: Vec<&CountChange> = found.arenas.iter().filter(|change| change.by() != 0).collect();
    arenas.sort_by_key(|change| std::cmp::Reverse(change.by().unsigned_abs()));
    arenas.truncate(ARENAS);
    if !arenas.is_empty() {
        out.push_str(&format!("\n{}", table("arenas that changed most", &arenas)));
    }
    out
}
