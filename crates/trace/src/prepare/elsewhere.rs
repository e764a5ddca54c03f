//! The blocks that a replay takes from a pool, as a set of events.

/// A set of events. The number of an event is the count of blocks that were made, freed and resized before it, in
/// merged order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    words: Vec<u64>,
}

impl Elsewhere {
    /// Adds an event. The block that it makes or resizes will be in the pool.
    pub fn add(&mut self, event: u64) {
        let word = (event / 64) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (event % 64);
    }

    /// Removes an event.
    pub fn remove(&mut self, event: u64) {
        if let Some(word) = self.words.get_mut((event / 64) as usize) {
            *word &= !(1 << (event % 64));
        }
    }

    /// Whether the event's block is in the pool.
    pub fn has(&self, event: u64) -> bool {
        self.words.get((event / 64) as usize).is_some_and(|word| word >> (event % 64) & 1 == 1)
    }

    /// The number of events in the set.
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
