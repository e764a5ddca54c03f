//! Two contents compared. In: an earlier and a later one. Out: which kinds, holders and leaks grew.

use std::collections::BTreeMap;

use allocanary_contents::Contents;
use allocanary_heap::signed;
use allocanary_text::outside::TerminalStyle;
use allocanary_text::units::show_duration;

use super::{bytes, count, head};
use crate::draw::wrapped;
use crate::views::heap::{bold, columns};

/// The maximum of lines in each table.
const LINES: usize = 12;

/// The change of one kind or holder.
struct Change {
    name: String,
    bytes: [u64; 2],
    blocks: [u64; 2],
}

impl Change {
    fn by(&self) -> i64 {
        self.bytes[1] as i64 - self.bytes[0] as i64
    }
}

/// The text.
pub fn difference(before: &Contents, after: &Contents, look: &TerminalStyle) -> String {
    let kinds =
        changes(before, after, |one| one.kinds.iter().map(|row| (row.kind.clone(), row.bytes, row.blocks)).collect());
    let holders =
        changes(before, after, |one| one.holders.iter().map(|row| (row.name.clone(), row.bytes, row.blocks)).collect());
    let leaks = changes(before, after, |one| {
        one.leaked.iter().flat_map(|leaked| &leaked.rows).map(|row| (row.kind.clone(), row.bytes, row.blocks)).collect()
    });
    let mut out =
        format!("{}\n", bold(&wrapped(&answer(before, after, &kinds, &holders, &leaks), look.width.into()), look));
    if !before.process.is_same(&after.process) {
        let note = "The readings are of different processes: what grew is the difference between the two.";
        out.push_str(&format!("{}\n", wrapped(note, look.width.into())));
    }
    if before.sampled.is_some() || after.sampled.is_some() {
        let note = "Kinds are of a sample of the pages: a change of less than what `heap show` calls within is none.";
        out.push_str(&format!("{}\n", wrapped(note, look.width.into())));
    }
    for (title, changes) in [
        ("kinds that changed most", &kinds),
        ("holders that changed most", &holders),
        ("leaks that changed most", &leaks),
    ] {
        if changes.is_empty() {
            continue;
        }
        let mut table = head(&[title, "before", "after", "change", "blocks"]);
        let row = |change: &Change| {
            let blocks = change.blocks[1] as i64 - change.blocks[0] as i64;
            let sign = if blocks < 0 { "-" } else { "+" };
            vec![
                change.name.clone(),
                bytes(change.bytes[0]),
                bytes(change.bytes[1]),
                signed(change.by()),
                format!("{sign}{}", count(blocks.unsigned_abs())),
            ]
        };
        table.extend(changes.iter().take(LINES).map(row));
        out.push_str(&format!("\n{}", columns(&table, look)));
    }
    out
}

/// The names whose bytes changed, those that changed most first.
fn changes(before: &Contents, after: &Contents, rows: impl Fn(&Contents) -> Vec<(String, u64, u64)>) -> Vec<Change> {
    let mut all: BTreeMap<String, [[u64; 2]; 2]> = BTreeMap::new();
    for (at, contents) in [before, after].into_iter().enumerate() {
        for (name, bytes, blocks) in rows(contents) {
            let sums = all.entry(name).or_default();
            sums[0][at] += bytes;
            sums[1][at] += blocks;
        }
    }
    let mut changes: Vec<Change> =
        all.into_iter().map(|(name, [bytes, blocks])| Change { name, bytes, blocks }).collect();
    changes.retain(|change| change.by() != 0);
    changes.sort_by_key(|change| std::cmp::Reverse(change.by().unsigned_abs()));
    changes
}

fn answer(before: &Contents, after: &Contents, kinds: &[Change], holders: &[Change], leaks: &[Change]) -> String {
    let by = after.bytes as i64 - before.bytes as i64;
    let time = show_duration(std::time::Duration::from_millis(after.taken.saturating_sub(before.taken)));
    let mut sentences = vec![format!(
        "Objects changed by {} in {time}, from {} to {}.",
        signed(by),
        bytes(before.bytes),
        bytes(after.bytes)
    )];
    let grown = |changes: &[Change], what: &str| {
        // A change of less than a tenth of the whole change is not named. For example, if all growth is leaked, no
        // holder has grown.
        let counts = |change: &&Change| change.by() > 0 && change.by().saturating_mul(10) >= by;
        let first = changes.iter().filter(counts).max_by_key(|change| change.by())?;
        Some(format!("{what}: {} ({}).", first.name, signed(first.by())))
    };
    sentences.extend(grown(kinds, "The kind that grew most"));
    sentences.extend(grown(holders, "The holder that grew most"));
    let lost = |one: &Contents| one.leaked.as_ref().map(|leaked| leaked.bytes);
    match (lost(before), lost(after)) {
        (Some(before), Some(after)) if before == after => {
            sentences.push(format!("What is leaked is the same: {}.", bytes(after)))
        }
        (Some(before), Some(after)) => {
            sentences.push(format!(
                "What is leaked changed by {}, to {}.",
                signed(after as i64 - before as i64),
                bytes(after)
            ));
            sentences.extend(grown(leaks, "The leaked kind that grew most"));
        }
        _ => sentences.push("What is leaked is not known in one of the two.".into()),
    }
    sentences.join(" ")
}
