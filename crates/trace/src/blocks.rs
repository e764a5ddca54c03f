//! A map of blocks by their addresses. In: addresses of a trace, which are multiples of 8. Out: the record of the block at an address.
//!
//! The records of the blocks of one page are stored together, in order and without gaps. A program makes and frees neighbours together, so
//! their records are in the processor's caches, and a block takes little more than the bytes of its record. A block that is alone in its
//! page takes some 150 bytes.

use crate::hash::AddressMap;

/// The number of units of 8 bytes in a page, and the number of words for their bits (one bit for each unit).
const UNITS: u64 = 512;
const WORDS: usize = UNITS as usize / 64;

pub(crate) struct Blocks<T> {
    pages: AddressMap<Page<T>>,
    count: usize,
}

/// A page with at least one block.
struct Page<T> {
    /// The units at which blocks begin.
    begins: [u64; WORDS],
    blocks: Vec<T>,
}

/// The page of an address, and the number of its unit in this page.
fn split(address: u64) -> (u64, usize) {
    let units = address >> 3;
    (units / UNITS, (units % UNITS) as usize)
}

impl<T> Page<T> {
    fn has(&self, unit: usize) -> bool {
        self.begins[unit / 64] >> (unit % 64) & 1 == 1
    }

    /// The number of blocks that begin before this unit.
    fn before(&self, unit: usize) -> usize {
        let below = self.begins[unit / 64] & ((1 << (unit % 64)) - 1);
        let words: u32 = self.begins[..unit / 64].iter().map(|word| word.count_ones()).sum();
        (words + below.count_ones()) as usize
    }

    fn toggle(&mut self, unit: usize) {
        self.begins[unit / 64] ^= 1 << (unit % 64);
    }

    fn units(&self) -> impl Iterator<Item = u64> {
        let begins = self.begins;
        (0..UNITS).filter(move |unit| begins[*unit as usize / 64] >> (unit % 64) & 1 == 1)
    }
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Blocks { pages: AddressMap::default(), count: 0 }
    }
}

impl<T> Blocks<T> {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether a block begins at an address.
    pub(crate) fn contains(&self, address: u64) -> bool {
        let (page, unit) = split(address);
        self.pages.get(&page).is_some_and(|page| page.has(unit))
    }

    /// Puts a block at an address, and returns the block that was there before.
    pub(crate) fn insert(&mut self, address: u64, block: T) -> Option<T> {
        let (page, unit) = split(address);
        let page = self.pages.entry(page).or_insert_with(|| Page { begins: [0; WORDS], blocks: Vec::new() });
        let at = page.before(unit);
        if page.has(unit) {
            return Some(std::mem::replace(&mut page.blocks[at], block));
        }
        if page.blocks.len() == page.blocks.capacity() {
            // The vector grows by an eighth, because doubling would take 1.5 times the memory.
            page.blocks.reserve_exact(page.blocks.len() / 8 + 1);
        }
        page.blocks.insert(at, block);
        page.toggle(unit);
        self.count += 1;
        None
    }

    /// Removes the block at an address if `is_wanted` returns true for it.
    pub(crate) fn remove_if(&mut self, address: u64, is_wanted: impl FnOnce(&T) -> bool) -> Removed<T> {
        let (number, unit) = split(address);
        let Some(page) = self.pages.get_mut(&number).filter(|page| page.has(unit)) else { return Removed::None };
        let at = page.before(unit);
        if !is_wanted(&page.blocks[at]) {
            return Removed::Left;
        }
        let block = page.blocks.remove(at);
        page.toggle(unit);
        if page.blocks.is_empty() {
            self.pages.remove(&number);
        }
        self.count -= 1;
        Removed::Block(block)
    }

    /// Removes the block at an address, and returns it.
    pub(crate) fn remove(&mut self, address: u64) -> Option<T> {
        match self.remove_if(address, |_| true) {
            Removed::Block(block) => Some(block),
            _ => None,
        }
    }

    /// Removes all blocks, and returns them with their addresses, in no particular order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (u64, T)> {
        self.count = 0;
        std::mem::take(&mut self.pages).into_iter().flat_map(|(number, page)| {
            let addresses = page.units().map(move |unit| (number * UNITS + unit) << 3);
            addresses.collect::<Vec<_>>().into_iter().zip(page.blocks)
        })
    }
}

/// The result of removing a block.
pub(crate) enum Removed<T> {
    /// There is no block.
    None,
    /// `is_wanted` returned false, so the block stays.
    Left,
    /// The removed block.
    Block(T),
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use allocanary_sys::rng::Rng;

    use super::*;

    #[test]
    fn fuzz_it_is_a_map() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let (mut blocks, mut map) = (Blocks::default(), HashMap::new());
            for step in 0..2000_u32 {
                // Pages at both ends of the address space, some of them dense.
                let far = [0, 1, 1 << 40, (1 << 52) - 1][rng.below(4)];
                let address = far << 12 | (rng.below(200) as u64) << 3;
                match rng.below(5) {
                    0 | 1 => assert_eq!(blocks.insert(address, step), map.insert(address, step)),
                    2 | 3 => assert_eq!(blocks.remove(address), map.remove(&address)),
                    _ => match blocks.remove_if(address, |block| block % 2 == 0) {
                        Removed::None => assert_eq!(map.get(&address), None),
                        Removed::Left => assert_eq!(map[&address] % 2, 1),
                        Removed::Block(block) => assert_eq!((Some(block), block % 2), (map.remove(&address), 0)),
                    },
                }
                assert_eq!((blocks.contains(address), blocks.len()), (map.contains_key(&address), map.len()));
            }
            assert_eq!(blocks.drain().collect::<HashMap<_, _>>(), map);
            assert_eq!(blocks.len(), 0);
        }
    }
}
