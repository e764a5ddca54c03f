//! What reports say about a study besides its rows. In: the study's file, the metrics of its rows. Out: its question, the published
//! figures, and the metrics to show.

use super::file::StudyFile;
use allocanary_measure::metrics::{Better, Metrics};
use allocanary_measure::summary::{Published, StudyNotes, limit};
use allocanary_rows::error::{Error, Result};
use allocanary_rows::perhaps;
use allocanary_text::outside::in_one_line;

impl StudyFile {
    /// What a report says of the study, with the metrics of its rows if there are rows already. An error names a metric
    /// that does not exist.
    pub fn about(&self, metrics: &Metrics) -> Result<StudyNotes> {
        let program = self.program.as_ref();
        // Metrics that the user names are known once the first row has them.
        let is_named = |name: &str| {
            program.is_some_and(|program| program.metric.keys().any(|key| key.split(':').next() == Some(name)))
        };
        let unknown = |name: &str| {
            let perhaps = perhaps(name, metrics.all().map(|metric| &*metric.name));
            Error::Input(format!("metrics: no metric `{name}`{perhaps}"))
        };
        let metric = |name: &String| match metrics.find(name) {
            None if is_named(name) => None,
            found => Some(found.cloned().ok_or_else(|| unknown(name))),
        };
        for text in program.iter().flat_map(|program| &program.tolerance) {
            let (name, _) = limit(text)?;
            if metrics.find(&name).is_none() && !is_named(&name) {
                return Err(unknown(&name));
            }
            if metrics.find(&name).is_some_and(|metric| metric.better == Better::Neither) {
                return Err(Error::Input(format!(
                    "tolerance: {name}: neither more nor less is better, so it has no limit"
                )));
            }
        }
        Ok(StudyNotes {
            question: in_one_line(self.question.as_deref().unwrap_or_default()),
            published: self.published.iter().map(Published::harmless).collect(),
            metrics: self.metrics.iter().flatten().filter_map(metric).collect::<Result<_>>()?,
            decided: None,
        })
    }
}
