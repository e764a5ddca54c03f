//! Blocks that nothing reaches. In: what is reached. Out: which are leaked, directly or by another leaked block.
//!
//! In a process that runs on, a pointer can move from memory that is not yet copied to memory that is copied already. So two readings have
//! to agree: a block counts as leaked if nothing reaches it in either, at the same address, with the same size and the same content. What
//! is only in one of them may be held, and so may all that it leads to.

use crate::blocks::Blocks;
use crate::copy::Copy;
use crate::links::Links;
use crate::reach::{Reach, each_pointer};

/// A block that nothing reaches in a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    at: u64,
    bytes: u64,
    hash: u64,
}

/// The blocks that nothing reaches, in the order of their addresses.
pub fn candidates(copy: &Copy, blocks: &Blocks, reach: &Reach) -> Vec<Candidate> {
    let unreached = blocks.iter().filter(|(index, _)| !reach.has(*index));
    unreached.map(|(index, _)| candidate(copy, blocks, index)).collect()
}

fn candidate(copy: &Copy, blocks: &Blocks, index: u32) -> Candidate {
    let block = blocks.get(index);
    let mut hash = 0_u64;
    copy.each_word(block.at..block.at + block.bytes, |_, word| {
        hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    });
    Candidate { at: block.at, bytes: block.bytes, hash }
}

/// Takes as reached what was reached in an earlier reading or has changed since, and all that it leads to.
pub fn agree(copy: &Copy, blocks: &Blocks, reach: &mut Reach, earlier: &[Candidate], links: &Links) {
    for (index, _) in blocks.iter() {
        if !reach.has(index) && earlier.binary_search(&candidate(copy, blocks, index)).is_err() {
            reach.add(copy, blocks, index, links);
        }
    }
}

/// A block that is leaked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The block.
    pub block: u32,
    /// Whether no other leaked block leads to it. Of a circle the first one counts as direct.
    pub direct: bool,
}

/// All of them, in the order of their addresses.
pub fn of(copy: &Copy, blocks: &Blocks, reach: &Reach, links: &Links) -> Vec<Leak> {
    let mut leaks: Vec<Leak> =
        blocks.iter().filter(|(index, _)| !reach.has(*index)).map(|(block, _)| Leak { block, direct: true }).collect();
    let place = |leaks: &[Leak], block: u32| leaks.binary_search_by_key(&block, |leak| leak.block).ok();
    let mut pointed = vec![false; leaks.len()];
    for leak in &leaks {
        each_pointer(copy, blocks, links, leak.block, |_, to| {
            if let Some(to) = place(&leaks, to) {
                pointed[to] = true;
            }
        });
    }
    // First those that no leaked block leads to; what is left then are circles.
    let mut done = vec![false; leaks.len()];
    let mut queue = Vec::new();
    for circles in [false, true] {
        for first in 0..leaks.len() {
            if done[first] || !circles && pointed[first] {
                continue;
            }
            done[first] = true;
            queue.push(first);
            while let Some(at) = queue.pop() {
                let mut found = Vec::new();
                each_pointer(copy, blocks, links, leaks[at].block, |_, to| found.extend(place(&leaks, to)));
                for to in found.into_iter().filter(|to| !std::mem::replace(&mut done[*to], true)) {
                    leaks[to].direct = false;
                    queue.push(to);
                }
            }
        }
    }
    leaks
}
