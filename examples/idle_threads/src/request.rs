//! The work of one request. In: its number. Out: blocks that were written, compared and freed.

use allocanary_sys::rng::Rng;

/// Bytes that a request allocates; all of its blocks are alive at once.
const BYTES: usize = 128 << 10;

/// Allocates blocks of 16 bytes to 32 KiB, writes to all of their pages, reads them again and frees them. Returns the
/// number of blocks.
///
/// # Panics
///
/// If a block has another content than was written.
pub fn request(number: u64) -> usize {
    let mut rng = Rng::part(2018, number);
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    let mut left = BYTES;
    while left > 0 {
        let doublings = rng.next() % 11;
        let size = (16 << doublings) + rng.next() as usize % (16 << doublings);
        blocks.push(vec![blocks.len() as u8; size.min(left)]);
        left = left.saturating_sub(size);
    }
    for (at, block) in blocks.iter().enumerate() {
        assert!(block.iter().all(|byte| *byte == at as u8), "block {at} of request {number} was overwritten");
    }
    blocks.len()
}
