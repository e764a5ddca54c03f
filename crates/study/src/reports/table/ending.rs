//! The end of a terminal's report. In: findings. Out: the main result, and its provenance.

use super::{bold, wrapped};
use crate::reports::{answer, words};
use crate::summary::Findings;
use allocanary_kernel::terminal::Look;

/// The main result and its provenance. It fits on the last screen of 24 lines, together with the command's two lines
/// about its files and the prompt.
pub fn ending(findings: &Findings, look: &Look) -> String {
    const LINES: usize = 20;
    let mut from = vec![format!("{} rows; medians of fresh processes in shuffled order", findings.rows)];
    let provenance = words::provenance(findings);
    for (at, line) in provenance.iter().enumerate() {
        let line = wrapped(line, look);
        if at > 0 && from.len() + line.lines().count() > LINES / 2 {
            from.push(format!("and {} more builds or hosts: see --format markdown", provenance.len() - at));
            break;
        }
        from.extend(line.lines().map(str::to_string));
    }
    let sentences = answer::sentences(findings);
    if sentences.is_empty() {
        return format!("{}\n", from.join("\n"));
    }
    let paragraph = |shown: usize| {
        let left = sentences.len() - shown;
        let left = if left > 0 { format!(" And {left} more: see the tables above.") } else { String::new() };
        wrapped(&format!("{}{left}", sentences[..shown].join(" ")), look)
    };
    // The heading, and the blank line after the paragraph, are two lines more.
    let fits = |shown: &usize| paragraph(*shown).lines().count() + from.len() + 2 <= LINES;
    let shown = (1..=sentences.len()).rev().find(fits).unwrap_or(1);
    format!("{}\n{}\n\n{}\n", bold("Answer", look), paragraph(shown), from.join("\n"))
}
