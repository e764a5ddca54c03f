//! Sentences about where each candidate's memory is. In: a panel. Out: the figures of one column, and sentences.

use std::cmp::Ordering;

use super::words;
use allocanary_measure::summary::anatomy::{Anatomy, PARTS, Part};
use allocanary_measure::summary::{Axis, CandidatePoints, Panel};
use allocanary_rows::Moment;
use allocanary_text::parts::OVERHEAD;

/// The letter of each part in a bar of text, in the order of [`PARTS`].
pub const LETTERS: [char; PARTS.len()] = ['L', 'C', 'F', 'P', 'Z', 'M', 'H', 'R', 'O', 'S', 'B', 'X', '?'];

/// The anatomies of a column, by line. Empty if no row of the column has one.
pub fn at(panel: &Panel, column: usize) -> Vec<(usize, &CandidatePoints, Anatomy)> {
    let found = |line: &CandidatePoints| line.points.get(column)?.as_ref()?.anatomy;
    panel.lines.iter().enumerate().filter_map(|(at, line)| Some((at, line, found(line)?))).collect()
}

/// The anatomy with the fullest thread caches. If no allocator counts these, the one with the most memory.
pub fn fullest<'a, 'b>(
    found: &'b [(usize, &'a CandidatePoints, Anatomy)],
) -> Option<&'b (usize, &'a CandidatePoints, Anatomy)> {
    let most = |anatomy: &Anatomy| (anatomy.get(Part::Cached), anatomy.rss);
    found.iter().max_by(|a, b| most(&a.2).partial_cmp(&most(&b.2)).unwrap_or(Ordering::Equal))
}

/// `where the memory is when idle, at 64 threads`.
pub fn heading(panel: &Panel, column: usize, found: &[(usize, &CandidatePoints, Anatomy)]) -> String {
    let when = match found.first() {
        Some((_, _, anatomy)) if anatomy.moment == Moment::Peak => match found.iter().any(|found| found.2.is_walked) {
            true => "in the largest reading",
            false => "near the peak",
        },
        _ => "when idle",
    };
    match panel.axis {
        Axis::Program => format!("where the memory is {when}"),
        axis => format!("where the memory is {when}, at {}", words::column(axis, panel.columns[column])),
    }
}

/// A sentence about the largest part of those that depend on the allocator, if it is at least a quarter of all: `Some 38.2 of jemalloc's
/// 80.1 MiB are in the caches of 64 idle threads.`
pub fn sentence(candidate: &str, anatomy: &Anatomy) -> Option<String> {
    let decided = OVERHEAD.into_iter().chain([Part::Unknown].into_iter().filter(|_| !anatomy.is_divided));
    let most = decided.max_by(|a, b| anatomy.get(*a).total_cmp(&anatomy.get(*b)))?;
    if anatomy.get(most) < anatomy.rss / 4.0 {
        return None;
    }
    let threads = match anatomy.threads {
        Some(1) => "one idle thread".to_string(),
        Some(threads) => format!("{threads} idle threads"),
        None => "idle threads".to_string(),
    };
    let place = match most {
        Part::Cached if anatomy.caches_are_known => format!("in the caches of {threads}"),
        Part::Cached => format!("in the caches of {threads} and in rounding, which it does not tell apart"),
        Part::Fragmentation => "free, in pages that also have live blocks".into(),
        Part::FreePages => "in freed pages that it keeps".into(),
        Part::LazyFree => "in freed pages that the kernel may take".into(),
        Part::Metadata => "in its own tables".into(),
        Part::Unknown => "heap: from outside, live blocks and what the allocator keeps look alike".into(),
        _ => "padding of huge pages: nobody asked for it".into(),
    };
    let (part, all) = (words::mebibytes(anatomy.get(most)), words::mebibytes(anatomy.rss));
    let exit = anatomy.at_exit.map_or(String::new(), |(blocks, had)| {
        let (blocks, had) = (words::mebibytes(blocks), words::mebibytes(had));
        format!(
            " At the program's exit it counted {blocks} MiB in blocks, those in thread caches included, of {had} MiB."
        )
    });
    Some(format!("Some {part} of {candidate}'s {all} MiB are {place}.{exit}"))
}

/// How the candidate at `taken`, or else the one with the least memory, differs from the first: `b has 50.0 MiB less than a: 38.0 less
/// cached by threads, 12.0 less stacks.` If there is only one candidate, the sentence says where most of its memory is. `None` if the two
/// are nearly equal.
pub fn difference(found: &[(usize, &CandidatePoints, Anatomy)], taken: Option<usize>) -> Option<String> {
    let (_, line, first) = found.first()?;
    if found.len() == 1 {
        return sentence(&line.name(), first);
    }
    let least = || found.iter().skip(1).min_by(|a, b| a.2.rss.total_cmp(&b.2.rss));
    let (_, other_line, other) = found.iter().skip(1).find(|(at, _, _)| Some(*at) == taken).or_else(least)?;
    let mut parts: Vec<(f64, &str)> =
        PARTS.iter().map(|part| (other.get(*part) - first.get(*part), name_of_more(first, other, *part))).collect();
    parts.retain(|(bytes, _)| is_much(*bytes));
    parts.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    let all = other.rss - first.rss;
    if !is_much(all) || parts.is_empty() {
        return None;
    }
    let less = |bytes: f64| format!("{} {}", words::mebibytes(bytes.abs()), if bytes < 0.0 { "less" } else { "more" });
    const SAID: usize = 3;
    let said: Vec<String> = parts.iter().take(SAID).map(|(bytes, name)| format!("{} {name}", less(*bytes))).collect();
    let (other, first) = (other_line.name(), line.name());
    let all = less(all).replacen(' ', " MiB ", 1);
    Some(format!("{other} has {all} than {first}: {}.", said.join(", ")))
}

/// The name of a part. Two candidates may have different names for it: the name of the candidate with more is used.
fn name_of_more(a: &Anatomy, b: &Anatomy, part: Part) -> &'static str {
    if a.get(part) >= b.get(part) { a.name(part) } else { b.name(part) }
}

/// What a bar shows: `61.2 of a peak of 98.4` if its parts were read before a program's peak, otherwise `98.4`.
pub fn whole(anatomy: &Anatomy) -> String {
    let rss = words::mebibytes(anatomy.rss);
    match anatomy.peak.filter(|_| is_before_its_peak(anatomy)) {
        Some(peak) => format!("{rss} of a peak of {}", words::mebibytes(peak)),
        None => rss,
    }
}

/// Whether the program's peak was higher than the memory of the parts: by more than a fiftieth, and by enough to be
/// visible.
pub fn is_before_its_peak(anatomy: &Anatomy) -> bool {
    anatomy.peak.is_some_and(|peak| is_much(peak - anatomy.rss) && peak - anatomy.rss > peak / 50.0)
}

/// The parts with at least 0.05 MiB, the largest first: `C 38.2, D 22.8`.
pub fn figures(anatomy: &Anatomy) -> String {
    let mut parts: Vec<(f64, char)> =
        PARTS.iter().zip(LETTERS).map(|(part, letter)| (anatomy.get(*part), letter)).collect();
    parts.retain(|(bytes, _)| is_much(*bytes));
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let parts: Vec<String> =
        parts.iter().map(|(bytes, letter)| format!("{letter} {}", words::mebibytes(*bytes))).collect();
    parts.join(", ")
}

/// A bar of `width` letters, in proportion to the parts. Rounding errors are carried over from part to part, so that
/// the bar is full.
pub fn bar(anatomy: &Anatomy, width: usize) -> String {
    let whole: f64 = PARTS.iter().map(|part| anatomy.get(*part).max(0.0)).sum();
    let (mut sum, mut bar) = (0.0, String::new());
    for (part, letter) in PARTS.iter().zip(LETTERS) {
        sum += anatomy.get(*part).max(0.0);
        let end = if whole > 0.0 { (sum / whole * width as f64).round() as usize } else { 0 };
        bar.extend(std::iter::repeat_n(letter, end.saturating_sub(bar.len())));
    }
    bar
}

/// The letters and their meanings, for the parts that some candidate has.
pub fn key(anatomies: &[(usize, &CandidatePoints, Anatomy)]) -> String {
    key_of(&anatomies.iter().map(|(_, _, anatomy)| *anatomy).collect::<Vec<_>>())
}

/// The same as [`key`], for anatomies without their lines.
pub fn key_of(anatomies: &[Anatomy]) -> String {
    named(anatomies).into_iter().map(|(_, letter, name)| format!("{letter} {name}")).collect::<Vec<_>>().join("; ")
}

/// The parts of which some candidate has at least 0.05 MiB, each with its letter and its name.
pub fn named(anatomies: &[Anatomy]) -> Vec<(Part, char, String)> {
    let some = |part: Part| anatomies.iter().find(|anatomy| is_much(anatomy.get(part)));
    let named = PARTS.iter().zip(LETTERS).filter_map(|(part, letter)| {
        // If some allocators distinguish two parts and others do not, the part has two names.
        let first = some(*part)?.name(*part);
        let other = anatomies.iter().map(|anatomy| anatomy.name(*part)).find(|name| *name != first);
        let other = other.map_or(String::new(), |other| format!(" (or {other})"));
        Some((*part, letter, format!("{first}{other}")))
    });
    named.collect()
}

/// Whether an amount is at least 0.05 MiB. Smaller ones are not shown.
pub fn is_much(bytes: f64) -> bool {
    bytes.abs() >= 0.05 * f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_rows::Moment;
    use allocanary_rows::sample::Measured;

    fn anatomy(readings: &[(&str, u64)]) -> Anatomy {
        let column = |(name, mebibytes): &(&str, u64)| (name.to_string(), vec![Some(mebibytes << 20)]);
        let readings = readings.iter().map(column).collect();
        let answer =
            Measured { moments: vec![Moment::Idle], requested_bytes: vec![4 << 20], readings, ..Measured::default() };
        Anatomy::of(&answer, Some(64)).unwrap()
    }

    #[test]
    fn a_sentence_says_where_the_most_is() {
        let cached = anatomy(&[
            ("part_files_bytes", 4),
            ("part_unknown_bytes", 76),
            ("allocator_live_bytes", 26),
            ("allocator_cached_bytes", 50),
        ]);
        let said = sentence("jemalloc", &cached).unwrap();
        assert_eq!(said, "Some 50.0 of jemalloc's 80.0 MiB are in the caches of 64 idle threads.");
        assert_eq!(figures(&cached), "C 50.0, L 26.0, B 4.00");
        assert_eq!(bar(&cached, 20), "LLLLLLLCCCCCCCCCCCCB");
        let outside = anatomy(&[("part_files_bytes", 4), ("part_unknown_bytes", 76)]);
        let said = sentence("own", &outside).unwrap();
        assert!(said.starts_with("Some 76.0 of own's 80.0 MiB are heap: from outside"), "{said}");
        assert_eq!(bar(&outside, 20), "B???????????????????");
        let line = |name: &str| CandidatePoints {
            candidate: allocanary_rows::Candidate::read(name, &Default::default()),
            version: Default::default(),
            of_several_versions: false,
            points: Vec::new(),
        };
        let small = anatomy(&[
            ("part_files_bytes", 4),
            ("part_unknown_bytes", 30),
            ("allocator_live_bytes", 26),
            ("allocator_cached_bytes", 2),
        ]);
        let lines = [line("jemalloc"), line("jemalloc:narenas=1"), line("system")];
        let found = [(0, &lines[0], cached), (1, &lines[1], small), (2, &lines[2], outside)];
        let said = "jemalloc:narenas=1 has 46.0 MiB less than jemalloc: 48.0 less cached by threads";
        assert!(difference(&found, None).unwrap().starts_with(said), "{:?}", difference(&found, None));
        assert!(difference(&found, Some(2)).is_none(), "the same memory");
        assert_eq!(difference(&found[..1], None), sentence("jemalloc", &cached));
        let mut before_its_peak = outside;
        before_its_peak.peak = Some(98.4 * f64::from(1 << 20));
        assert_eq!((whole(&outside).as_str(), whole(&before_its_peak).as_str()), ("80.0", "80.0 of a peak of 98.4"));
        let even = anatomy(&[
            ("part_files_bytes", 4),
            ("part_unknown_bytes", 5),
            ("allocator_live_bytes", 5),
            ("allocator_dirty_bytes", 0),
        ]);
        assert_eq!(sentence("x", &even), None, "no part is a quarter of all");
        assert_eq!(bar(&even, 40).len(), 40);
    }
}
