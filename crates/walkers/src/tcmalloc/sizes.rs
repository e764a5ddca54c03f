//! Finds the block size of each of tcmalloc's size classes.
//!
//! `SizeMap` has the sizes as an array of four bytes each: 0, 8, 16, and so on, up to 256 KiB. Behind it is an array of eight bytes each:
//! the number of pages of a span of each class.

use std::ops::Range;

use super::release::TcmallocRelease;
use crate::Memory;
use crate::globals::each_word;

/// `kMaxSize`.
const LARGEST: u32 = 256 << 10;

/// The block size of each class. Class 0 has no blocks.
pub fn find(memory: &dyn Memory, globals: &Range<u64>, release: &TcmallocRelease) -> Option<Vec<u64>> {
    let mut found = None;
    each_word(memory, globals, |at, word| {
        // The array can begin in the middle of a word: then the first whole word has the sizes 8 and 16.
        let begins = match word {
            0x8_0000_0000 => at,
            0x10_0000_0008 => at - 4,
            _ => return,
        };
        if found.is_none() {
            found = read(memory, begins, release);
        }
    });
    found
}

fn read(memory: &dyn Memory, at: u64, release: &TcmallocRelease) -> Option<Vec<u64>> {
    let mut bytes = vec![0; 4 * release.cache.lists];
    memory.read(at, &mut bytes).then_some(())?;
    let all = bytes.chunks_exact(4).map(|size| u32::from_le_bytes(size.try_into().expect("four bytes")));
    let sizes: Vec<u32> = std::iter::once(0).chain(all.clone().skip(1).take_while(|size| *size != 0)).collect();
    let ascend =
        sizes.windows(2).all(|pair| pair[0] < pair[1]) && sizes.last() == Some(&LARGEST) && all.take(1).eq([0]);
    let pages = (at + bytes.len() as u64).next_multiple_of(8);
    let fit = |(class, size): (u64, &u32)| {
        memory
            .word(pages + 8 * class)
            .is_some_and(|pages| (1..1 << 10).contains(&pages) && pages << release.page_shift >= u64::from(*size))
    };
    let whole = ascend && (0..).zip(&sizes).skip(1).all(fit);
    whole.then(|| sizes.into_iter().map(u64::from).collect())
}
