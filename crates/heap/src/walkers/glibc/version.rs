//! The release of a C library, by the text that it has in its constants. A program that is linked statically has none.

use crate::{Memory, PAGE};

const TEXT: &[u8] = b" release version 2.";
/// The most bytes of constants that are searched.
const MOST: u64 = 64 << 20;
const PIECE: u64 = 1 << 16;

/// The minor number, 36 for 2.36, of the library whose data is at `data`.
pub(super) fn minor(memory: &dyn Memory, data: u64) -> Option<u32> {
    let inode = memory.mapping(data)?.inode;
    let constants = memory.mappings().iter().filter(|one| one.inode == inode && one.readable && !one.writable);
    let mut left = MOST;
    let mut bytes = Vec::new();
    for mapping in constants {
        let mut at = mapping.from;
        while at < mapping.to && left > 0 {
            // The pieces overlap by a page, so that the text is whole in one of them.
            bytes.resize((PIECE + PAGE).min(mapping.to - at) as usize, 0);
            if memory.read(at, &mut bytes)
                && let Some(found) = bytes.windows(TEXT.len()).position(|window| window == TEXT)
            {
                return number(&bytes[found + TEXT.len()..]);
            }
            at += PIECE;
            left = left.saturating_sub(PIECE);
        }
    }
    None
}

fn number(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&bytes[..digits]).ok()?.parse().ok()
}
