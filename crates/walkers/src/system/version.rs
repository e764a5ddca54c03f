//! Finds the release of a C library by a text in its constants. A statically linked program does not contain this text.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::{Fact, Memory, PAGE};

const TEXT: &[u8] = b" release version 2.";
/// The most bytes that are searched.
const MOST: u64 = 64 << 20;
const PIECE: u64 = 1 << 16;

/// The minor number (36 for 2.36) of the library whose data is at the address `data`.
pub(super) fn minor(memory: &dyn Memory, data: u64) -> Option<u32> {
    let library = memory.mapping(data)?;
    if let Some(told) = memory.fact(library, Fact::Release) {
        return u32::try_from(told?).ok();
    }
    let inode = library.inode;
    let constants = memory.mappings().iter().filter(|one| one.inode == inode && one.readable && !one.writable);
    let mut left = MOST;
    { constants }.find_map(|one| find(one.bytes(), &mut left, |at, into| memory.read(one.from + at, into)))
}

/// Finds the minor number in the library's file, which has `bytes` bytes.
pub(crate) fn of_file(file: &File, bytes: u64) -> Option<u64> {
    find(bytes, &mut MOST.clone(), |at, into| file.read_exact_at(into, at).is_ok()).map(u64::from)
}

/// Finds the first number after `TEXT`, reading piece by piece. `left` is the number of bytes that may still be read.
fn find(bytes: u64, left: &mut u64, read: impl Fn(u64, &mut [u8]) -> bool) -> Option<u32> {
    let mut piece = Vec::new();
    for at in (0..bytes).step_by(PIECE as usize) {
        *left = left.checked_sub(PIECE)?;
        // The pieces overlap by a page, so one of them contains the whole text.
        piece.resize((PIECE + PAGE).min(bytes - at) as usize, 0);
        if read(at, &mut piece)
            && let Some(found) = piece.windows(TEXT.len()).position(|window| window == TEXT)
        {
            return number(&piece[found + TEXT.len()..]);
        }
    }
    None
}

fn number(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&bytes[..digits]).ok()?.parse().ok()
}
