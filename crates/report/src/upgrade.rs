//! What an upgrade costs several programs: one table, and one sentence. In: findings with two candidates in each section. Out: text.

use std::fmt::Write;

use super::words;
use allocanary_kernel::terminal::Look;
use allocanary_measure::summary::{Comparison, Findings, LEAST_SAMPLES, Recommendation, Verdict};

/// A program under both candidates.
struct Row {
    program: String,
    metric: String,
    from: String,
    to: String,
    compared: Option<Comparison>,
    /// Whether more runs failed under the new candidate.
    fails: bool,
}

/// The table and the sentence; `None` if no section has both candidates.
pub fn upgrade(findings: &Findings, look: &Look) -> Option<String> {
    let panels = findings.sections.iter().flat_map(|section| section.panels.iter().map(move |panel| (section, panel)));
    let mut rows = Vec::new();
    let mut names = None;
    for (section, panel) in panels.filter(|(_, panel)| panel.lines.len() == 2) {
        let Some(found) = Recommendation::of(section, panel) else { continue };
        names = names.or_else(|| Some((panel.lines[0].name(), panel.lines[1].name())));
        let figure = |line| words::median(&found.metric, found.estimate(panel, line));
        rows.push(Row {
            program: section.name.clone().unwrap_or_else(|| panel.title.clone()),
            metric: found.metric.name.to_string(),
            from: figure(0),
            to: figure(1),
            compared: found.saving(panel, 1).cloned(),
            fails: found.failing.contains(&1),
        });
    }
    let (from, to) = names?;
    let mut out = table(&rows, &from, &to);
    let _ = writeln!(out, "\n{}", allocanary_draw::wrapped(&sentence(&rows, &from, &to), look.width.into()));
    Some(out)
}

/// One line for each program. It fits a terminal unless the names are long.
fn table(rows: &[Row], from: &str, to: &str) -> String {
    let head = ["program", "metric", from, to, "change"].map(str::to_string);
    let cells = rows.iter().map(|row| {
        let change = match &row.compared {
            _ if row.fails => "more runs fail".into(),
            Some(one) => format!("{} {}", one.verdict.text(), words::with_interval(one)),
            None => "not comparable".into(),
        };
        [row.program.clone(), row.metric.clone(), row.from.clone(), row.to.clone(), change]
    });
    let all: Vec<[String; 5]> = std::iter::once(head).chain(cells).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut out = String::new();
    for row in &all {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    out
}

/// `mimalloc@3.3.2 in place of mimalloc@2.2.5 uses more memory in 2 of 3 programs (python +52 %, redis +46 %), ...`.
fn sentence(rows: &[Row], from: &str, to: &str) -> String {
    let of =
        |verdict: Verdict| rows.iter().filter(move |row| !row.fails && row.verdict() == verdict).collect::<Vec<_>>();
    let named = |rows: &[&Row]| {
        let one = |row: &&Row| match &row.compared {
            Some(one) => format!("{} {} {}", row.program, row.metric, words::change(one.ratio())),
            None => row.program.clone(),
        };
        rows.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let (better, worse, equal) = (of(Verdict::Better), of(Verdict::Worse), of(Verdict::Equal));
    let failing: Vec<&Row> = rows.iter().filter(|row| row.fails).collect();
    let advice = match (better.is_empty(), worse.is_empty() && failing.is_empty()) {
        (false, true) => format!("take {to}"),
        (true, true) if equal.len() == rows.len() => "it makes no difference in memory".into(),
        (true, true) => "no difference is shown".into(),
        (true, false) => format!("keep {from}"),
        (false, false) => "it depends on the program".into(),
    };
    let mut parts = Vec::new();
    for (what, rows) in [("better", &better), ("worse", &worse)] {
        if !rows.is_empty() {
            parts.push(format!("{what} in {} ({})", rows.len(), named(rows)));
        }
    }
    for (what, count) in
        [("equal", equal.len()), ("undecided", of(Verdict::Undecided).len() + of(Verdict::Different).len())]
    {
        if count > 0 {
            parts.push(format!("{what} in {count}"));
        }
    }
    if !failing.is_empty() {
        let programs: Vec<&str> = failing.iter().map(|row| row.program.as_str()).collect();
        parts.push(format!("with more failing runs in {} ({})", failing.len(), programs.join(", ")));
    }
    let count = rows.len();
    let programs = if count == 1 { "program" } else { "programs" };
    let few = rows.iter().filter_map(|row| row.compared.as_ref()).any(|one| one.n.0.min(one.n.1) < LEAST_SAMPLES);
    let few =
        if few { format!("; fewer than {LEAST_SAMPLES} repeats are too few for a verdict") } else { String::new() };
    format!("From {from} to {to}: {advice}: of {count} {programs}, {}{few}.", parts.join(", "))
}

impl Row {
    fn verdict(&self) -> Verdict {
        self.compared.as_ref().map_or(Verdict::Undecided, |one| one.verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_measure::summary::Tail;

    fn row(program: &str, ratio: f64, verdict: Verdict) -> Row {
        let compared = Comparison {
            quantile: None,
            old: 100.0,
            new: 100.0 * ratio,
            n: (10, 10),
            interval: None,
            of_family: None,
            tails: [Tail::default(), Tail::default()],
            p: 0.001,
            least_p: 1e-5,
            margin: 0.05,
            verdict,
            family: 1,
            doubted: false,
        };
        Row {
            program: program.into(),
            metric: "peak".into(),
            from: "100 MiB".into(),
            to: format!("{:.0} MiB", 100.0 * ratio),
            compared: Some(compared),
            fails: false,
        }
    }

    fn said(rows: &[Row]) -> String {
        sentence(rows, "mimalloc@2.2.5", "mimalloc@3.3.2")
    }

    #[test]
    fn one_sentence_says_where_it_is_better_and_where_worse() {
        let rows =
            [row("python", 1.52, Verdict::Worse), row("jq", 0.8, Verdict::Better), row("git", 1.0, Verdict::Equal)];
        assert_eq!(
            said(&rows),
            "From mimalloc@2.2.5 to mimalloc@3.3.2: it depends on the program: of 3 programs, better in 1 (jq peak -20 %), worse in 1 \
             (python peak +52 %), equal in 1."
        );
        assert!(said(&rows[..1]).contains("keep mimalloc@2.2.5: of 1 program, worse in 1"));
        assert!(said(&rows[1..]).contains("take mimalloc@3.3.2"));
        assert!(said(&rows[2..]).contains("it makes no difference in memory"));
        assert!(
            said(&[row("x", 1.1, Verdict::Undecided)]).contains("no difference is shown: of 1 program, undecided in 1")
        );
        let fails = Row { fails: true, ..row("x", 0.5, Verdict::Better) };
        assert!(said(&[fails]).contains("keep mimalloc@2.2.5: of 1 program, with more failing runs in 1 (x)"));
    }

    #[test]
    fn a_program_is_a_line_of_the_table() {
        let rows = [row("python", 1.52, Verdict::Worse), row("jq", 0.8, Verdict::Better)];
        let text = table(&rows, "mimalloc@2.2.5", "mimalloc@3.3.2");
        assert_eq!(
            text,
            "program  metric  mimalloc@2.2.5  mimalloc@3.3.2  change\n\
             python   peak    100 MiB         152 MiB         worse +52 %\n\
             jq       peak    100 MiB         80 MiB          better -20 %\n"
        );
    }
}
