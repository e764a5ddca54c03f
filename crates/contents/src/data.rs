//! Finds the words of blocks that are data: texts, numbers, and unused bytes. Such a word cannot hold another block.
//!
//! Old bytes can be in the unused rest of a text's block, and behind the end of a list's items. They, and numbers, can look like a pointer
//! to a block that something else uses now. Such a word is no holder. But this crate may not know how the program reads it. So blocks to
//! which only such words lead are counted separately, and do not count as leaked.

/// A rule that says which words of a block are data. The highest three bits say how the other bits are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataRule(u32);

const BITS: u32 = 29;
const MOST: u64 = (1 << BITS) - 1;
/// All words from this one on.
const FROM: u32 = 1;
/// A run of words: the lowest five bits are its first word, the others its count.
const WITHIN: u32 = 2;
/// All words except those whose bits are set.
const POINTERS: u32 = 3;
/// All words before this one, and each third word from it on.
const THIRDS: u32 = 4;
/// Each second word.
const SECONDS: u32 = 5;
/// All words except a run: the lowest twelve bits are its first word, the others its count.
const OUTSIDE: u32 = 6;
/// The number of bits for the first word of a run.
const FIRST: u32 = 5;
const OUTSIDE_FIRST: u32 = 12;

impl DataRule {
    /// No word is data.
    pub const NONE: DataRule = DataRule(0);
    /// All words are data.
    pub const WHOLE: DataRule = DataRule(FROM << BITS);
    /// Each second word, from the second on: the hashes of a set's entries.
    pub const SECONDS: DataRule = DataRule(SECONDS << BITS);

    /// All words from this one on.
    pub fn from(word: u64) -> DataRule {
        DataRule::new(FROM, word)
    }

    /// `count` words from `first` on.
    pub fn within(first: u64, count: u64) -> DataRule {
        if first >= 1 << FIRST || count > MOST >> FIRST {
            return DataRule::NONE;
        }
        DataRule::new(WITHIN, count << FIRST | first)
    }

    /// All words except `count` from `first` on.
    pub fn outside(first: u64, count: u64) -> DataRule {
        if first >= 1 << OUTSIDE_FIRST || count > MOST >> OUTSIDE_FIRST {
            return DataRule::NONE;
        }
        DataRule::new(OUTSIDE, count << OUTSIDE_FIRST | first)
    }

    /// All words except these, which are pointers.
    pub fn but(pointers: &[u64]) -> DataRule {
        match pointers.iter().all(|word| *word < u64::from(BITS)) {
            true => DataRule::new(POINTERS, pointers.iter().fold(0, |all, word| all | 1 << word)),
            false => DataRule::NONE,
        }
    }

    /// All words before this one, and from it on the first of each three: a hash's entries are a hash, a key and a value.
    pub fn thirds(first: u64) -> DataRule {
        DataRule::new(THIRDS, first)
    }

    /// A value that does not fit gives [`DataRule::NONE`].
    fn new(how: u32, value: u64) -> DataRule {
        if value > MOST { DataRule::NONE } else { DataRule(how << BITS | value as u32) }
    }

    /// Whether the word at this distance from the block's beginning is data.
    #[inline]
    fn has(self, at: u64) -> bool {
        let (word, value) = (at / 8, u64::from(self.0) & MOST);
        match self.0 >> BITS {
            FROM => word >= value,
            WITHIN => word.wrapping_sub(value & ((1 << FIRST) - 1)) < value >> FIRST,
            POINTERS => word >= u64::from(BITS) || value >> word & 1 == 0,
            THIRDS => word < value || (word - value).is_multiple_of(3),
            OUTSIDE => word.wrapping_sub(value & ((1 << OUTSIDE_FIRST) - 1)) >= value >> OUTSIDE_FIRST,
            SECONDS => !word.is_multiple_of(2),
            _ => false,
        }
    }
}

/// The rules of all blocks.
#[derive(Debug, Default)]
pub struct DataWords {
    /// The rule of each block. Empty if no block has one.
    rules: Vec<DataRule>,
}

impl DataWords {
    /// Gives a block a rule, unless it has one already. `blocks` is the number of all blocks.
    pub fn set(&mut self, blocks: usize, block: u32, rule: DataRule) {
        if rule == DataRule::NONE {
            return;
        }
        if self.rules.is_empty() {
            self.rules.resize(blocks, DataRule::NONE);
        }
        let has = &mut self.rules[block as usize];
        if *has == DataRule::NONE {
            *has = rule;
        }
    }

    /// Whether a block has a rule.
    #[inline]
    pub fn is_ruled(&self, block: u32) -> bool {
        self.rules.get(block as usize).is_some_and(|rule| *rule != DataRule::NONE)
    }

    /// Whether the word at this distance from a block's beginning is data.
    #[inline]
    pub fn has(&self, block: u32, at: u64) -> bool {
        self.rules.get(block as usize).is_some_and(|rule| rule.has(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers(rule: DataRule) -> Vec<u64> {
        (0..40).filter(|word| !rule.has(8 * word)).collect()
    }

    #[test]
    fn a_rule_says_which_words_are_data() {
        assert_eq!(pointers(DataRule::NONE), (0..40).collect::<Vec<_>>());
        assert!(pointers(DataRule::WHOLE).is_empty());
        assert_eq!(pointers(DataRule::from(3)), [0, 1, 2]);
        assert_eq!(pointers(DataRule::within(2, 36)), [0, 1, 38, 39]);
        assert_eq!(pointers(DataRule::outside(33, 2)), [33, 34]);
        assert_eq!(pointers(DataRule::but(&[1, 5, 28])), [1, 5, 28]);
        assert_eq!(pointers(DataRule::thirds(30)), [31, 32, 34, 35, 37, 38]);
        assert_eq!(pointers(DataRule::SECONDS), (0..20).map(|pair| 2 * pair).collect::<Vec<_>>());
    }

    #[test]
    fn what_does_not_fit_is_no_rule() {
        let rules =
            [DataRule::from(1 << 29), DataRule::within(32, 1), DataRule::within(0, 1 << 24), DataRule::but(&[29])];
        assert_eq!(rules, [DataRule::NONE; 4]);
    }

    #[test]
    fn the_first_rule_of_a_block_stays() {
        let mut words = DataWords::default();
        words.set(2, 1, DataRule::NONE);
        assert!(!words.is_ruled(1) && !words.has(1, 0));
        words.set(2, 1, DataRule::from(1));
        words.set(2, 1, DataRule::WHOLE);
        assert!(words.is_ruled(1) && !words.is_ruled(0) && !words.has(1, 0) && words.has(1, 8));
    }
}
