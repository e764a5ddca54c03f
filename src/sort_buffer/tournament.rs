//! Which of many runs has the first record. In: a word for each run. Out: the least, again and again.
//!
//! A tree of losers (Knuth, volume 3, 5.4.1): a new word for the run that won meets one word on each level, and those
//! that it meets are where they have to be. A heap compares twice on each level.

/// The words of all runs, the least on top.
pub struct Tournament {
    /// The loser of each match; the match of node n is between what came up from 2n and from 2n + 1.
    losers: Vec<u128>,
    winner: u128,
}

impl Tournament {
    /// The tournament of `words`, of which the word of run `n` is at `n`. `last` is after all words. `comes_first` gives
    /// whether the first word comes before the second.
    pub fn new(words: &[u128], last: u128, comes_first: impl Fn(u128, u128) -> bool) -> Self {
        let leaves = words.len().next_power_of_two();
        let mut winners = vec![last; 2 * leaves];
        winners[leaves..leaves + words.len()].copy_from_slice(words);
        let mut losers = vec![last; leaves];
        for node in (1..leaves).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            let swapped = comes_first(right, left);
            winners[node] = if swapped { right } else { left };
            losers[node] = if swapped { left } else { right };
        }
        Tournament { losers, winner: winners[1] }
    }

    /// The least word.
    #[inline]
    pub fn winner(&self) -> u128 {
        self.winner
    }

    /// Puts `word` in the place of the winner's, which run `run` had.
    #[inline]
    pub fn replace(&mut self, run: usize, word: u128, comes_first: impl Fn(u128, u128) -> bool) {
        let mut winner = word;
        let mut node = (run + self.losers.len()) / 2;
        while node > 0 {
            let other = self.losers[node];
            // Written so that it becomes moves instead of a jump that is guessed wrong every other time.
            let swapped = comes_first(other, winner);
            self.losers[node] = if swapped { winner } else { other };
            winner = if swapped { other } else { winner };
            node /= 2;
        }
        self.winner = winner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_come_out_merged() {
        for count in 1..20_u64 {
            let mut runs: Vec<Vec<u128>> =
                (0..count).map(|run| (0..run % 5).map(|n| u128::from((n * 7 + run) << 8 | run)).collect()).collect();
            let mut wanted: Vec<u128> = runs.concat();
            wanted.sort_unstable();
            runs.iter_mut().for_each(|run| run.reverse());
            let first: Vec<u128> = runs.iter_mut().map(|run| run.pop().unwrap_or(u128::MAX)).collect();
            let mut tournament = Tournament::new(&first, u128::MAX, |a, b| a < b);
            let mut found = Vec::new();
            while tournament.winner() != u128::MAX {
                let word = tournament.winner();
                found.push(word);
                let run = word as usize & 255;
                tournament.replace(run, runs[run].pop().unwrap_or(u128::MAX), |a, b| a < b);
            }
            assert_eq!(found, wanted);
        }
    }
}
