//! What every report is drawn with: the frame of a page, the sheet of a picture with its scales and colours, text from outside as
//! markup, sentences broken into lines, and the answer that each output shows.

// This crate returns texts. Only the command writes to a terminal.

mod answer;
pub mod canvas;
pub mod markup;
mod page;
pub mod palette;
mod parts;
mod picture;
pub mod scale;
mod short;

use textwrap::{Options, WordSeparator, WordSplitter};

pub use answer::{Answer, Pasted, document, object};
pub use page::HtmlPage;
pub use parts::class_of;
pub use picture::Picture;
pub use short::short;

/// A sentence, broken at spaces into lines of at most `width` columns. A wider word gets a line for itself.
pub fn wrapped(text: &str, width: usize) -> String {
    let options = Options::new(width)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .break_words(false);
    textwrap::fill(text.trim_start(), options)
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn a_sentence_is_broken_at_spaces_by_the_width_that_is_shown() {
        assert_eq!(wrapped("thread-local caches keep 2 MiB", 12), "thread-local\ncaches keep\n2 MiB");
        assert_eq!(wrapped("a https://example.org/long b", 8), "a\nhttps://example.org/long\nb");
        assert_eq!(wrapped("漢字 漢字 ab", 8), "漢字\n漢字 ab", "each of these takes two columns");
        assert_eq!(wrapped("", 8), "");
    }
}
