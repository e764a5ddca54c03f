//! The page of unusual findings. It must be complete and safe, and fetch nothing.

use super::*;
use allocanary_measure::metrics::ALL as METRICS;
use allocanary_measure::summary::{
    Axis, CandidatePoints, Decided, GroupComparison, MedianEstimate, Panel, Point, StudyNotes, Tail, Verdict,
};
use allocanary_rows::Candidate;
use allocanary_rows::version::Version;

fn version(allocator: &str) -> Version {
    Version { allocator: allocator.into(), builds: Vec::new() }
}

const LOOK: TerminalStyle = TerminalStyle { color: false, width: 80 };

fn estimate(median: f64) -> MedianEstimate {
    MedianEstimate { n: 5, median, low: median * 0.9, high: median * 1.1, spread: median * 0.05 }
}

/// A point whose metrics all have this value.
fn point(value: Option<f64>) -> Option<Point> {
    Some(Point {
        estimates: value
            .iter()
            .flat_map(|value| METRICS.iter().map(|metric| (metric.name.clone(), estimate(*value))))
            .collect(),
        failed: 0,
        anatomy: None,
        over_time: None,
        environment: Default::default(),
    })
}

fn line(candidate: &str, points: Vec<Option<Point>>) -> CandidatePoints {
    CandidatePoints {
        candidate: Candidate::read(candidate, &Default::default()),
        version: version("1.0"),
        of_several_versions: false,
        points,
    }
}

fn findings(panel: Panel) -> Findings {
    let section = StudySection { panels: vec![panel], ..StudySection::default() };
    Findings { sections: vec![section], rows: 3, ..Findings::default() }
}

fn page(columns: &[u32], lines: Vec<CandidatePoints>) -> String {
    let panel =
        Panel { title: "server".into(), axis: Axis::Threads, columns: columns.to_vec(), lines, ..Panel::default() };
    render(&findings(panel), &LOOK)
}

#[test]
fn a_page_without_figures_still_stands() {
    let empty = render(&Findings::default(), &LOOK);
    assert!(empty.contains("There are no figures to show.") && empty.ends_with("</html>\n"), "{empty}");
    for page in [
        page(&[], vec![]),
        page(&[], vec![line("system", vec![])]),
        page(&[4], vec![]),
        page(&[1, 4], vec![line("system", vec![None, None])]),
        page(
            &[4],
            vec![line(
                "system",
                vec![Some(Point {
                    estimates: Default::default(),
                    failed: 3,
                    anatomy: None,
                    over_time: None,
                    environment: Default::default(),
                })],
            )],
        ),
    ] {
        assert!(page.contains("</html>") && !page.contains("<figure"), "{page}");
    }
}

#[test]
fn odd_figures_leave_gaps_and_no_nonsense() {
    for value in [0.0, -1.0, 1e300, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE] {
        let lines = vec![
            line("a", vec![point(Some(value)), point(Some(2e7)), None]),
            line("b", vec![point(None), point(Some(value)), point(Some(value))]),
        ];
        let page = page(&[1, 4, 16], lines);
        assert!(page.contains("</html>") && !page.contains("NaN"), "{value}");
    }
    let single = page(&[8], vec![line("system", vec![point(Some(3e7))])]);
    assert_eq!(
        single.matches("<figure>").count(),
        6,
        "four bars, the moments and the quantiles; no memory against time"
    );
    let equal = page(&[1, 2], vec![line("a", vec![point(Some(5e6)), point(Some(5e6))])]);
    assert_eq!(equal.matches("<figure>").count(), 5);
    let many: Vec<CandidatePoints> =
        (0..60).map(|at| line(&format!("c{at}"), vec![point(Some(1e6 * f64::from(at)))])).collect();
    assert!(page(&[1], many).contains("<code>c59</code>"));
}

/// With one column there are bars, because on an axis all points would lie above each other. With several columns there
/// are lines.
#[test]
fn one_column_is_drawn_as_bars_and_several_as_lines() {
    let bars = |page: &str| page.matches("<ul class=\"bars\">").count();
    let one = page(&[8], vec![line("a", vec![point(Some(4e6))]), line("b", vec![point(Some(2e6))])]);
    assert_eq!(bars(&one), 4, "resident, throughput, p99, cpu");
    assert!(!one.contains("by threads</h3>") && one.contains("Memory against throughput at 8 threads"), "{one}");
    assert!(one.contains("<i class=\"bar\" style=\"width:90.91%\">"), "4e6 of the interval's end, 4.4e6");
    let two = page(&[4, 8], vec![line("a", vec![point(Some(4e6)), point(Some(5e6))])]);
    assert_eq!((bars(&two), two.contains("Resident memory when idle, by threads</h3>")), (0, true));
}

/// The page of a search highlights no line: its answer may differ from the one that these rows alone would give.
#[test]
fn a_search_has_the_answer_and_no_bar_has_another() {
    let lines = || vec![line("a", vec![point(Some(4e6))]), line("b", vec![point(Some(2e6))])];
    let panel = || Panel { title: "x".into(), columns: vec![8], lines: lines(), ..Panel::default() };
    let mut findings = findings(panel());
    assert!(render(&findings, &LOOK).contains("<li class=\"row taken\">"));
    findings.sections[0].about.decided = Some(Decided { text: "Use b instead of a.".into(), ..Decided::default() });
    let page = render(&findings, &LOOK);
    assert!(!page.contains("row taken") && !page.contains("drawn in colour"), "{page}");
}

/// A moment that no row has is no tick on the axis. A live set of 0 is no line.
#[test]
fn pictures_show_what_there_is() {
    let mut lines = vec![line("a", vec![point(Some(4e6)), point(Some(4e6))])];
    for point in lines[0].points.iter_mut().flatten() {
        point.estimates.insert("requested".into(), estimate(0.0));
        point.estimates.remove("resident_released");
        point.estimates.remove("resident_purged");
    }
    let page = page(&[1, 4], lines);
    let run = &page[page.find("Resident memory over a run").unwrap()..];
    let run = &run[..run.find("</figure>").unwrap()];
    assert!(run.contains("\nidle\n") && !run.contains("released") && !run.contains("purged"), "{run}");
    assert!(!page.contains("The broken line is what the service has requested"), "{page}");
}

/// An unproven setting is a footnote. The box of problems appears only if there are problems.
#[test]
fn only_what_went_wrong_is_a_warning() {
    let lines = || vec![line("a", vec![point(Some(4e6))]), line("b:x=1", vec![point(Some(2e6))])];
    let panel = || Panel { title: "server".into(), columns: vec![8], lines: lines(), ..Panel::default() };
    let unproven =
        vec![(Candidate::read("b:x=1", &Default::default()), "x".to_string(), "nothing reads it".to_string())];
    let quiet = render(&Findings { unproven, notes: vec!["busy".into()], ..findings(panel()) }, &LOOK);
    assert!(!quiet.contains("What went wrong") && quiet.contains("<li>busy</li>"), "{quiet}");
    assert!(quiet.contains("b:<wbr>x=1</code><sup class=\"doubt\""), "{quiet}");
    assert!(!quiet.contains("<code>a</code><sup"), "only the unproven one: {quiet}");
    assert_eq!(quiet.matches("b:x=1: x was taken, but nothing reads it").count(), 1);
    let failed = render(&Findings { failures: vec![("c".into(), "killed".into(), 1)], ..findings(panel()) }, &LOOK);
    assert!(failed.contains("What went wrong") && !failed.contains("Unproven"), "{failed}");
}

#[test]
fn the_title_is_the_question() {
    let asked = |panel: Panel| {
        let page = render(&findings(panel), &LOOK);
        page.split_once("<h1>").unwrap().1.split_once("</h1>").unwrap().0.to_string()
    };
    let panel = |axis| Panel { title: "rsvc".into(), axis, columns: vec![0], ..Panel::default() };
    assert_eq!(asked(panel(Axis::Program)), "Which allocator for rsvc?");
    assert_eq!(asked(panel(Axis::Threads)), "Which allocator for rsvc?");
}

#[test]
fn text_from_outside_is_text() {
    let evil = "<script>alert(\"1\")</script>";
    let about = StudyNotes { question: evil.into(), ..StudyNotes::default() };
    let section = StudySection {
        name: None,
        about,
        panels: vec![Panel {
            title: evil.into(),
            axis: Axis::Cores,
            columns: vec![1, 2],
            lines: vec![
                CandidatePoints { version: version(evil), ..line(evil, vec![point(Some(1e6)), point(Some(2e6))]) },
                line("b", vec![point(Some(2e6)), None]),
            ],
            comparisons: vec![(
                1,
                0,
                GroupComparison {
                    old: 1e6,
                    new: 2e6,
                    n: (5, 5),
                    interval: Some((1.9, 2.1)),
                    p: 0.01,
                    least_p: 0.01,
                    quantile: None,
                    of_family: None,
                    tails: [Tail::Clear; 2],
                    margin: 0.02,
                    verdict: Verdict::Worse,
                    family: 1,
                    doubted: false,
                },
            )],
            ..Panel::default()
        }],
        ..StudySection::default()
    };
    let findings = Findings {
        sections: vec![section],
        rows: 3,
        failures: vec![(evil.into(), evil.into(), 2)],
        problems: vec![evil.into()],
        unproven: vec![(Candidate::read(evil, &Default::default()), evil.into(), evil.into())],
        ..Findings::default()
    };
    let page = render(&findings, &LOOK);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"), "{page}");
    assert!(page.contains("▲ worse 2.0x<small>[+90, 2.1x], n=5</small>"), "{page}");
}

#[test]
fn the_page_fetches_nothing_and_names_its_pictures() {
    let page = page(&[1, 4], vec![line("system", vec![point(Some(1e6)), point(Some(2e6))])]);
    for way in ["http://", "https://", "<script", " src=", "<link", "@import", "url("] {
        assert!(!page.contains(way), "{way}");
    }
    let count = |text| page.matches(text).count();
    assert_eq!(count("<svg viewBox=\"0 0"), count("role=\"img\" aria-label="));
    assert_eq!((count("<figure>"), count("<figcaption>")), (5, 5));
    assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">"));
}

#[test]
fn many_failures_do_not_hide_the_answer() {
    let failures = (0..20).map(|at| (format!("cell {at}"), "killed".to_string(), 1)).collect();
    let page = render(&Findings { failures, ..Findings::default() }, &LOOK);
    assert_eq!(page.matches("<li>failed: cell").count(), 20);
    assert!(page.contains("<summary>12 more</summary>"), "{page}");
}

#[test]
fn the_head_names_date_host_and_command() {
    let host = allocanary_rows::provenance::Provenance::here();
    let (name, kernel) = (host.host.name.clone(), host.host.kernel.clone());
    let panel = Panel {
        title: "server".into(),
        columns: vec![1],
        lines: vec![line("a", vec![point(Some(1e6))])],
        ..Panel::default()
    };
    let mut findings = findings(panel);
    findings.sections[0].name = Some("nightly".into());
    findings.sections[0].about.question = "What does it cost?".into();
    findings.provenance = vec![host.clone(), host];
    findings.started_ms = Some((951_782_399_000, 951_782_459_000));
    findings.commands = vec!["allocanary study --candidates '<b>'".into()];
    let page = render(&findings, &LOOK);
    let head = &page[..page.find("</header>").unwrap()];
    for text in [
        "<title>nightly: What does it cost? - allocanary</title>",
        "<dt>Date</dt><dd>2000-02-28 23:59 to 2000-02-29 00:00 UTC</dd>",
        "<dt>Command</dt><dd><code>allocanary study --candidates '&lt;b&gt;'</code></dd>",
        &format!("Linux {}", crate::draw::markup::escaped(&kernel)),
    ] {
        assert!(head.contains(text), "{text}\n{head}");
    }
    let hosts = head.matches(&format!("<dd>{}: ", crate::draw::markup::escaped(&name))).count();
    assert_eq!(hosts, 1, "one host of two builds stands once: {head}");
    findings.started_ms = Some((951_782_100_000, 951_782_399_000));
    findings.commands = (0..5).map(|at| format!("allocanary study {at}")).collect();
    let page = render(&findings, &LOOK);
    assert!(page.contains("<dd>2000-02-28 23:55 to 23:59 UTC</dd>") && page.contains("<dd>and 2 more</dd>"), "{page}");
    // A cell's own answer contains neither of the two.
    findings.started_ms = None;
    findings.commands.clear();
    let page = render(&findings, &LOOK);
    assert!(!page.contains("<dt>Date</dt>") && !page.contains("<dt>Command</dt>") && page.contains("<dt>Host</dt>"));
}
