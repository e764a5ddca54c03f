//! The first half of sorting: it makes runs, each small enough to be sorted in a few MiB. In: records in their original
//! order. Out: the same records in sorted runs, in another place, and the start of each run.

use super::order::Order;
use super::record_length::RecordLength;
use super::share::share;
use super::sort_run::{Most, Scratch, sort_run};

/// A run keeps the start of one in this many records, for searching.
pub const MARK_EVERY: usize = 1 << 11;

/// A run of sorted records.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SortedRun {
    /// Where it begins.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Number of its records.
    pub records: usize,
    /// The starts of some of its records, including the first, for searching.
    pub marks: Vec<usize>,
}

/// Cuts `bytes` into runs of at most `most` each.
pub fn cut(lengths: RecordLength, bytes: &[u8], most: Most) -> Vec<SortedRun> {
    let mut runs = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let (mut end, mut records) = (start, 0);
        match lengths {
            RecordLength::Fixed(length) => {
                records = (most.bytes / length).clamp(1, most.records).min((bytes.len() - start) / length);
                end += records * length;
            }
            RecordLength::Varying => {
                for _ in 0..most.records {
                    let next = if end < bytes.len() { lengths.place(bytes, end).end } else { end };
                    if next == end || (next - start > most.bytes && end > start) {
                        break;
                    }
                    end = next;
                    records += 1;
                }
            }
        }
        runs.push(SortedRun { start, end, records, marks: Vec::new() });
        start = end;
    }
    runs
}

/// Sorts each run of `from` into the same place in `to`.
pub fn sort<O: Order>(
    lengths: RecordLength,
    order: &O,
    threads: usize,
    from: &[u8],
    to: &mut [u8],
    runs: &mut [SortedRun],
) {
    let mut work = Vec::with_capacity(runs.len());
    let mut rest = to;
    for run in runs {
        let (mine, after) = rest.split_at_mut(run.end - run.start);
        work.push((run, mine));
        rest = after;
    }
    share(threads, work, Scratch::default, |scratch, (run, to)| {
        sort_run(lengths, order, run.records, &from[run.start..run.end], to, scratch);
        let mut at = 0;
        let mut until_mark = 0;
        while at < to.len() {
            if until_mark == 0 {
                run.marks.push(run.start + at);
                until_mark = MARK_EVERY;
            }
            until_mark -= 1;
            at = lengths.place(to, at).end;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_cut_between_records() {
        let ends = |runs: Vec<SortedRun>| runs.iter().map(|run| (run.start, run.end)).collect::<Vec<_>>();
        let records = |runs: Vec<SortedRun>| runs.iter().map(|run| run.records).collect::<Vec<_>>();
        let most = |records, bytes| Most { records, bytes };
        assert_eq!(ends(cut(RecordLength::Fixed(4), &[0; 40], most(4, 100))), [(0, 16), (16, 32), (32, 40)]);
        assert_eq!(ends(cut(RecordLength::Fixed(4), &[0; 40], most(100, 19))), [(0, 16), (16, 32), (32, 40)]);
        // Lengths 1, 0, 2, 0, 0.
        let bytes = [1, 9, 0, 2, 9, 9, 0, 0];
        assert_eq!(ends(cut(RecordLength::Varying, &bytes, most(2, 100))), [(0, 3), (3, 7), (7, 8)]);
        assert_eq!(ends(cut(RecordLength::Varying, &bytes, most(100, 3))), [(0, 3), (3, 6), (6, 8)]);
        assert_eq!(records(cut(RecordLength::Fixed(4), &[0; 40], most(4, 100))), [4, 4, 2]);
        assert_eq!(records(cut(RecordLength::Varying, &bytes, most(100, 3))), [2, 1, 2]);
        assert_eq!(ends(cut(RecordLength::Varying, &[], most(2, 100))), []);
        // A record larger than a run is a run by itself.
        assert_eq!(ends(cut(RecordLength::Fixed(20), &[0; 40], most(2, 19))), [(0, 20), (20, 40)]);
        assert_eq!(ends(cut(RecordLength::Varying, &bytes, most(2, 1))), [(0, 2), (2, 3), (3, 6), (6, 7), (7, 8)]);
    }
}
