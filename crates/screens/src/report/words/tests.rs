//! What each word and sentence says.

use super::*;
use allocanary_measure::metrics::metric_of_all;
use allocanary_measure::summary::{Point, Tail};
use allocanary_rows::Candidate;
use allocanary_rows::version::Version;

fn named(candidate: &str) -> Candidate {
    Candidate::read(candidate, &BTreeMap::new())
}

#[test]
fn what_came_back_is_named_up_to_a_quarter_more_than_live() {
    let line = |candidate: &str, worst: Option<f64>| {
        let worst = worst.and_then(|worst| MedianEstimate::of(&[worst]));
        let estimates = worst.map(|worst| ("worst_idle".into(), worst)).into_iter().collect();
        let points = vec![
            None,
            Some(Point { estimates, failed: 0, anatomy: None, over_time: None, environment: Default::default() }),
        ];
        CandidatePoints { candidate: named(candidate), version: Version::default(), of_several_versions: false, points }
    };
    let said = |lines: Vec<CandidatePoints>, column| {
        settled(&Panel { lines, columns: vec![1, 8], ..Panel::default() }, column)
    };
    let all = || vec![line("a", Some(1.25)), line("b", Some(1.26)), line("c", None), line("d", Some(1.0))];
    let wanted = "Growth since start within 25 % of requested bytes at every rest: a (1.25), d (1.00).";
    assert_eq!((said(all(), 1).as_deref(), said(all(), 0)), (Some(wanted), None));
    let none = "Growth since start within 25 % of requested bytes at every rest: of no candidate.";
    assert_eq!(said(vec![line("b", Some(1.26))], 1).as_deref(), Some(none));
}

#[test]
fn what_fails_more_often_gets_neither_the_star_nor_the_first_sentence() {
    let line = |candidate: &str, mib: f64, failed: usize| {
        let estimates = [("resident".into(), MedianEstimate::of(&[mib * f64::from(1 << 20); 5]).unwrap())].into();
        let point = Point { estimates, failed, anatomy: None, over_time: None, environment: Default::default() };
        CandidatePoints {
            candidate: named(candidate),
            version: Version::default(),
            of_several_versions: false,
            points: vec![Some(point)],
        }
    };
    let panel = |failed: usize| Panel {
        lines: vec![line("now", 90.0, 1), line("small", 40.0, 1), line("least", 20.0, failed)],
        columns: vec![8],
        ..Panel::default()
    };
    let said = |panel: Panel| (starred(&panel, 0, "resident"), headline(&panel).unwrap());
    let (star, text) = said(panel(1));
    assert!(star == Some(2) && text.starts_with("At 8 threads least keeps the least"), "{text}");
    let (star, text) = said(panel(2));
    assert!(star == Some(1) && text.starts_with("At 8 threads small keeps the least"), "{text}");
    assert!(!text.contains("20.0"), "{text}");
}

#[test]
fn what_rises_from_zero_has_no_ratio() {
    let one = GroupComparison {
        old: 0.0,
        new: 3.0,
        n: (5, 5),
        interval: Some((f64::NAN, f64::NAN)),
        p: 0.01,
        quantile: None,
        of_family: None,
        tails: [Tail::Clear; 2],
        least_p: 0.0,
        margin: 0.02,
        verdict: Verdict::Worse,
        family: 1,
        doubted: false,
    };
    assert_eq!(verdict(&one), "worse: from 0 to 3, n=5");
    assert_eq!((changed(&one).as_str(), short_verdict(&one).as_str()), ("from 0 to 3", "worse 0 to 3"));
}

#[test]
fn spikes_and_too_few_runs_to_see_them_are_said() {
    let one = GroupComparison {
        old: 100.0,
        new: 100.0,
        n: (40, 40),
        interval: Some((0.999, 1.001)),
        p: 0.9,
        margin: 0.02,
        verdict: Verdict::Different,
        family: 1,
        doubted: false,
        quantile: None,
        of_family: None,
        tails: [Tail::Clear, Tail::Spikes { beyond: 8 }],
        least_p: 0.0,
    };
    assert_eq!(verdict(&one), "different: +0.0 % [-0.1 %, +0.1 %], n=40, spikes in 8 of 40");
    assert_eq!(short_verdict(&one), "different +0.0 %\n[-0.1, +0.1]\nspikes in 8 of 40");
    let gone = GroupComparison { tails: [Tail::Spikes { beyond: 9 }, Tail::Clear], ..one };
    assert!(verdict(&gone).ends_with(", spikes gone, 9 of 40"));
    let few = Tail::Open { beyond: 0, repeats: 12 };
    let equal = GroupComparison { n: (10, 10), verdict: Verdict::Equal, tails: [few; 2], ..one };
    let said = |one: &GroupComparison| repeats([("a".to_string(), one)].into_iter());
    let wanted = "Tail: undecided where equal, 12 repeats would exclude spikes in a fifth of the runs.";
    assert_eq!((said(&equal).as_deref(), said(&one)), (Some(wanted), None));
}

#[test]
fn what_is_undecided_is_counted_by_what_would_decide_it() {
    let easy = GroupComparison {
        old: 100.0,
        new: 110.0,
        n: (8, 8),
        interval: Some((0.95, 1.3)),
        p: 0.1,
        quantile: None,
        of_family: None,
        tails: [Tail::Clear; 2],
        least_p: 0.0,
        margin: 0.02,
        verdict: Verdict::Undecided,
        family: 1,
        doubted: false,
    };
    let (hard, busy) = (GroupComparison { new: 101.99, ..easy }, GroupComparison { doubted: true, ..easy });
    let said = |all: &[(GroupComparison, usize)]| {
        let all = all.iter().flat_map(|(one, times)| (0..*times).map(move |at| (format!("c{at}"), one)));
        repeats(all)
    };
    assert_eq!(said(&[(GroupComparison { verdict: Verdict::Equal, ..easy }, 3)]), None);
    assert_eq!(said(&[(easy, 3)]).unwrap(), "Undecided: about 22 repeats would decide.");
    let wanted = "Undecided: about 22 repeats would decide 1 of 9; no number of repeats would decide 2, whose samples \
                  spread too far (c0; c1); the machine was too busy to judge 6, to be measured again when it is idle \
                  (c0; c1; c2; c3; c4; and 1 more).";
    assert_eq!(said(&[(easy, 1), (hard, 2), (busy, 6)]).unwrap(), wanted);
    let none = said(&[(hard, 1)]).unwrap();
    assert!(none.starts_with("Undecided: no number of repeats would decide 1, "), "{none}");
}

#[test]
fn figures_read_as_people_write_them() {
    let mib = f64::from(1 << 20);
    let estimate = MedianEstimate { n: 9, median: 84.1 * mib, low: 82.0 * mib, high: 86.9 * mib, spread: mib };
    let rss = metric_of_all("resident");
    assert_eq!(median(rss, Some(&estimate)), "84.1 MiB");
    assert_eq!(interval(rss, Some(&estimate)), "[82.0, 86.9]");
    assert_eq!(interval(rss, Some(&MedianEstimate { low: 0.9 * mib, ..estimate })), "[922 KiB, 86.9 MiB]");
    assert_eq!((median(rss, None).as_str(), interval(rss, None).as_str()), ("-", ""));
    let changes = [(1.0, "+0.0 %"), (0.958, "-4.2 %"), (1.36, "+36 %"), (3.12, "3.1x"), (0.5, "-50 %")];
    for (ratio, text) in changes {
        assert_eq!(change(ratio), text);
    }
    assert_eq!(column(Axis::Threads, 1), "1 thread");
    assert_eq!(column(Axis::Cores, 40), "40 cores");
}
