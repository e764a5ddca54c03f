//! Finds the run with the first record. In: an entry for each run's first record. Out: the first entry, repeatedly.
//!
//! A tree of losers (Knuth, volume 3, 5.4.1). A new entry of the winning run is compared with one entry on each level,
//! which is already at its place. A heap compares twice on each level.

/// The entries of all runs, with the first entry on top.
pub struct Tournament<E> {
    /// The loser of each match. The match of node n is between the winners of 2n and 2n + 1.
    losers: Vec<E>,
    winner: E,
}

impl<E: Copy> Tournament<E> {
    /// The tournament of `entries`, with the entry of run `n` at `n`. `last` comes after all of them. `comes_first`
    /// returns whether the first of two entries comes before the second.
    pub fn new(entries: &[E], last: E, comes_first: impl Fn(E, E) -> bool) -> Self {
        let leaves = entries.len().next_power_of_two();
        let mut winners = vec![last; 2 * leaves];
        winners[leaves..leaves + entries.len()].copy_from_slice(entries);
        let mut losers = vec![last; leaves];
        for node in (1..leaves).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            let swapped = comes_first(right, left);
            winners[node] = if swapped { right } else { left };
            losers[node] = if swapped { left } else { right };
        }
        Tournament { losers, winner: winners[1] }
    }

    /// The first entry.
    #[inline]
    pub fn winner(&self) -> E {
        self.winner
    }

    /// Replaces the winner, which is the entry of run `run`, by `entry`.
    #[inline]
    pub fn replace(&mut self, run: usize, entry: E, comes_first: impl Fn(E, E) -> bool) {
        let mut winner = entry;
        let mut node = (run + self.losers.len()) / 2;
        while node > 0 {
            let other = self.losers[node];
            // This form compiles to moves, without a jump that is mispredicted half of the time.
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
