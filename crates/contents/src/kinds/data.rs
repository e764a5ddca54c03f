//! Finds the words of texts in blocks whose kinds are known: these words hold nothing.
//!
//! The data of a `std::string` or a `String` is text and unused capacity, all of which is data. If only the content says that a block is
//! text, only the words with a byte of the text are data: fields of a structure can follow.

use super::content;
use super::heap::TypedBlocks;
use super::owners::STRINGS;
use super::table::Kinds;
use crate::data::{DataRule, DataWords};

impl Kinds {
    /// Adds the data words that follow from the kinds of the blocks. Returns whether there are any.
    pub fn add_data(&self, heap: &TypedBlocks, data: &mut DataWords) -> bool {
        let strings = STRINGS.map(|name| self.known.get(name).copied());
        let text = self.known.get(content::TEXT).copied();
        let mut adds = false;
        for (index, _) in heap.blocks.iter() {
            let kind = Some(self.number(index));
            let rule = match kind {
                _ if strings.contains(&kind) && begins_with_text(heap.words(index).0) => DataRule::WHOLE,
                _ if kind == text => of_text(heap.words(index).0),
                _ => continue,
            };
            adds = true;
            data.set(heap.blocks.len(), index, rule);
        }
        adds
    }
}

/// Whether a string's data begins with text. Otherwise it may not be a string: a list's node can look like an empty one, since three of its
/// words are an address, 0 and a small number.
fn begins_with_text(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    end >= content::LEAST && content::is_text(&bytes[..end])
}

/// A rule for the words with a byte of the text, or with the zero at its end: this zero can be the lowest byte of an old word.
fn of_text(bytes: &[u8]) -> DataRule {
    content::place(bytes).map_or(DataRule::NONE, |text| {
        let zero = usize::from(bytes.get(text.end) == Some(&0));
        let first = text.start as u64 / 8;
        DataRule::within(first, ((text.end + zero) as u64).div_ceil(8) - first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_a_text_is_not_data() {
        assert_eq!(of_text(b"a name of 21 letters.\0\0\0........"), DataRule::within(0, 3));
        assert_eq!(of_text(b"\x05\0\0\0a text\0\0\0\0\0\0"), DataRule::within(0, 2));
        assert_eq!(of_text(b"a text of just 24 bytes.\0.......more....."), DataRule::within(0, 4), "with its zero");
        assert_eq!(of_text(b"a text of just 24 bytes."), DataRule::within(0, 3));
        assert_eq!(of_text(&[1; 32]), DataRule::NONE);
    }

    #[test]
    fn an_address_is_no_text_of_a_string() {
        assert!(begins_with_text(b"a string\0...") && begins_with_text(b"strings"));
        assert!(
            !begins_with_text(b"ABCDUU\0\0........") && !begins_with_text(b"\0rest") && !begins_with_text(&[0xff; 16])
        );
    }
}
