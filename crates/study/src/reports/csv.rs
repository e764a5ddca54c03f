//! `csv`: one line for each candidate, column and metric, for a spreadsheet or a script. In: findings. Out: CSV with
//! plain numbers in base units. Fewer than five samples have no interval. If rows name their study, it is the last
//! column.

use crate::report::Report;
use crate::summary::{Findings, all_metrics};
use allocanary_kernel::terminal::Look;

/// The report.
pub const REPORT: Report = Report { name: "csv", about: "every figure, for a spreadsheet or a script", render };

const HEAD: &str = "workload,candidate,version,axis,value,metric,unit,n,median,low,high,spread,failed";

fn render(findings: &Findings, _look: &Look) -> String {
    let named = findings.sections.iter().any(|section| section.name.is_some());
    let mut out = String::from(HEAD) + if named { ",study\n" } else { "\n" };
    let panels = findings.sections.iter().flat_map(|section| section.panels.iter().map(move |panel| (section, panel)));
    for (section, panel) in panels {
        let study = section.name.as_deref().unwrap_or_default();
        let study = if named { format!(",{}", quoted(study)) } else { String::new() };
        for line in &panel.lines {
            for (value, point) in panel.columns.iter().zip(&line.points) {
                let Some(point) = point else { continue };
                for (metric, estimate) in all_metrics().into_iter().zip(&point.estimates) {
                    let Some(estimate) = estimate else { continue };
                    let interval = estimate.interval();
                    let (low, high) =
                        interval.map_or_else(Default::default, |(low, high)| (low.to_string(), high.to_string()));
                    out.push_str(&format!(
                        "{},{},{},{},{value},{},{},{},{},{},{},{},{}{study}\n",
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

/// A field quoted by RFC 4180, because candidates contain commas.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.to_string() }
}
