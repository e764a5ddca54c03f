//! Bytes that are copied together with others, in few system calls.

/// Bytes to read, and whether they were read.
#[derive(Debug)]
pub struct Piece {
    /// The address of the first byte.
    pub at: u64,
    /// The bytes. They have no meaning unless `is_read` is true.
    pub bytes: Vec<u8>,
    /// Whether all of them were read.
    pub is_read: bool,
}

impl Piece {
    /// `count` bytes from an address on, not yet read.
    pub fn new(at: u64, count: usize) -> Piece {
        Piece { at, bytes: vec![0; count], is_read: false }
    }

    /// `count` of its bytes from an address on. `None` if the piece does not contain them, or was not read.
    pub fn get(&self, at: u64, count: usize) -> Option<&[u8]> {
        let place = usize::try_from(at.checked_sub(self.at)?).ok()?;
        self.bytes.get(place..place.checked_add(count)?).filter(|_| self.is_read)
    }
}
