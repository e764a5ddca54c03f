//! Chooses the blocks with their own pages among the addresses that look like such blocks: a set that agrees with the allocator's own
//! counts of blocks and bytes. Other memory may look like a block's header at the begin of a page: the JVM has such words.

/// An address that may be a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub at: u64,
    pub bytes: u64,
    /// Whether the block touches an end of the memory that it lies in, or a chain of neighbours does. This is so for most blocks: the
    /// kernel puts a new mapping next to another one.
    pub anchored: bool,
}

/// The most steps of a search.
const STEPS: u32 = 1 << 16;
/// The most candidates for a search.
const MOST: usize = 2048;

/// Sets `anchored` for the candidates of one range. They are in the order of their addresses.
pub(super) fn anchor(candidates: &mut [Candidate], from: u64, to: u64) {
    let mut end = from;
    for one in &mut *candidates {
        if one.at == end {
            one.anchored = true;
            end = one.at + one.bytes;
        }
    }
    let mut start = to;
    for one in candidates.iter_mut().rev() {
        if one.at + one.bytes == start {
            one.anchored = true;
            start = one.at;
        }
    }
}

/// Returns the blocks (address and bytes) among the candidates, which are in the order of their addresses. The process runs, so perhaps no
/// choice agrees with both counts. Then candidates that are not anchored are removed, as long as this brings the bytes nearer to the count.
pub(super) fn choose(candidates: &[Candidate], count: u64, bytes: u64) -> Vec<(u64, u64)> {
    if candidates.len() <= MOST {
        let add = |sum: &mut u64, one: &Candidate| {
            *sum += one.bytes;
            Some(*sum)
        };
        let mut after: Vec<u64> = candidates.iter().rev().scan(0, add).collect();
        after.reverse();
        for anchored_stay in [true, false] {
            let after = after.clone();
            let mut search =
                Search { all: candidates, after, count, bytes, anchored_stay, steps: STEPS, taken: Vec::new() };
            if search.from(0, 0, 0) {
                return search.taken.iter().map(|one| (one.at, one.bytes)).collect();
            }
        }
    }
    nearest(candidates, bytes)
}

/// A search for a set that agrees with both counts.
struct Search<'a> {
    all: &'a [Candidate],
    /// For each candidate, the sum of the bytes from it to the last one.
    after: Vec<u64>,
    count: u64,
    bytes: u64,
    anchored_stay: bool,
    steps: u32,
    taken: Vec<Candidate>,
}

impl Search<'_> {
    /// Continues with a candidate. `at` is the end of the last chosen one, `bytes` the sum of the chosen ones.
    fn from(&mut self, index: usize, at: u64, bytes: u64) -> bool {
        let taken = self.taken.len() as u64;
        let Some(one) = self.all.get(index).copied() else { return taken == self.count && bytes == self.bytes };
        let too_many = taken > self.count || bytes > self.bytes;
        let too_few = taken + ((self.all.len() - index) as u64) < self.count || bytes + self.after[index] < self.bytes;
        if self.steps == 0 || too_many || too_few {
            return false;
        }
        self.steps -= 1;
        if one.at >= at {
            self.taken.push(one);
            if self.from(index + 1, one.at + one.bytes, bytes + one.bytes) {
                return true;
            }
            self.taken.pop();
        }
        let may_go = one.at < at || !one.anchored || !self.anchored_stay;
        may_go && self.from(index + 1, at, bytes)
    }
}

fn nearest(candidates: &[Candidate], bytes: u64) -> Vec<(u64, u64)> {
    let mut taken: Vec<Candidate> = Vec::new();
    for one in candidates {
        if taken.last().is_none_or(|last| last.at + last.bytes <= one.at) {
            taken.push(*one);
        }
    }
    let mut sum: u64 = taken.iter().map(|one| one.bytes).sum();
    while sum > bytes {
        let nearer = |one: &Candidate| (sum - one.bytes).abs_diff(bytes);
        let loose = taken.iter().enumerate().filter(|(_, one)| !one.anchored);
        let best = loose.min_by_key(|(_, one)| nearer(one)).filter(|(_, one)| nearer(one) < sum - bytes);
        let Some((index, _)) = best else { break };
        sum -= taken.remove(index).bytes;
    }
    taken.iter().map(|one| (one.at, one.bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(list: &[(u64, u64, bool)]) -> Vec<Candidate> {
        list.iter().map(|&(at, bytes, anchored)| Candidate { at, bytes, anchored }).collect()
    }

    #[test]
    fn those_that_agree_with_both_counts_are_chosen() {
        // The second candidate is not a block, and it overlaps the third one.
        let all = candidates(&[(0, 10, true), (20, 30, false), (40, 7, false), (60, 7, true)]);
        assert_eq!(choose(&all, 3, 24), [(0, 10), (40, 7), (60, 7)]);
        assert_eq!(choose(&all, 2, 17), [(0, 10), (60, 7)], "those that are anchored stay");
        assert_eq!(choose(&all, 1, 7), [(40, 7)]);
    }

    #[test]
    fn where_none_agrees_the_nearest_is_taken() {
        let all = candidates(&[(0, 10, true), (20, 30, false), (60, 7, true)]);
        assert_eq!(choose(&all, 3, 18), [(0, 10), (60, 7)]);
        assert_eq!(choose(&all, 9, 50), [(0, 10), (20, 30), (60, 7)]);
    }

    #[test]
    fn a_search_ends() {
        let all: Vec<_> = (0..2000).map(|at| Candidate { at: 10 * at, bytes: 10, anchored: false }).collect();
        assert_eq!(choose(&all, 1000, 10_001).len(), 1000);
    }

    #[test]
    fn neighbours_up_to_an_end_are_anchored() {
        let mut all = candidates(&[(0, 10, false), (10, 5, false), (30, 5, false), (60, 20, false), (80, 20, false)]);
        anchor(&mut all, 0, 100);
        assert_eq!(all.iter().map(|one| one.anchored).collect::<Vec<_>>(), [true, true, false, true, true]);
    }
}
