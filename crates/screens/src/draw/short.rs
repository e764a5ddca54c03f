//! `--short`: answers in at most ten lines. In: answers. Out: text.

use crate::draw::{Answer, wrapped};
use allocanary_text::outside::TerminalStyle;

/// The maximum of lines.
const LINES: usize = 10;

/// The answers, and as many lines to paste as fit. A line to paste is never wrapped, because a broken line cannot be pasted.
pub fn short(answers: &[Answer], look: &TerminalStyle) -> String {
    let width = look.width.into();
    let pasted: Vec<&String> = answers.iter().flat_map(|answer| &answer.pasted).flat_map(|one| &one.lines).collect();
    let kept = pasted.len().min(LINES / 2);
    let mut out: Vec<String> = Vec::new();
    for (at, answer) in answers.iter().enumerate() {
        let left = answers.len() - at - 1;
        let room = (LINES - kept - usize::from(left > 0)).saturating_sub(out.len());
        let lines = within(&answer.text, room, width);
        if lines.is_empty() {
            out.push(format!("And {} more: without --short.", left + 1));
            break;
        }
        out.extend(lines);
    }
    let room = LINES - out.len().min(LINES);
    let shown = if pasted.len() > room { room.saturating_sub(1) } else { pasted.len() };
    out.extend(pasted[..shown].iter().map(|line| format!("  {line}")));
    if shown < pasted.len() && room > 0 {
        out.push(format!("  and {} more lines: without --short", pasted.len() - shown));
    }
    out.join("\n") + "\n"
}

/// The sentences of a text that fit into `room` lines. If not even the first one fits, there are none.
fn within(text: &str, room: usize, width: usize) -> Vec<String> {
    let ends: Vec<usize> = text.match_indices(". ").map(|(at, _)| at + 1).chain([text.len()]).collect();
    let lines = |end: &usize| wrapped(&text[..*end], width).lines().map(String::from).collect::<Vec<_>>();
    ends.iter().rev().map(lines).find(|lines| lines.len() <= room).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Pasted;

    fn answer(text: &str, lines: usize) -> Answer {
        let lines: Vec<String> = (0..lines).map(|at| format!("ENV A={at}")).collect();
        let pasted = Some(Pasted { name: "x".into(), heading: String::new(), lines, note: None });
        Answer { text: text.into(), pasted: pasted.filter(|one| !one.lines.is_empty()), facts: Default::default() }
    }

    #[test]
    fn ten_lines_are_the_most_and_what_is_left_out_is_said() {
        let look = TerminalStyle { color: false, width: 40 };
        assert_eq!(short(&[answer("Keep own.", 0)], &look), "Keep own.\n");
        let long = answer(&"It saves one half of it all. ".repeat(20), 9);
        let said = short(&[long], &look);
        assert!(said.lines().count() == 10 && said.ends_with(". \n").eq(&false), "{said}");
        assert!(said.contains("  ENV A=0\n") && said.contains(" more lines: without --short"), "{said}");
        let many: Vec<Answer> = (0..20).map(|at| answer(&format!("server{at}: keep own."), 0)).collect();
        let said = short(&many, &look);
        assert!(said.lines().count() == 10 && said.ends_with("And 11 more: without --short.\n"), "{said}");
    }
}
