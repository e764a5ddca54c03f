//! Which blocks a replay takes from a pool of their own. In: numbers of events. Out: whether an event is among them.

/// A set of events. An event's number is how many blocks were made, freed and resized before it, in merged order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    words: Vec<u64>,
}

impl Elsewhere {
    /// The block that this event makes or resizes lies elsewhere.
    pub fn add(&mut self, event: u64) {
        let word = (event / 64) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (event % 64);
    }

    /// It does not.
    pub fn remove(&mut self, event: u64) {
        if let Some(word) = self.words.get_mut((event / 64) as usize) {
            *word &= !(1 << (event % 64));
        }
    }

    /// Whether it does.
    pub fn has(&self, event: u64) -> bool {
        self.words.get((event / 64) as usize).is_some_and(|word| word >> (event % 64) & 1 == 1)
    }

    /// How many events there are.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_in_it_from_add_to_remove() {
        let mut set = Elsewhere::default();
        [0, 63, 64, 1000].into_iter().for_each(|event| set.add(event));
        set.remove(63);
        set.remove(9999);
        assert_eq!(set.count(), 3);
        assert_eq!([0, 63, 64, 65, 1000, 1 << 40].map(|event| set.has(event)), [true, false, true, false, true, false]);
    }
}
