//! `csv`: one line for each candidate, column and metric, for a spreadsheet or a script. In: findings. Out: CSV with plain
//! numbers in base units. With fewer than five samples there is no interval. New columns come last, so that older readers
//! find theirs. The last columns are the study, if rows name it, and the settings whose effect is unproven.
//!
//! The parts of a candidate's memory follow its metrics: `part_live_bytes` and others, with n 1. They are from the one process
//! with the median resident memory, `parts_resident_bytes`, and add up to it. A part that is 0 has no line. `never_touched_bytes`
//! is memory that the allocator counts and nobody ever wrote to: no part contains it.

use ::csv::Writer;

use crate::report::format::ReportFormat;
use allocanary_measure::summary::anatomy::PARTS;
use allocanary_measure::summary::{Anatomy, Findings};
use allocanary_rows::Candidate;
use allocanary_text::outside::TerminalStyle;
use allocanary_text::units::Unit;

/// The report.
pub const REPORT: ReportFormat =
    ReportFormat { name: "csv", about: "every figure, for a spreadsheet or a script", render };

const HEAD: &str = "workload,candidate,version,axis,value,metric,unit,n,median,low,high,spread,failed";

fn render(findings: &Findings, _look: &TerminalStyle) -> String {
    let named = findings.sections.iter().any(|section| section.name.is_some());
    let mut out = Writer::from_writer(Vec::new());
    let mut put = |figures: &[&str], study: &str, unproven: &str| {
        let fields = figures.iter().copied().chain(named.then_some(study)).chain([unproven]);
        out.write_record(fields).expect("as many fields as in the head, into memory");
    };
    put(&HEAD.split(',').collect::<Vec<_>>(), "study", "unproven");
    let panels = findings.sections.iter().flat_map(|section| section.panels.iter().map(move |panel| (section, panel)));
    for (section, panel) in panels {
        let study = section.name.as_deref().unwrap_or_default();
        for line in &panel.lines {
            let unproven = unproven(findings, &line.candidate);
            for (value, point) in panel.columns.iter().zip(&line.points) {
                let Some(point) = point else { continue };
                let (name, version, value) = (line.name(), line.version.to_string(), value.to_string());
                let start = [panel.title.as_str(), &name, &version, panel.axis.name(), &value];
                let failed = point.failed.to_string();
                let mut row = |figures: [&str; 7]| {
                    put(&[&start[..], &figures, &[failed.as_str()]].concat(), study, &unproven);
                };
                for metric in findings.metrics.all() {
                    let Some(estimate) = point.get(&metric.name) else { continue };
                    let [n, median, spread] =
                        [estimate.n.to_string(), estimate.median.to_string(), estimate.spread.to_string()];
                    let interval = estimate.interval().map(|(low, high)| (low.to_string(), high.to_string()));
                    let (low, high) = interval.unwrap_or_default();
                    row([&metric.name, metric.unit.name(), &n, &median, &low, &high, &spread]);
                }
                for (name, bytes) in point.anatomy.iter().flat_map(parts) {
                    let bytes = bytes.to_string();
                    row([name, Unit::Bytes.name(), "1", &bytes, "", "", "0"]);
                }
            }
        }
    }
    String::from_utf8(out.into_inner().expect("memory takes all")).expect("it was given text")
}

/// The resident memory of a process and its parts, in whole bytes.
fn parts(anatomy: &Anatomy) -> Vec<(&'static str, f64)> {
    let parts = PARTS.iter().map(|part| (part.column(), anatomy.get(*part)));
    let all = [("parts_resident_bytes", anatomy.rss)];
    let all = all.into_iter().chain(parts).chain([("never_touched_bytes", anatomy.never_touched)]);
    all.map(|(name, bytes)| (name, bytes.round())).filter(|(_, bytes)| *bytes != 0.0).collect()
}

/// The settings of a candidate whose effect could not be shown, separated by semicolons; empty if there are none.
fn unproven(findings: &Findings, candidate: &Candidate) -> String {
    findings
        .unproven
        .iter()
        .filter(|(of, ..)| of == candidate)
        .map(|(_, setting, _)| setting.as_str())
        .collect::<Vec<_>>()
        .join(";")
}
