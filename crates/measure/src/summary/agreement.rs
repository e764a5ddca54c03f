//! Whether a replay agrees with the program. In: the rows of both. Out: medians and ranges of both at each mark, their difference, and
//! whether both rank the candidates alike, as a table and as CSV.

use std::cmp::Ordering;
use std::fmt::Write;

use super::LEAST_SAMPLES;
use super::stats::median;
use allocanary_rows::Candidate;
use allocanary_rows::Moment;
use allocanary_rows::sample::MOST_ANON;
use allocanary_rows::sample::{Measured, Sample};
use allocanary_text::units::Unit;

/// The width of a candidate's name in the table.
const NAME: usize = 22;

/// Median and range of some runs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Runs {
    count: usize,
    median: f64,
    least: f64,
    most: f64,
}

impl Runs {
    fn of(mut values: Vec<f64>) -> Option<Runs> {
        values.sort_by(f64::total_cmp);
        Some(Runs { count: values.len(), median: median(&values)?, least: *values.first()?, most: *values.last()? })
    }

    /// How two candidates rank by their medians. `None` if either has too few runs, or if runs of one lie among those of the other.
    fn ranked(&self, other: &Runs) -> Option<Ordering> {
        let is_apart = self.most < other.least || other.most < self.least;
        (is_apart && self.count.min(other.count) >= LEAST_SAMPLES).then(|| self.median.total_cmp(&other.median))
    }
}

/// The program and its replay under one candidate at one mark.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pair {
    real: Option<Runs>,
    replay: Option<Runs>,
}

impl Pair {
    /// How far the replay differs from the program, in percent.
    fn difference(&self) -> Option<f64> {
        let real = self.real.filter(|real| real.median > 0.0)?;
        Some(100.0 * (self.replay?.median / real.median - 1.0))
    }
}

/// All candidates at each mark.
pub struct Agreement {
    /// The name of each mark.
    marks: Vec<&'static str>,
    /// Each candidate with a pair for each mark.
    lines: Vec<(String, Vec<Pair>)>,
}

/// How the candidates rank at a mark.
#[derive(Debug, Default, PartialEq)]
struct Ranking {
    /// Pairs of candidates whose runs do not overlap, both those of the program and those of the replay.
    decided: usize,
    /// The decided pairs that the replay ranks the other way.
    reversed: Vec<String>,
    /// All other pairs.
    undecided: usize,
}

/// RssAnon at a mark. For the peak, it is the highest value that was seen: in a program under its load, or in a replay. Memory may be
/// highest when the most bytes are live, or later.
fn anon(answer: &Measured, moment: Moment) -> Option<u64> {
    let seen = answer.notes.get(MOST_ANON).copied().filter(|_| moment == Moment::Peak);
    answer.reading("anonymous_bytes", moment).max(seen)
}

impl Agreement {
    /// RssAnon in the rows of both, for each candidate, at the peak and, for a service, when idle.
    pub fn of(candidates: &[Candidate], real: &[Sample], replay: &[Sample], is_service: bool) -> Agreement {
        let marks = [(Moment::Peak, "peak"), (Moment::Idle, "idle")];
        let marks = &marks[..if is_service { 2 } else { 1 }];
        let runs = |rows: &[Sample], candidate: &Candidate, moment| {
            let rows = rows.iter().filter(|row| row.cell.candidate == *candidate && row.error.is_none());
            let values = rows.filter_map(|row| anon(row.measured.as_ref()?, moment));
            Runs::of(values.map(|value| value as f64).collect())
        };
        let pairs = |candidate: &Candidate| {
            let pair = |(moment, _): &(Moment, _)| Pair {
                real: runs(real, candidate, *moment),
                replay: runs(replay, candidate, *moment),
            };
            marks.iter().map(pair).collect()
        };
        let lines = candidates.iter().map(|candidate| (candidate.to_string(), pairs(candidate))).collect();
        Agreement { marks: marks.iter().map(|(_, name)| *name).collect(), lines }
    }

    /// Whether every candidate has rows of both at every mark.
    pub fn is_complete(&self) -> bool {
        self.lines.iter().flat_map(|(_, pairs)| pairs).all(|pair| pair.difference().is_some())
    }

    fn ranking(&self, mark: usize) -> Ranking {
        let mut ranking = Ranking::default();
        for (at, (name, pairs)) in self.lines.iter().enumerate() {
            for (other, others) in &self.lines[at + 1..] {
                let (one, two) = (&pairs[mark], &others[mark]);
                let (Some(a), Some(b), Some(c), Some(d)) = (one.real, two.real, one.replay, two.replay) else {
                    continue;
                };
                let (Some(real), Some(replay)) = (a.ranked(&b), c.ranked(&d)) else {
                    ranking.undecided += 1;
                    continue;
                };
                ranking.decided += 1;
                if real != replay {
                    let (less, more) = if real == Ordering::Less { (name, other) } else { (other, name) };
                    ranking.reversed.push(format!("{less} < {more}"));
                }
            }
        }
        ranking
    }

    /// The table, 80 columns wide, and the rankings.
    pub fn table(&self) -> String {
        let bytes = |runs: Option<Runs>| runs.map_or("-".into(), |runs| Unit::Bytes.show(runs.median));
        let mut out = format!("{:<NAME$}", "candidate");
        for mark in &self.marks {
            let _ = write!(out, "{:>11}{:>10}{:>8}", format!("real {mark}"), "replay", "diff");
        }
        out.push('\n');
        for (candidate, pairs) in &self.lines {
            let name: String = match candidate.chars().count() {
                0..=NAME => candidate.clone(),
                _ => candidate.chars().take(NAME - 3).chain("...".chars()).collect(),
            };
            let _ = write!(out, "{name:<NAME$}");
            for pair in pairs {
                let difference = pair.difference().map_or("-".into(), |percent| match percent.abs() < 1000.0 {
                    true => format!("{percent:+.1}%"),
                    false => format!("{percent:+.0}%"),
                });
                let _ = write!(out, "{:>11}{:>10} {difference:>7}", bytes(pair.real), bytes(pair.replay));
            }
            out.push('\n');
        }
        for (at, mark) in self.marks.iter().enumerate() {
            let Ranking { decided, reversed, undecided } = self.ranking(at);
            let agree = match (decided, reversed.is_empty()) {
                (0, _) => "not tested".to_string(),
                (_, true) => format!("agrees in all {decided} pairs of candidates"),
                _ => {
                    format!("differs in {} of {decided} pairs: the program has {}", reversed.len(), reversed.join(", "))
                }
            };
            let _ = write!(out, "ranking by {mark}: {agree}");
            if undecided > 0 {
                let _ = write!(
                    out,
                    "; {undecided} not compared: runs of the program or of the replay overlap, or are fewer than {LEAST_SAMPLES}"
                );
            }
            out.push('\n');
        }
        out
    }

    /// Every figure, a line for each candidate and mark.
    pub fn csv(&self) -> String {
        let mut out = csv::Writer::from_writer(Vec::new());
        let mut put = |fields: &[String]| out.write_record(fields).expect("as many fields as in the head, into memory");
        put(&HEAD.split(',').map(String::from).collect::<Vec<_>>());
        let runs = |runs: Option<Runs>| match runs {
            Some(runs) => {
                [runs.median.to_string(), runs.least.to_string(), runs.most.to_string(), runs.count.to_string()]
            }
            None => ["".into(), "".into(), "".into(), "0".into()],
        };
        for (at, mark) in self.marks.iter().enumerate() {
            for (candidate, pairs) in &self.lines {
                let difference = pairs[at].difference().map_or(String::new(), |percent| format!("{percent:.2}"));
                let start = [mark.to_string(), candidate.clone()];
                put(&[&start[..], &runs(pairs[at].real), &runs(pairs[at].replay), &[difference]].concat());
            }
        }
        String::from_utf8(out.into_inner().expect("memory takes all")).expect("it was given text")
    }
}

/// The columns of [`Agreement::csv`].
const HEAD: &str = "mark,candidate,real_bytes,real_least,real_most,real_runs,replay_bytes,replay_least,replay_most,replay_runs,\
                    difference_percent";

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: &[f64]) -> Option<Runs> {
        Runs::of(values.iter().map(|mib| mib * 1024.0 * 1024.0).collect())
    }

    fn agreement(lines: &[(&str, &[f64], &[f64])]) -> Agreement {
        let pair = |(name, real, replay): &(&str, &[f64], &[f64])| {
            let pair = Pair { real: runs(real), replay: runs(replay) };
            (name.to_string(), vec![pair, pair])
        };
        Agreement { marks: vec!["peak", "idle"], lines: lines.iter().map(pair).collect() }
    }

    #[test]
    fn a_table_has_medians_differences_and_rankings() {
        let found = agreement(&[
            ("system", &[9.0, 9.0, 10.0, 10.0, 30.0], &[11.0; 5]),
            ("jemalloc:narenas=1,tcache=false", &[5.0, 5.0, 5.0, 5.0, 6.0], &[5.0, 4.0, 5.0, 6.0, 7.0]),
            ("mimalloc", &[29.0, 30.0, 40.0, 40.0, 41.0], &[3.0; 5]),
        ]);
        let table = found.table();
        assert!(table.lines().all(|line| line.len() <= 80 || line.starts_with("ranking")), "{table}");
        let line: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(line, ["system", "10.0", "MiB", "11.0", "MiB", "+10.0%", "10.0", "MiB", "11.0", "MiB", "+10.0%"]);
        assert!(table.contains("jemalloc:narenas=1,..."), "{table}");
        // system and mimalloc overlap in the program; jemalloc and mimalloc are the other way around in the replay.
        let wanted =
            Ranking { decided: 2, reversed: vec!["jemalloc:narenas=1,tcache=false < mimalloc".into()], undecided: 1 };
        assert_eq!(found.ranking(0), wanted);
        assert!(table.contains("ranking by peak: differs in 1 of 2 pairs: the program has jemalloc"), "{table}");
        let csv = found.csv();
        assert!(csv.contains("peak,system,10485760,9437184,31457280,5,11534336,11534336,11534336,5,10.00\n"), "{csv}");
        assert!(csv.contains("idle,\"jemalloc:narenas=1,tcache=false\","), "{csv}");
        assert_eq!(csv.lines().count(), 7);
        assert!(found.is_complete());
    }

    /// Whichever stands first.
    #[test]
    fn a_ranking_needs_runs_that_are_apart_on_both_sides() {
        let ranking = |one: (&[f64], &[f64]), two: (&[f64], &[f64])| {
            let both = [("a", one.0, one.1), ("b", two.0, two.1)];
            let turned = [both[1], both[0]];
            let (found, same) = (agreement(&both).ranking(0), agreement(&turned).ranking(0));
            assert_eq!(found, same);
            (found.decided, found.reversed.len(), found.undecided)
        };
        let (low, high) = (&[1.0, 1.0, 1.0, 1.0, 2.0][..], &[3.0, 3.0, 3.0, 3.0, 4.0][..]);
        assert_eq!(ranking((low, low), (high, high)), (1, 0, 0));
        assert_eq!(ranking((low, high), (high, low)), (1, 1, 0));
        assert_eq!(ranking((low, low), (high, low)), (0, 0, 1), "a tie of the replay");
        assert_eq!(ranking((low, &[1.0, 2.0, 3.0, 4.0, 5.0]), (high, low)), (0, 0, 1), "noise of the replay");
        assert_eq!(ranking((&low[..1], low), (&high[..1], high)), (0, 0, 1), "one run says nothing of noise");
    }

    #[test]
    fn columns_do_not_touch() {
        let found = agreement(&[("system", &[0.01], &[9.0]), ("a:with=four,and=twenty,x=1", &[1000.0], &[0.5])]);
        let table = found.table();
        let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(words[1..3].iter().all(|words| words.len() == 11), "{table}");
        assert!(table.lines().take(3).all(|line| line.len() <= 80), "{table}");
    }

    #[test]
    fn a_candidate_without_rows_is_said() {
        let found = agreement(&[("system", &[9.0], &[9.0]), ("jemalloc", &[], &[9.0])]);
        assert!(!found.is_complete());
        assert!(found.table().contains("ranking by idle: not tested"), "{}", found.table());
        assert!(found.csv().contains("idle,jemalloc,,,,0,"), "{}", found.csv());
    }
}
