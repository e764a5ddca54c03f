//! Writes a page of labels and sentences that fits the terminal, with colours if the style has them.

use allocanary_text::outside::{TerminalStyle, harmless};
use textwrap::{Options, WordSeparator, WordSplitter};

/// The judgement that a line expresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// No judgement.
    Plain,
    /// It is correct.
    Good,
    /// It should be checked.
    Doubt,
    /// It is wrong.
    Bad,
}

/// A page that is being written.
pub struct TextPage {
    look: TerminalStyle,
    text: String,
}

/// The column at which the texts next to labels begin.
const INDENT: usize = 14;

impl TextPage {
    /// An empty page.
    pub fn new(look: TerminalStyle) -> Self {
        TextPage { look, text: String::new() }
    }

    /// A heading, with a blank line above.
    pub fn heading(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.blank();
        }
        let line = self.painted(&harmless(text), "1");
        self.text.push_str(&format!("{line}\n"));
    }

    /// A label, and a text that wraps next to it. A label that is too long gets a separate line.
    pub fn item(&mut self, label: &str, text: &str, tone: Tone) {
        let label: &str = &harmless(label);
        let wide = label.chars().count() + 3 > INDENT;
        if wide {
            self.text.push_str(&format!("  {label}\n"));
        }
        for (at, line) in self.wrapped(text).into_iter().enumerate() {
            let label = if at == 0 && !wide { label } else { "" };
            let line = self.toned(&line, tone);
            self.text.push_str(&format!("  {label:<width$}{line}\n", width = INDENT - 2));
        }
    }

    /// A sentence below an item.
    pub fn below(&mut self, text: &str, tone: Tone) {
        self.item("", text, tone);
    }

    /// A blank line.
    pub fn blank(&mut self) {
        self.text.push('\n');
    }

    /// A line to be copied, without wrapping and colour.
    pub fn verbatim(&mut self, line: &str) {
        self.text.push_str(&format!("    {}\n", harmless(line)));
    }

    /// The finished page.
    pub fn finish(self) -> String {
        self.text
    }

    fn wrapped(&self, text: &str) -> Vec<String> {
        let room = usize::from(self.look.width).saturating_sub(INDENT).max(20);
        let options = Options::new(room)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation)
            .break_words(false);
        // A size and its unit stay on the same line.
        const NO_BREAK: &str = "\u{a0}";
        let units = ["B", "KiB", "MiB", "GiB", "TiB"];
        let is_unit = |word: &str| units.contains(&word.trim_end_matches([',', ';', ':']));
        let mut joined = String::new();
        for word in harmless(text).split(' ') {
            let space = if is_unit(word) { NO_BREAK } else { " " };
            joined.push_str(if joined.is_empty() { "" } else { space });
            joined.push_str(word);
        }
        textwrap::wrap(&joined, options).into_iter().map(|line| line.replace(NO_BREAK, " ")).collect()
    }

    fn toned(&self, text: &str, tone: Tone) -> String {
        match tone {
            Tone::Plain => text.to_string(),
            Tone::Good => self.painted(text, "32"),
            Tone::Doubt => self.painted(text, "33"),
            Tone::Bad => self.painted(text, "31"),
        }
    }

    fn painted(&self, text: &str, code: &str) -> String {
        if self.look.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_wrap_beside_their_labels() {
        let mut page = TextPage::new(TerminalStyle { color: false, width: 40 });
        page.heading("head");
        page.item("label", "some words that do not fit one line", Tone::Bad);
        page.item("A_VERY_LONG_LABEL", "text", Tone::Plain);
        page.item("size", "it has 12 letters and 64.0 KiB, together", Tone::Plain);
        page.verbatim("copied as it is, however long the line may be here");
        let wanted = "head\n  label       some words that do not fit\n              one line\n  A_VERY_LONG_LABEL\n              text\n  size        it has 12 letters and\n              64.0 KiB, together\n    copied as it is, however long the line may be here\n";
        assert_eq!(page.finish(), wanted);
    }

    #[test]
    fn what_another_process_wrote_cannot_steer_the_terminal() {
        let mut page = TextPage::new(TerminalStyle { color: false, width: 80 });
        page.verbatim("MALLOC_CONF=\x1b[2J");
        page.item("path", "/a\nb", Tone::Plain);
        page.item("X\u{9b}", "\u{202e}b", Tone::Plain);
        let wanted = "    MALLOC_CONF=\u{fffd}[2J\n  path        /a\u{fffd}b\n  X\u{fffd}          \u{fffd}b\n";
        assert_eq!(page.finish(), wanted);
    }

    #[test]
    fn colours_are_there_only_where_they_may_be() {
        let mut page = TextPage::new(TerminalStyle { color: true, width: 80 });
        page.item("label", "text", Tone::Good);
        assert_eq!(page.finish(), "  label       \x1b[32mtext\x1b[0m\n");
    }
}
