//! The end of a terminal's report. In: findings. Out: the main result, the lines to paste, and their provenance.

use super::{bold, height, wrapped};
use crate::draw::Pasted;
use crate::report::answer;
use crate::report::words;
use allocanary_measure::summary::Findings;
use allocanary_text::outside::TerminalStyle;

/// The lines of the last screen: 24, minus the command's two lines about its files, the prompt, and one spare line.
const LINES: usize = 20;

/// The main result, the lines to paste for the recommended candidate, and the provenance. They fit on the last screen of
/// 24 lines, together with the command's two lines about its files and the prompt.
pub fn ending(findings: &Findings, look: &TerminalStyle) -> String {
    let sentences = answer::sentences(findings);
    let chosen = answer::pasted(findings);
    // The first candidate's lines are always shown. Those of the others are shown if there is room.
    let mut pasted = chosen.first().map_or(String::new(), |first| block(first, look));
    let mut from = provenance(findings, LINES / 2 - height(&pasted, look).min(LINES / 4), look);
    if sentences.is_empty() {
        return from;
    }
    let paragraph = |shown: usize| {
        let left = sentences.len() - shown;
        let left = if left > 0 { format!(" And {left} more: see the tables above.") } else { String::new() };
        wrapped(&format!("{}{left}", sentences[..shown].join(" ")), look)
    };
    // The heading, and the blank line after each part, count as lines too.
    let around = 2 + usize::from(!pasted.is_empty());
    // If there is no room, the least important text is cut: first the provenance, then the lines for the last places.
    let first = height(&paragraph(1), look) + around;
    if first + height(&pasted, look) + height(&from, look) > LINES {
        from = from.lines().next().map_or(String::new(), |line| format!("{line}\n"));
    }
    if let Some(whole) = chosen.first() {
        let room = LINES.saturating_sub(first + height(&from, look));
        pasted = (0..=whole.lines.len())
            .rev()
            .map(|lines| cut(whole, lines, look))
            .find(|text| height(text, look) <= room)
            .unwrap_or(pasted);
    }
    let height_with = |shown: usize, pasted: &str| {
        height(&paragraph(shown), look) + height(pasted, look) + height(&from, look) + around
    };
    let shown = (1..=sentences.len()).rev().find(|shown| height_with(*shown, &pasted) <= LINES).unwrap_or(1);
    for (at, other) in chosen.iter().enumerate().skip(1) {
        let more = format!("{pasted}{}", block(other, look));
        let others = chosen.len() - at - 1;
        if height_with(shown, &more) + usize::from(others > 0) > LINES {
            let more = format!("{pasted}For {} more candidates: --format markdown.\n", others + 1);
            if height_with(shown, &more) <= LINES {
                pasted = more;
            }
            break;
        }
        pasted = more;
    }
    if !pasted.is_empty() {
        pasted.push('\n');
    }
    format!("{}\n{}\n\n{pasted}{from}", bold("Answer", look), paragraph(shown))
}

/// The first of the lines to paste, and how to see the others.
fn cut(pasted: &Pasted, lines: usize, look: &TerminalStyle) -> String {
    if lines == pasted.lines.len() {
        return block(pasted, look);
    }
    let shown = Pasted { lines: pasted.lines[..lines].to_vec(), note: None, ..pasted.clone() };
    let left = pasted.lines.len() - lines;
    format!("{}  and {left} more lines: report.html, or --format markdown\n", block(&shown, look))
}

/// The lines to paste for one candidate. They are never wrapped: a broken line could not be pasted.
fn block(pasted: &Pasted, look: &TerminalStyle) -> String {
    let mut out = format!("{}\n", bold(&wrapped(&pasted.heading, look), look));
    pasted.lines.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
    if let Some(note) = &pasted.note {
        out.push_str(&format!("{}\n", wrapped(note, look)));
    }
    out
}

/// Where the figures come from, in at most `most` lines unless one host needs more.
fn provenance(findings: &Findings, most: usize, look: &TerminalStyle) -> String {
    let mut from = vec![format!("{} rows; medians of fresh processes in shuffled order", findings.rows)];
    let provenance = words::provenance(findings);
    for (at, line) in provenance.iter().enumerate() {
        let line = wrapped(line, look);
        if at > 0 && from.len() + line.lines().count() > most {
            from.push(format!("and {} more builds or hosts: see --format markdown", provenance.len() - at));
            break;
        }
        from.extend(line.lines().map(str::to_string));
    }
    from.join("\n") + "\n"
}
