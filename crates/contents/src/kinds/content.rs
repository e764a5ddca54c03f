//! Recognises text by the bytes alone.

use std::ops::Range;

/// The kind of blocks that a text fills.
pub const TEXT: &str = "text";

/// Whether all bytes can be text.
pub fn is_text(bytes: &[u8]) -> bool {
    let fine = |byte: &u8| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\n' | b'\t' | b'\r') || *byte >= 0x80;
    if !bytes.iter().all(fine) {
        return false;
    }
    // Truncated text may end within a character.
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && error.valid_up_to() > 0,
    }
}

/// A shorter text could be a pointer: up to six of its bytes can be letters.
pub const LEAST: usize = 7;

/// The most bytes of a block that are examined.
const MOST: usize = 4096;
/// The longest header before a text: a length and a capacity.
const HEADER: usize = 24;

/// The text that fills a block, if there is one. It begins at the block's start or behind a header, and ends at a zero or at the block's
/// end.
pub fn text(bytes: &[u8]) -> Option<&[u8]> {
    place(bytes).map(|place| &bytes[place])
}

/// The range of the text that fills a block.
pub fn place(bytes: &[u8]) -> Option<Range<usize>> {
    let bytes = &bytes[..bytes.len().min(MOST)];
    let at = |from: usize| {
        let rest = &bytes[from..];
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        let text = &rest[..end];
        let least = if from.is_multiple_of(8) { LEAST } else { 4 };
        let long = text.len() >= least && 2 * text.len() + 16 >= bytes.len();
        (long && is_text(text)).then_some(from..from + end)
    };
    let first = bytes.first()?;
    if *first >= b' '
        && let Some(text) = at(0)
    {
        return Some(text);
    }
    // Other places where a text can begin: where a byte of text follows a byte of a number.
    let plain = |byte: u8| byte.is_ascii_graphic() || byte == b' ' || byte >= 0xc0;
    let begins = |from: &usize| !plain(bytes[from - 1]) && plain(bytes[*from]);
    (1..bytes.len().min(HEADER + 1)).filter(begins).find_map(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_with_and_without_a_header() {
        assert_eq!(text(b"hello world\0\0\0\0\0"), Some(b"hello world".as_slice()));
        assert_eq!(text(b"\x0b\x10\x01hello world\0\0\0"), Some(b"hello world".as_slice()));
        assert_eq!(text("grüße aus Köln\0".as_bytes()), Some("grüße aus Köln".as_bytes()));
        assert_eq!(text(b"hello world, to the end"), Some(b"hello world, to the end".as_slice()));
    }

    #[test]
    fn numbers_and_pointers_are_no_texts() {
        assert_eq!(text(&[0; 40]), None);
        assert_eq!(text(&0x5555_5657_4142_u64.to_le_bytes().repeat(4)), None);
        assert_eq!(text(&[0xff; 32]), None);
        assert_eq!(text(b"ab\0"), None);
        assert_eq!(text(b""), None);
    }
}
