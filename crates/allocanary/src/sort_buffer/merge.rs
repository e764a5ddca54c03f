//! The second half of sorting: a merge of all runs. In: sorted runs. Out: their records in order, in another place.
//!
//! The records are first cut by their order into parts of about the same size, so that threads merge independently.
//! Then each part is one merge of all runs, because each pass over a mapped file is expensive.

use std::ops::Range;

use super::order::{DONE, Order, comes_first, compare, place_of, word};
use super::record_length::RecordLength;
use super::runs::SortedRun;
use super::share::share;
use super::tournament::Tournament;

/// More parts than threads, so that a slow thread does not delay the others.
const PARTS_PER_THREAD: usize = 4;
/// The maximum number of records from which the parts are chosen.
const MOST_SAMPLES: usize = 1 << 16;

/// Merges `runs` of `from` into `to`.
pub fn merge<O: Order>(
    lengths: RecordLength,
    order: &O,
    threads: usize,
    from: &[u8],
    to: &mut [u8],
    runs: &[SortedRun],
) {
    let parts = if threads > 1 { threads * PARTS_PER_THREAD } else { 1 };
    let mut work = Vec::with_capacity(parts);
    let mut rest = to;
    for ranges in cut(lengths, order, parts, from, runs) {
        let (mine, after) = rest.split_at_mut(ranges.iter().map(Range::len).sum());
        work.push((ranges, mine));
        rest = after;
    }
    share(threads, work, || (), |(), (ranges, to)| merge_part(lengths, order, from, ranges, to));
}

/// Returns the range of each part in each run.
fn cut<O: Order>(
    lengths: RecordLength,
    order: &O,
    parts: usize,
    bytes: &[u8],
    runs: &[SortedRun],
) -> Vec<Vec<Range<usize>>> {
    let record = |at| lengths.record(bytes, at);
    let marks = || runs.iter().flat_map(|run| &run.marks);
    let every = marks().count().div_ceil(MOST_SAMPLES).max(1);
    let mut samples: Vec<u128> = marks().step_by(every).map(|at| word(order.number(record(*at)), *at)).collect();
    samples.sort_unstable_by(|a, b| compare(order, *a, *b, record));

    let mut from: Vec<usize> = runs.iter().map(|run| run.start).collect();
    let mut ranges = Vec::with_capacity(parts);
    for part in 1..=parts {
        let splitter = samples.get(part * samples.len() / parts).copied();
        let bound = |(run, from): (&SortedRun, &usize)| match splitter {
            // A part never begins before the last one ends, even if the caller's comparison is inconsistent.
            Some(splitter) => first_not_before(lengths, order, bytes, run, splitter).max(*from),
            None => run.end,
        };
        let to: Vec<usize> = runs.iter().zip(&from).map(bound).collect();
        ranges.push(from.iter().zip(&to).map(|(from, to)| *from..*to).collect());
        from = to;
    }
    ranges
}

/// The start of the first record of `run` that does not come before the record of `splitter`. Equal records are ordered
/// by their places in every run, so that they keep their order, and any number of them can be split into parts.
fn first_not_before<O: Order>(
    lengths: RecordLength,
    order: &O,
    bytes: &[u8],
    run: &SortedRun,
    splitter: u128,
) -> usize {
    let record = |at| lengths.record(bytes, at);
    let is_before = |at| comes_first(order, word(order.number(record(at)), at), splitter, record);
    let marks = run.marks.partition_point(|at| is_before(*at));
    let Some(mark) = marks.checked_sub(1) else { return run.start };
    let mut at = run.marks[mark];
    while at < run.end && is_before(at) {
        at = lengths.place(bytes, at).end;
    }
    at
}

fn merge_part<O: Order>(lengths: RecordLength, order: &O, bytes: &[u8], ranges: Vec<Range<usize>>, to: &mut [u8]) {
    let ranges: Vec<Range<usize>> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
    let record = |at| lengths.record(bytes, at);
    // A record's word contains its place, so that a match reads the record alone. Runs are stored one after the other.
    // So of two equal records, the one of the earlier run has the lower place.
    let entry = |at, run| (word(order.number(record(at)), at), run);
    let entries: Vec<(u128, usize)> = ranges.iter().enumerate().map(|(run, range)| entry(range.start, run)).collect();
    let mut tournament = Tournament::new(&entries, (DONE, 0), |a, b| comes_first(order, a.0, b.0, record));
    let mut filled = 0;
    loop {
        let (first, run) = tournament.winner();
        if first == DONE {
            break;
        }
        let at = place_of(first);
        let end = lengths.place(bytes, at).end;
        to[filled..filled + end - at].copy_from_slice(&bytes[at..end]);
        filled += end - at;
        let next = if end == ranges[run].end { (DONE, 0) } else { entry(end, run) };
        tournament.replace(run, next, |a, b| comes_first(order, a.0, b.0, record));
    }
    assert_eq!(filled, to.len(), "a merge gives as many bytes as it takes");
}

#[cfg(test)]
mod tests {
    use super::super::order::ByNumber;
    use super::super::runs;
    use super::super::sort_run::Most;
    use super::*;

    #[test]
    fn records_of_one_key_are_cut_as_evenly_as_those_of_many() {
        let bytes: Vec<u8> = (0..200).collect();
        for keys in [1, 200] {
            let order = ByNumber(|record: &[u8]| u64::from(record[0] % keys));
            let lengths = RecordLength::Fixed(1);
            let mut runs = runs::cut(lengths, &bytes, Most { records: 5, bytes: usize::MAX });
            let mut sorted = vec![0; bytes.len()];
            runs::sort(lengths, &order, 1, &bytes, &mut sorted, &mut runs);
            let parts = cut(lengths, &order, 4, &sorted, &runs);
            let sizes: Vec<usize> = parts.iter().map(|ranges| ranges.iter().map(Range::len).sum()).collect();
            assert_eq!(sizes, [50; 4], "{keys} keys");
        }
    }
}
