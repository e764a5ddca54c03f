//! One study's part of the findings. In: what the study's file says of itself. Out: its question, what others have
//! published, and the metrics to show.

use super::{METRICS, Metric, Panel, find_metric};
use crate::error::{Error, Result};
use crate::study::{Published, StudyFile};
use allocanary_cell::description::perhaps;

/// One study's findings.
#[derive(Debug, Default)]
pub struct Section {
    /// The name in its rows, where they have one.
    pub name: Option<String>,
    /// What its file says.
    pub about: About,
    /// A panel for each workload and axis.
    pub panels: Vec<Panel>,
    /// Where fewer cells have rows than were planned: the host, how many have rows, how many were planned.
    pub unfinished: Vec<(String, usize, usize)>,
}

/// What a study's file says that rows do not.
#[derive(Clone, Default)]
pub struct About {
    /// What the study shall answer; empty where that is not known.
    pub question: String,
    /// What others have reported.
    pub published: Vec<Published>,
    /// What its table shows. Where it names none, resident memory and the rest are shown for each panel.
    pub metrics: Vec<&'static Metric>,
}

impl About {
    /// From a study's file; an error names a metric that does not exist.
    pub fn of(file: &StudyFile) -> Result<About> {
        let metric = |name: &String| {
            find_metric(name).ok_or_else(|| {
                let perhaps = perhaps(name, METRICS.iter().map(|metric| metric.name));
                Error::Input(format!("metrics: no metric `{name}`{perhaps}"))
            })
        };
        Ok(About {
            question: file.question.clone().unwrap_or_default(),
            published: file.published.clone(),
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
