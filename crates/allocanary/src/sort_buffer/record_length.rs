//! The layout of records in the buffer. In: a record's length. Out: its start and end.
//!
//! Records of one length are stored without a head. Other records have a head that contains their length: seven bits in
//! each byte, low bits first, the last byte below 128 (LEB128). So a record of 16 bytes takes 16 or 17 bytes. With a
//! length of 8 bytes it would take 24.

/// The layout of the records of one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordLength {
    /// All records have this length, at least 1.
    Fixed(usize),
    /// Each record is stored after its length.
    Varying,
}

/// A record's place in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRange {
    /// The start of its bytes, after the length.
    pub start: usize,
    /// The end of its bytes, and the start of the next record.
    pub end: usize,
}

/// The longest head: a length of 64 bits.
pub const MOST_HEAD: usize = 10;

impl RecordLength {
    /// The layout for records of this length, or of any length. Empty records need a head, because without it they
    /// would have no bytes.
    pub fn of(record_length: Option<usize>) -> Self {
        match record_length {
            Some(length) if length > 0 => RecordLength::Fixed(length),
            _ => RecordLength::Varying,
        }
    }

    /// The head of a record of this length: the bytes, and their number.
    #[inline]
    pub fn head(self, length: usize) -> ([u8; MOST_HEAD], usize) {
        let mut head = [0; MOST_HEAD];
        if let RecordLength::Fixed(_) = self {
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

    /// The place of the record that begins, with its head, at `at`. Panics if there is no record.
    #[inline]
    pub fn place(self, bytes: &[u8], at: usize) -> RecordRange {
        match self {
            RecordLength::Fixed(length) => RecordRange { start: at, end: at + length },
            RecordLength::Varying if bytes[at] < 128 => RecordRange { start: at + 1, end: at + 1 + bytes[at] as usize },
            RecordLength::Varying => long(bytes, at),
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
fn long(bytes: &[u8], at: usize) -> RecordRange {
    let (mut length, mut start) = (0, at);
    loop {
        let byte = bytes[start];
        length |= (byte as usize & 127) << (7 * (start - at));
        start += 1;
        if byte < 128 {
            return RecordRange { start, end: start + length };
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
            let (head, used) = RecordLength::Varying.head(length);
            assert_eq!(used, bytes, "{length}");
            let place = RecordLength::Varying.place(&head, 0);
            assert_eq!((place.start, place.end), (used, used + length));
        }
        assert_eq!(RecordLength::Fixed(16).head(16).1, 0);
        assert_eq!(RecordLength::Fixed(16).place(&[0; 64], 32), RecordRange { start: 32, end: 48 });
    }

    #[test]
    fn empty_records_of_one_length_have_heads() {
        assert_eq!(RecordLength::of(Some(0)), RecordLength::Varying);
        assert_eq!(RecordLength::of(Some(1)), RecordLength::Fixed(1));
        assert_eq!(RecordLength::of(None), RecordLength::Varying);
    }
}
