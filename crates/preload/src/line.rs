//! A line of JSON, built without an allocation. In: names and values. Out: bytes.

use std::fmt::{self, Write};

/// The longest line. A path of 4096 bytes that must all be escaped and all settings of an allocator fit.
const MOST: usize = 40 << 10;

/// A line in a buffer of fixed size.
pub struct JsonLine {
    bytes: [u8; MOST],
    length: usize,
}

impl JsonLine {
    /// An empty line.
    pub const fn new() -> Self {
        JsonLine { bytes: [0; MOST], length: 0 }
    }

    /// Empties the line.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// The bytes of the line.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Adds a text without quotes or escapes.
    pub fn add(&mut self, text: &str) {
        self.add_bytes(text.as_bytes());
    }

    /// Adds bytes unchanged, such as those that [`add_text`](Self::add_text) has made.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        let end = (self.length + bytes.len()).min(MOST);
        self.bytes[self.length..end].copy_from_slice(&bytes[..end - self.length]);
        self.length = end;
    }

    /// Adds a text in quotes.
    pub fn add_text(&mut self, text: &[u8]) {
        self.add_text_of(&[text]);
    }

    /// Adds a text of several parts in quotes.
    pub fn add_text_of(&mut self, parts: &[&[u8]]) {
        self.add("\"");
        for chunk in parts.iter().flat_map(|part| part.utf8_chunks()) {
            for letter in chunk.valid().chars() {
                match letter {
                    '"' => self.add("\\\""),
                    '\\' => self.add("\\\\"),
                    '\0'..='\x1f' => drop(write!(self, "\\u{:04x}", u32::from(letter))),
                    letter => self.add(letter.encode_utf8(&mut [0; 4])),
                }
            }
            if !chunk.invalid().is_empty() {
                self.add("\u{fffd}");
            }
        }
        self.add("\"");
    }

    /// Adds `,"name":` and the number, or `null`.
    pub fn add_number(&mut self, name: &str, value: Option<u64>) {
        match value {
            Some(value) => drop(write!(self, ",\"{name}\":{value}")),
            None => drop(write!(self, ",\"{name}\":null")),
        }
    }
}

impl fmt::Write for JsonLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_json_whatever_is_in_them() {
        let mut line = Box::new(JsonLine::new());
        line.add_text(b"/usr/bin/a \"b\"\\\n\xff\xc3\xa9");
        line.add_number("n", Some(7));
        line.add_number("m", None);
        assert_eq!(
            std::str::from_utf8(line.bytes()),
            Ok("\"/usr/bin/a \\\"b\\\"\\\\\\u000a\u{fffd}\u{e9}\",\"n\":7,\"m\":null")
        );
        line.clear();
        (0..MOST).for_each(|_| line.add("ab"));
        assert_eq!(line.bytes().len(), MOST, "what does not fit is left out");
    }
}
