//! For the same rows, every report has the same answer.

use std::collections::BTreeMap;

use allocanary_measure::metrics::metric_of_all;
use allocanary_measure::summary::{CandidatePoints, MedianEstimate, Point, StudyNotes, Tail};
use allocanary_rows::Candidate;
use allocanary_rows::program::OverTime;
use allocanary_rows::version::Version;
use allocanary_sys::rng::Rng;
use allocanary_text::outside::TerminalStyle;

use super::*;
use crate::report::table::{self, View};

const NAMES: [&str; 4] = ["own", "jemalloc:narenas=1", "mimalloc:allow_thp=0", "system:arena_max=1"];

/// A panel about a program. Each candidate has a peak in MiB and a time relative to that of the first.
fn drawn(rng: &mut Rng, limited: bool) -> Findings {
    let names = &NAMES[..2 + rng.below(3)];
    let estimate = |median: f64| MedianEstimate { n: 10, median, low: median * 0.99, high: median * 1.01, spread: 0.0 };
    let mut comparisons: BTreeMap<&str, Vec<(usize, usize, GroupComparison)>> = BTreeMap::new();
    let mut lines = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let mut estimates = BTreeMap::new();
        for metric in ["peak_resident", "wall"] {
            let median = if at == 0 { 100.0 } else { 20.0 + rng.below(180) as f64 };
            estimates.insert(metric.into(), estimate(median * f64::from(1 << 20)));
            if at > 0 {
                let ratio = median / 100.0;
                let verdict = [Verdict::Undecided, Verdict::Better][usize::from(ratio < 0.9 && rng.below(4) > 0)];
                comparisons.entry(metric).or_default().push((at, 0, compared(ratio, verdict)));
            }
        }
        let preload = format!("/opt/preload-{}", name.split(':').next().unwrap_or_default());
        lines.push(CandidatePoints {
            candidate: Candidate::read(name, &BTreeMap::new()),
            version: Version { allocator: "1.0".into(), builds: Vec::new() },
            of_several_versions: false,
            points: vec![Some(Point {
                estimates,
                failed: 0,
                anatomy: None,
                over_time: Some(OverTime::default()),
                environment: [("LD_PRELOAD".to_string(), preload)].into(),
            })],
        });
    }
    let in_metrics = comparisons.into_iter().map(|(name, all)| (name.into(), all)).collect();
    let (title, columns) = ("service".to_string(), vec![0]);
    let panel = Panel { title, axis: Axis::Program, columns, lines, in_metrics, ..Panel::default() };
    let metrics = ["peak_resident", "wall"].map(|name| metric_of_all(name).clone()).to_vec();
    let within = if limited { vec![("wall".to_string(), 0.05)] } else { Vec::new() };
    let about = StudyNotes { metrics, ..StudyNotes::default() };
    Findings {
        sections: vec![StudySection { about, panels: vec![panel], within, ..StudySection::default() }],
        ..Findings::default()
    }
}

fn compared(ratio: f64, verdict: Verdict) -> GroupComparison {
    GroupComparison {
        quantile: None,
        old: 1.0,
        new: ratio,
        n: (10, 10),
        interval: Some((ratio * 0.98, ratio * 1.02)),
        of_family: None,
        tails: [Tail::default(), Tail::default()],
        p: 0.001,
        least_p: 1e-5,
        margin: 0.05,
        verdict,
        family: 1,
        doubted: false,
    }
}

/// The expected answer: the best candidate that is surely better and within the limit.
fn wanted(findings: &Findings) -> String {
    let section = &findings.sections[0];
    let panel = &section.panels[0];
    let sound = |line: &usize| {
        let peak = panel.comparison("peak_resident", *line, 0).unwrap();
        let wall = panel.comparison("wall", *line, 0).unwrap();
        let fits = wall.verdict == Verdict::Better || wall.interval.unwrap().1 <= 1.05;
        peak.verdict == Verdict::Better && (section.within.is_empty() || fits)
    };
    let value = |line: &usize| panel.comparison("peak_resident", *line, 0).unwrap().new;
    let best = (1..panel.lines.len()).filter(sound).min_by(|a, b| value(a).total_cmp(&value(b)));
    panel.lines[best.unwrap_or(0)].name()
}

#[test]
fn every_report_names_the_same_candidate_and_has_its_lines() {
    let mut rng = Rng::new(7);
    let look = TerminalStyle { color: false, width: 80 };
    let mut kept = 0;
    for round in 0..300 {
        let findings = drawn(&mut rng, round % 2 == 0);
        let wanted = wanted(&findings);
        let texts = crate::report::ALL.iter().map(|report| (report.name, (report.render)(&findings, &look)));
        for (report, text) in texts.filter(|(report, _)| *report != "csv") {
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ").replace("<wbr>", "");
            let answer =
                |end: &str| flat.split("Answer").nth(1).and_then(|text| text.split(end).next()).unwrap_or_default();
            let said = match report {
                "json" => flat.contains(&format!("\"candidate\": \"{wanted}\", \"choice\"")),
                "table" => answer("To run with").contains(&wanted),
                "html" => answer("</p>").contains(&wanted),
                _ => answer("<table").contains(&wanted),
            };
            assert!(said, "{report}: wanted {wanted}\n{text}");
            let preload = format!("/opt/preload-{}", wanted.split(':').next().unwrap());
            let others = NAMES.iter().map(|name| format!("/opt/preload-{}", name.split(':').next().unwrap()));
            assert_eq!(text.contains(&preload), wanted != "own", "{report}: {wanted}\n{text}");
            assert!(others.filter(|other| *other != preload).all(|other| !text.contains(&other)), "{report}\n{text}");
        }
        let brief = crate::draw::short(&answers(&findings), &look);
        assert!(brief.contains(&wanted) && brief.lines().count() <= 10, "wanted {wanted}\n{brief}");
        kept += usize::from(wanted == "own");
    }
    assert!((20..280).contains(&kept), "both answers were drawn: {kept}");
}

/// If all runs of the first candidate failed, or none has the metric, nothing can be compared. These are two reasons.
#[test]
fn a_first_candidate_without_figures_is_not_kept() {
    let mut findings = drawn(&mut Rng::new(1), false);
    let first = |findings: &mut Findings, gone: &str| {
        let point = findings.sections[0].panels[0].lines[0].points[0].as_mut().unwrap();
        point.estimates.retain(|name, _| !gone.contains(&**name));
        (sentences(findings), pasted(findings).len())
    };
    let said = "Nothing is proposed: own has no peak_resident to compare with";
    assert_eq!(first(&mut findings, "peak_resident"), (vec![format!("{said}.")], 0));
    let failed = format!("{said}, since none of its runs succeeded.");
    assert_eq!(first(&mut findings, "peak_resident wall"), (vec![failed], 0));
}

/// The candidate with the least memory is not taken if it costs more than the tolerance. It is named second.
#[test]
fn the_least_memory_at_a_higher_cost_comes_second() {
    let said = |findings: &Findings| sentences(findings).remove(0);
    let costs = |ratios: [f64; 2], limited: bool| {
        let with_three = |findings: &Findings| findings.sections[0].panels[0].lines.len() >= 3;
        let mut findings = (1..).map(|seed| drawn(&mut Rng::new(seed), limited)).find(with_three).unwrap();
        let panel = &mut findings.sections[0].panels[0];
        panel.lines.truncate(3);
        for (line, median) in [(1, 20.0), (2, 50.0)] {
            let point = panel.lines[line].points[0].as_mut().unwrap();
            point.estimates.get_mut("peak_resident").unwrap().median = median * f64::from(1 << 20);
        }
        let of = |ratios: [f64; 2], verdicts: [Verdict; 2]| {
            let each = (1..).zip(ratios.into_iter().zip(verdicts));
            each.map(|(line, (ratio, verdict))| (line, 0, compared(ratio, verdict))).collect::<Vec<_>>()
        };
        let better = [Verdict::Better; 2];
        panel.in_metrics.insert("peak_resident".into(), of([0.2, 0.5], better));
        panel.in_metrics.insert("wall".into(), of([1.0, 1.0], [Verdict::Equal; 2]));
        panel.in_metrics.insert("p99".into(), of(ratios, [Verdict::Worse; 2]));
        findings
    };
    let text = said(&costs([10.0, 1.05], false));
    assert!(text.starts_with("Take mimalloc:allow_thp=0: it has peak_resident, 50.0 MiB "), "{text}");
    assert!(text.contains("; its cost (none is surely more than 10 % worse): p99 worse "), "{text}");
    assert!(text.contains(" Less, at a higher cost: jemalloc:narenas=1, 20.0 MiB (better "), "{text}");
    let text = said(&costs([10.0, 10.0], false));
    let keep = "Keep own: no candidate is clearly better in peak_resident and at most 10 % worse in p99. Less, at a higher cost: jemalloc";
    assert!(text.starts_with(keep), "{text}");
    let text = said(&costs([1.05, 1.05], false));
    assert!(text.starts_with("Take jemalloc:narenas=1: it has the least ") && !text.contains("higher cost"), "{text}");
    // An undecided cost is no reason against a candidate, unless its median is more than twice as bad.
    let undecided = |ratio: f64| {
        let mut findings = costs([ratio, 1.0], false);
        let all = findings.sections[0].panels[0].in_metrics.get_mut("p99").unwrap();
        all[0].2.verdict = Verdict::Undecided;
        said(&findings)
    };
    assert!(undecided(1.9).starts_with("Take jemalloc:narenas=1: "), "{}", undecided(1.9));
    assert!(undecided(2.1).starts_with("Take mimalloc:allow_thp=0: "), "{}", undecided(2.1));
    // The user's limit is on the time alone.
    let text = said(&costs([10.0, 1.05], true));
    assert!(text.starts_with("Take jemalloc:narenas=1: ") && !text.contains("higher cost"), "{text}");
}

/// A search has its own answer. No report gives another one.
#[test]
fn what_a_search_decided_is_the_answer() {
    let mut findings = drawn(&mut Rng::new(1), false);
    findings.sections[0].about.decided =
        Some(Decided { text: "Use system:arena_max=1.".into(), lines: vec!["ENV A=1".into()], chosen: None });
    assert_eq!(sentences(&findings), ["Use system:arena_max=1."]);
    assert_eq!(pasted(&findings).iter().flat_map(|one| one.lines.clone()).collect::<Vec<_>>(), ["ENV A=1"]);
}

/// Many tables do not push the answer off the screen. The tables that do not fit are counted.
#[test]
fn a_measurement_ends_with_forty_lines_and_the_answer_on_the_last_screen() {
    let mut rng = Rng::new(3);
    let look = TerminalStyle { color: false, width: 80 };
    let view = View { lines: Some(40), ..View::default() };
    for studies in [1, 2, 12] {
        let sections = (0..studies).flat_map(|_| drawn(&mut rng, false).sections).collect();
        let text = table::view(&Findings { sections, ..Findings::default() }, &view, &look);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() <= 40, "{} lines\n{text}", lines.len());
        let answer = lines.iter().position(|line| *line == "Answer").unwrap_or_else(|| panic!("{text}"));
        assert!(lines.len() - answer <= 21, "{text}");
        assert_eq!(text.contains(" more tables: `allocanary report`"), studies == 12, "{text}");
    }
}

/// The columns about which the answer speaks are on the screen, however little room there is.
#[test]
fn the_first_table_is_never_left_out() {
    let findings = drawn(&mut Rng::new(3), false);
    let look = TerminalStyle { color: false, width: 80 };
    let text = table::view(&findings, &View { lines: Some(1), ..View::default() }, &look);
    assert!(text.lines().any(|line| line.starts_with(" candidate ")), "{text}");
}

/// If not all columns fit next to each other, the names in a narrow table stay whole.
#[test]
fn a_narrow_table_breaks_no_name() {
    let findings = drawn(&mut Rng::new(5), false);
    for width in [60, 80, 100, 119] {
        let text = table::view(&findings, &View::default(), &TerminalStyle { color: false, width });
        for line in &findings.sections[0].panels[0].lines {
            assert!(text.lines().any(|found| found.starts_with(&format!(" {} ", line.name()))), "{width}\n{text}");
        }
        let tables = text.lines().filter(|line| line.starts_with([' ', '─']) && !line.starts_with("  "));
        assert!(tables.clone().all(|line| line.chars().count() <= width.into()), "{width}\n{text}");
    }
}
