//! Reads numbers from a program's tables. In: bytes that may be damaged. Out: numbers, or `None` at the end of the
//! bytes.

/// Bytes, and the offset of the next read.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a> {
    pub(crate) all: &'a [u8],
    pub(crate) at: usize,
    /// The offset at which reading ends; at most the length.
    pub(crate) end: usize,
}

impl<'a> Bytes<'a> {
    pub(crate) fn from(all: &'a [u8], at: usize) -> Bytes<'a> {
        Bytes { all, at, end: all.len() }
    }

    /// The next bytes, at most to the end.
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let after = self.at.checked_add(count).filter(|after| *after <= self.end)?;
        let taken = self.all.get(self.at..after)?;
        self.at = after;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        Some(*self.take(1)?.first()?)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// An unsigned LEB128 number: seven bits in each byte.
    pub(crate) fn unsigned(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A signed LEB128 number.
    pub(crate) fn signed(&mut self) -> Option<i64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            number |= i64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                let is_negative = byte & 0x40 != 0 && shift + 7 < 64;
                return Some(if is_negative { number | -1 << (shift + 7) } else { number });
            }
        }
        None
    }

    /// Skips bytes. `None` if this leads beyond the end.
    pub(crate) fn skip(&mut self, count: u64) -> Option<()> {
        self.take(usize::try_from(count).ok()?).map(|_| ())
    }
}
