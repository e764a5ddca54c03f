//! `csv`: one line for each candidate, column and metric, for a spreadsheet or a script. In: findings. Out: CSV with
//! plain numbers in base units. Fewer than five samples have no interval. A new column comes last, so that older readers
//! find theirs: the study if rows name it, then the settings whose effect is unproven.
//!
//! After a candidate's metrics come the parts of its memory, `anatomy_live` and others, with n 1: they are those of the one
//! process with the median resident memory, `anatomy_rss`, and add up to it. A part that is 0 has no line.
//! `anatomy_never_touched` is what the allocator counts and nobody ever wrote to: it is in no part.

use crate::format::ReportFormat;
use allocanary_kernel::terminal::Look;
use allocanary_kernel::units::Unit;
use allocanary_study::summary::anatomy::PARTS;
use allocanary_study::summary::{Anatomy, Findings, all_metrics};

/// The report.
pub const REPORT: ReportFormat =
    ReportFormat { name: "csv", about: "every figure, for a spreadsheet or a script", render };

const HEAD: &str = "workload,candidate,version,axis,value,metric,unit,n,median,low,high,spread,failed";

fn render(findings: &Findings, _look: &Look) -> String {
    let named = findings.sections.iter().any(|section| section.name.is_some());
    let mut out = String::from(HEAD) + if named { ",study,unproven\n" } else { ",unproven\n" };
    let panels = findings.sections.iter().flat_map(|section| section.panels.iter().map(move |panel| (section, panel)));
    for (section, panel) in panels {
        let study = section.name.as_deref().unwrap_or_default();
        let study = if named { format!(",{}", quoted(study)) } else { String::new() };
        for line in &panel.lines {
            let unproven = quoted(&unproven(findings, &line.candidate));
            for (value, point) in panel.columns.iter().zip(&line.points) {
                let Some(point) = point else { continue };
                let start = format!(
                    "{},{},{},{},{value}",
                    quoted(&panel.title),
                    quoted(&line.candidate),
                    quoted(&line.version),
                    panel.axis.name()
                );
                let end = format!("{}{study},{unproven}", point.failed);
                for (metric, estimate) in all_metrics().into_iter().zip(&point.estimates) {
                    let Some(estimate) = estimate else { continue };
                    let interval = estimate.interval();
                    let (low, high) =
                        interval.map_or_else(Default::default, |(low, high)| (low.to_string(), high.to_string()));
                    out.push_str(&format!(
                        "{start},{},{},{},{},{low},{high},{},{end}\n",
                        metric.name,
                        metric.unit.name(),
                        estimate.n,
                        estimate.median,
                        estimate.spread,
                    ));
                }
                for (name, bytes) in point.anatomy.iter().flat_map(parts) {
                    out.push_str(&format!("{start},anatomy_{name},{},1,{bytes},,,0,{end}\n", Unit::Bytes.name()));
                }
            }
        }
    }
    out
}

/// The resident memory of a process and its parts, in whole bytes.
fn parts(anatomy: &Anatomy) -> Vec<(&'static str, f64)> {
    let parts = PARTS.iter().map(|part| (part.key(), anatomy.get(*part)));
    let all = [("rss", anatomy.rss)].into_iter().chain(parts).chain([("never_touched", anatomy.never_touched)]);
    all.map(|(name, bytes)| (name, bytes.round())).filter(|(_, bytes)| *bytes != 0.0).collect()
}

/// The settings of a candidate whose effect could not be shown, separated by semicolons; empty if there are none. A
/// candidate with several versions is named with its version in the panel, but not here.
fn unproven(findings: &Findings, candidate: &str) -> String {
    let of = |one: &&(String, String, String)| {
        candidate.strip_prefix(one.0.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
    };
    findings.unproven.iter().filter(of).map(|(_, setting, _)| setting.as_str()).collect::<Vec<_>>().join(";")
}

/// A field quoted by RFC 4180, because candidates contain commas.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_string()
    }
}
