//! The properties of a report's output, and text that is safe for a terminal. In: text from outside. Out: text that cannot control a
//! terminal.

use std::borrow::Cow;

/// The properties of the output to which a report is written.
#[derive(Clone, Copy, Debug)]
pub struct TerminalStyle {
    /// Whether colours may be used.
    pub color: bool,
    /// Characters per line.
    pub width: u16,
}

/// The text, with U+FFFD for each character that controls a terminal or is invisible: control characters (escape sequences, carriage
/// return, line feed), marks that change the direction of text, invisible characters, and line separators. Every text from a row, a study's
/// file, a path or another process passes through here.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if text.contains(steers) { text.replace(steers, "\u{fffd}").into() } else { text.into() }
}

/// As [`harmless`], but line feeds stay, for a text of several lines.
pub fn harmless_lines(text: &str) -> Cow<'_, str> {
    let steers = |c| c != '\n' && steers(c);
    if text.contains(steers) { text.replace(steers, "\u{fffd}").into() } else { text.into() }
}

/// As [`harmless_lines`], but sequences that only set colours stay, for a coloured text from another process.
pub fn harmless_but_colours(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, part) in text.split("\x1b[").enumerate() {
        let colours = part.find('m').filter(|end| part[..*end].bytes().all(|byte| matches!(byte, b'0'..=b'9' | b';')));
        match colours {
            Some(end) if at > 0 => {
                out += "\x1b[";
                out += &part[..=end];
                out += &harmless_lines(&part[end + 1..]);
            }
            _ => {
                out += if at > 0 { "\u{fffd}[" } else { "" };
                out += &harmless_lines(part);
            }
        }
    }
    out
}

/// A text of several words in one line: line feeds and tabs become spaces.
pub fn in_one_line(text: &str) -> String {
    harmless(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

/// Whether this character controls a terminal, or is invisible, instead of being shown.
pub fn steers(c: char) -> bool {
    let invisible = matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    c.is_control() || invisible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_replaced_and_all_else_stays() {
        for wrong in
            ["\x1b[2J", "\r", "\n", "\t", "\x07", "\x7f", "\u{9b}2J", "\u{202e}", "\u{2066}", "\u{200b}", "\u{2028}"]
        {
            let text = harmless(wrong).into_owned();
            assert!(text.starts_with('\u{fffd}') && !text.contains(steers), "{wrong:?}: {text:?}");
        }
        assert_eq!(harmless("a\x1b]0;x\x07b"), "a\u{fffd}]0;x\u{fffd}b");
        for fine in ["", "jemalloc:narenas=1", "0.5 µs, naïve, 漢字, ▼ –"] {
            assert!(matches!(harmless(fine), Cow::Borrowed(text) if text == fine));
        }
        assert_eq!(harmless_lines("a\nb\rc"), "a\nb\u{fffd}c");
        let coloured = "\x1b[1;31mred\x1b[0m\n";
        assert_eq!(harmless_but_colours(coloured), coloured);
        assert_eq!(
            harmless_but_colours("a\x1b[2Jb\x1b]0;x\x07\x1b[31"),
            "a\u{fffd}[2Jb\u{fffd}]0;x\u{fffd}\u{fffd}[31"
        );
        assert_eq!(in_one_line(" What\n  does\tit\x1b cost? "), "What does it\u{fffd} cost?");
    }
}
