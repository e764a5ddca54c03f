//! `csv`: one line for each candidate, column and metric, for a spreadsheet or a script. In: findings. Out: CSV with
//! plain numbers in base units. Fewer than five samples have no interval. A new column comes last, so that older readers
//! find theirs: the study if rows name it, then the settings whose effect is unproven.

use crate::report::Report;
use crate::summary::{Findings, all_metrics};
use allocanary_kernel::terminal::Look;

/// The report.
pub const REPORT: Report = Report { name: "csv", about: "every figure, for a spreadsheet or a script", render };

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
                for (metric, estimate) in all_metrics().into_iter().zip(&point.estimates) {
                    let Some(estimate) = estimate else { continue };
                    let interval = estimate.interval();
                    let (low, high) =
                        interval.map_or_else(Default::default, |(low, high)| (low.to_string(), high.to_string()));
                    out.push_str(&format!(
                        "{},{},{},{},{value},{},{},{},{},{},{},{},{}{study},{unproven}\n",
                        quoted(&panel.title),
                        quoted(&line.candidate),
                        quoted(&line.version),
                        panel.axis.name(),
                        metric.name,
                        metric.unit.name(),
                        estimate.n,
                        estimate.median,
                        low,
                        high,
                        estimate.spread,
                        point.failed,
                    ));
                }
            }
        }
    }
    out
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
