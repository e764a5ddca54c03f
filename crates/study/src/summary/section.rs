//! One study's part of the findings. In: the study's file. Out: its question, the published figures, and the metrics to
//! show.

use super::{METRICS, Metric, Panel, find_metric};
use crate::error::{Error, Result};
use crate::study::{Published, StudyFile};
use allocanary_cell::description::perhaps;
use allocanary_kernel::terminal::in_one_line;

/// One study's findings.
#[derive(Debug, Default)]
pub struct Section {
    /// The name in its rows, if they have one.
    pub name: Option<String>,
    /// The content of its file that a report shows.
    pub about: About,
    /// One panel for each workload and axis.
    pub panels: Vec<Panel>,
    /// Hosts with fewer rows than planned cells: the host, the number of cells with rows, and the planned number.
    pub unfinished: Vec<(String, usize, usize)>,
}

/// Content of a study's file that rows do not have.
#[derive(Clone, Default)]
pub struct About {
    /// The question that the study answers; empty if unknown.
    pub question: String,
    /// Figures that others have published.
    pub published: Vec<Published>,
    /// The metrics of its table. If empty, each panel shows resident memory and the other metrics.
    pub metrics: Vec<&'static Metric>,
}

impl About {
    /// Reads a study's file. An error names a metric that does not exist.
    pub fn of(file: &StudyFile) -> Result<About> {
        let metric = |name: &String| {
            find_metric(name).ok_or_else(|| {
                let perhaps = perhaps(name, METRICS.iter().map(|metric| metric.name));
                Error::Input(format!("metrics: no metric `{name}`{perhaps}"))
            })
        };
        Ok(About {
            question: in_one_line(file.question.as_deref().unwrap_or_default()),
            published: file.published.iter().map(Published::harmless).collect(),
            metrics: file.metrics.iter().flatten().map(metric).collect::<Result<_>>()?,
        })
    }
}

impl std::fmt::Debug for About {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let metrics: Vec<&str> = self.metrics.iter().map(|metric| metric.name).collect();
        write!(out, "{}: {metrics:?}", self.question)
    }
}
