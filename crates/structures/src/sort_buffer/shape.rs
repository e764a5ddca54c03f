//! How records lie in the buffer. In: a record's length. Out: where it begins and ends.
//!
//! Records of one length lie side by side; others are headed by their length, seven bits to a byte, low ones first,
//! the last byte below 128 (LEB128). A record of 16 bytes takes 16 or 17, not the 24 of a length of 8 bytes each.

/// How the records of one buffer lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All have this length, at least 1.
    Fixed(usize),
    /// Each has its length before it.
    Varying,
}

/// A record's place in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where its own bytes begin, after the length.
    pub start: usize,
    /// Where they end, and the next record begins.
    pub end: usize,
}

/// The longest head: a length of 64 bits.
pub const MOST_HEAD: usize = 10;

impl Shape {
    /// The shape for records of that length, or of any. Empty records need a head: without one they would be nowhere.
    pub fn of(record_length: Option<usize>) -> Self {
        match record_length {
            Some(length) if length > 0 => Shape::Fixed(length),
            _ => Shape::Varying,
        }
    }

    /// What stands before a record of that length: the bytes, and how many of them.
    #[inline]
    pub fn head(self, length: usize) -> ([u8; MOST_HEAD], usize) {
        let mut head = [0; MOST_HEAD];
        if let Shape::Fixed(_) = self {
            return (head, 0);
        }
        let (mut rest, mut bytes) = (length, 0);
        while rest >= 128 {
            head[bytes] = rest as u8 | 128;
            rest >>= 7;
            bytes += 1;
        }
        head[bytes] = rest as u8;
        (head, bytes + 1)
    }

    /// The place of the record that begins at `at`, its head included. Panics where there is none.
    #[inline]
    pub fn place(self, bytes: &[u8], at: usize) -> Place {
        match self {
            Shape::Fixed(length) => Place { start: at, end: at + length },
            Shape::Varying if bytes[at] < 128 => Place { start: at + 1, end: at + 1 + bytes[at] as usize },
            Shape::Varying => long(bytes, at),
        }
    }

    /// The record that begins at `at`, without its head.
    #[inline]
    pub fn record(self, bytes: &[u8], at: usize) -> &[u8] {
        let place = self.place(bytes, at);
        &bytes[place.start..place.end]
    }
}

#[cold]
fn long(bytes: &[u8], at: usize) -> Place {
    let (mut length, mut start) = (0, at);
    loop {
        let byte = bytes[start];
        length |= (byte as usize & 127) << (7 * (start - at));
        start += 1;
        if byte < 128 {
            return Place { start, end: start + length };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_gives_the_length_back() {
        for (length, bytes) in
            [(0, 1), (1, 1), (127, 1), (128, 2), (300, 2), (16_383, 2), (16_384, 3), (usize::MAX >> 8, 8)]
        {
            let (head, used) = Shape::Varying.head(length);
            assert_eq!(used, bytes, "{length}");
            let place = Shape::Varying.place(&head, 0);
            assert_eq!((place.start, place.end), (used, used + length));
        }
        assert_eq!(Shape::Fixed(16).head(16).1, 0);
        assert_eq!(Shape::Fixed(16).place(&[0; 64], 32), Place { start: 32, end: 48 });
    }

    #[test]
    fn empty_records_of_one_length_have_heads() {
        assert_eq!(Shape::of(Some(0)), Shape::Varying);
        assert_eq!(Shape::of(Some(1)), Shape::Fixed(1));
        assert_eq!(Shape::of(None), Shape::Varying);
    }
}
