//! Builds a text while a program compiles, for a compile error.

/// A text of up to 512 bytes. [`with`](Self::with) cuts off the rest.
#[derive(Clone, Copy)]
pub struct ConstText {
    bytes: [u8; 512],
    length: usize,
}

impl ConstText {
    /// The empty text.
    pub const NONE: ConstText = ConstText { bytes: [0; 512], length: 0 };

    /// Appends a text.
    #[must_use]
    pub const fn with(mut self, text: &str) -> ConstText {
        let text = text.as_bytes();
        let mut at = 0;
        while at < text.len() && self.length < self.bytes.len() {
            self.bytes[self.length] = text[at];
            self.length += 1;
            at += 1;
        }
        self
    }

    /// Appends a number in decimal digits.
    #[must_use]
    pub const fn number(self, number: i128) -> ConstText {
        let text = if number < 0 { self.with("-") } else { self };
        let rest = number.unsigned_abs();
        let text = if rest >= 10 { text.number((rest / 10) as i128) } else { text };
        const DIGITS: &str = "0123456789";
        let digit = DIGITS.split_at((rest % 10) as usize).1;
        text.with(digit.split_at(1).0)
    }

    /// The text.
    pub const fn as_str(&self) -> &str {
        // The cut at 512 bytes may have left a part of a UTF-8 character, which is dropped here.
        match core::str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(text) => text,
            Err(error) => match core::str::from_utf8(self.bytes.split_at(error.valid_up_to()).0) {
                Ok(text) => text,
                Err(_) => "",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_numbers_are_put_together_at_compile_time() {
        const TEXT: ConstText =
            ConstText::NONE.with("from ").number(-120).with(" to ").number(0).with(", ").number(4094);
        assert_eq!(TEXT.as_str(), "from -120 to 0, 4094");
        let long = ConstText::NONE.with(&"x".repeat(511)).with("é");
        assert_eq!((long.as_str().len(), long.with("more").as_str().len()), (511, 511));
    }
}
