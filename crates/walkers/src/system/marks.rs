//! A set of addresses that are multiples of 16, such as blocks. It has one bit for each possible address, so a heap
//! full of blocks costs less than one percent of its size.

use std::collections::HashMap;

/// The bytes of memory that one group of bits covers.
const GROUP: u64 = 1 << 16;
const WORDS: usize = (GROUP / 16 / 64) as usize;

#[derive(Debug, Default)]
pub(super) struct Marks {
    groups: HashMap<u64, Box<[u64; WORDS]>>,
}

impl Marks {
    /// Adds an address. Returns whether it is new.
    pub fn add(&mut self, at: u64) -> bool {
        let (word, bit) = place(at);
        let word = &mut self.groups.entry(at / GROUP).or_insert_with(|| Box::new([0; WORDS]))[word];
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Whether it has an address in a range.
    pub fn has_within(&self, from: u64, to: u64) -> bool {
        let mut cursor = self.cursor();
        let mut is_in = |key: u64| {
            let (from, to) = (from.max(key * GROUP).next_multiple_of(16), to.min((key + 1) * GROUP));
            (from..to).step_by(16).any(|at| cursor.has(at))
        };
        let range = from / GROUP..to.div_ceil(GROUP);
        // A range of address space may be much larger than the set.
        match range.end.saturating_sub(range.start) <= self.groups.len() as u64 {
            true => range.into_iter().filter(|key| self.groups.contains_key(key)).any(is_in),
            false => self.groups.keys().any(|key| range.contains(key) && is_in(*key)),
        }
    }

    /// Returns a cursor that looks up addresses. It is fast if each address is near the one before.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor { marks: self, key: u64::MAX, group: None }
    }
}

/// Looks addresses up in a set.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    marks: &'a Marks,
    key: u64,
    group: Option<&'a [u64; WORDS]>,
}

impl Cursor<'_> {
    /// Whether the set has an address.
    pub fn has(&mut self, at: u64) -> bool {
        if self.key != at / GROUP {
            self.key = at / GROUP;
            self.group = self.marks.groups.get(&self.key).map(|group| &**group);
        }
        let (word, bit) = place(at);
        self.group.is_some_and(|group| group[word] & bit != 0)
    }
}

fn place(at: u64) -> (usize, u64) {
    let index = at % GROUP / 16;
    ((index / 64) as usize, 1 << (index % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_once() {
        let mut marks = Marks::default();
        assert!(marks.add(0x10000) && marks.add(0x1fff0) && marks.add(0x7000_0000_0010));
        assert!(!marks.add(0x1fff0));
        let mut cursor = marks.cursor();
        let has = [0x10000, 0x10010, 0x1fff0, 0x7000_0000_0010, 0x7000_0000_0000, 0x20000].map(|at| cursor.has(at));
        assert_eq!(has, [true, false, true, true, false, false]);
        let within = |from, to| marks.has_within(from, to);
        assert_eq!([within(0x10001, 0x1fff0), within(0x10010, 0x1fff1), within(0, 0x10000)], [false, true, false]);
        assert_eq!([within(0x30000, 0x7000_0000_0011), within(0x30000, 0x7000_0000_0010)], [true, false]);
    }
}
