//! The first half of sorting: runs, each small enough to be sorted in a few MiB. In: records as they came.
//! Out: the same records in sorted runs, in another place, and where each run begins.

use super::order::{Order, compare, place_of, word};
use super::shape::Shape;
use super::share::share;

/// The most records of a run: 4 MiB of words for each thread, about what a processor's cache holds.
pub const RUN_RECORDS: usize = 1 << 18;
/// The most bytes of a run of more than one record.
pub const RUN_BYTES: usize = 8 << 20;
/// A mark stands at one record in so many.
pub const MARK_EVERY: usize = 1 << 11;

/// A run of sorted records.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Where it begins.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Where some of its records begin, the first among them: what a search goes by.
    pub marks: Vec<usize>,
}

/// Cuts `bytes` into runs, at most `records` in each.
pub fn cut(shape: Shape, bytes: &[u8], records: usize) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let mut end = start;
        match shape {
            Shape::Fixed(length) => {
                let most = (RUN_BYTES / length).clamp(1, records) * length;
                end = bytes.len().min(start + most);
            }
            Shape::Varying => {
                for _ in 0..records {
                    let next = if end < bytes.len() { shape.place(bytes, end).end } else { end };
                    if next == end || (next - start > RUN_BYTES && end > start) {
                        break;
                    }
                    end = next;
                }
            }
        }
        runs.push(Run { start, end, marks: Vec::new() });
        start = end;
    }
    runs
}

/// Sorts each run of `from` into the same place of `to`.
pub fn sort<O: Order>(shape: Shape, order: &O, threads: usize, from: &[u8], to: &mut [u8], runs: &mut [Run]) {
    let mut work = Vec::with_capacity(runs.len());
    let mut rest = to;
    for run in runs {
        let (mine, after) = rest.split_at_mut(run.end - run.start);
        work.push((run, mine));
        rest = after;
    }
    share(threads, work, Vec::new, |words, (run, to)| {
        sort_one(shape, order, &from[run.start..run.end], to, words);
        let mut at = 0;
        let mut until_mark = 0;
        while at < to.len() {
            if until_mark == 0 {
                run.marks.push(run.start + at);
                until_mark = MARK_EVERY;
            }
            until_mark -= 1;
            at = shape.place(to, at).end;
        }
    });
}

fn sort_one<O: Order>(shape: Shape, order: &O, from: &[u8], to: &mut [u8], words: &mut Vec<u128>) {
    words.clear();
    let mut at = 0;
    while at < from.len() {
        let place = shape.place(from, at);
        words.push(word(order.number(&from[place.start..place.end]), at));
        at = place.end;
    }
    if O::WHOLE {
        words.sort_unstable();
    } else {
        words.sort_unstable_by(|a, b| compare(order, *a, *b, |at| shape.record(from, at)));
    }
    let mut filled = 0;
    for word in words {
        let at = place_of(*word);
        let record = &from[at..shape.place(from, at).end];
        to[filled..filled + record.len()].copy_from_slice(record);
        filled += record.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_cut_between_records() {
        let ends = |runs: Vec<Run>| runs.iter().map(|run| (run.start, run.end)).collect::<Vec<_>>();
        assert_eq!(ends(cut(Shape::Fixed(4), &[0; 40], 4)), [(0, 16), (16, 32), (32, 40)]);
        // Lengths 1, 0, 2, 0, 0.
        let bytes = [1, 9, 0, 2, 9, 9, 0, 0];
        assert_eq!(ends(cut(Shape::Varying, &bytes, 2)), [(0, 3), (3, 7), (7, 8)]);
        assert_eq!(ends(cut(Shape::Varying, &[], 2)), []);
        // A record larger than a run is a run.
        let large = vec![0; RUN_BYTES + 1];
        assert_eq!(ends(cut(Shape::Fixed(large.len()), &large, 2)), [(0, large.len())]);
    }
}
