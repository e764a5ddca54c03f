//! Shows the stages of a search on the terminal. In: messages while cells run. Out: lines and a bar on standard error.

use super::super::progress::{Progress, StudyProgress};
use allocanary_rows::Cell;
use allocanary_rows::description::Description;
use allocanary_rows::sample::Sample;
use allocanary_study::search::cells::SearchProgress;

/// Shows one stage after the other.
pub struct TuneOutput<'a> {
    cells: &'a [Description],
    /// The progress of the present stage.
    progress: Option<Progress>,
}

impl<'a> TuneOutput<'a> {
    /// Shows nothing yet. The descriptions of the available cells estimate the time.
    pub fn new(cells: &'a [Description]) -> Self {
        TuneOutput { cells, progress: None }
    }
}

impl SearchProgress for TuneOutput<'_> {
    fn stage(&mut self, stage: &str, candidates: usize, new: &[Cell]) {
        let progress = Progress::new(vec![StudyProgress::new(new, self.cells, None)]);
        progress.say(&format!("{stage}: {candidates} candidates, {} new rows", new.len()));
        progress.begin(0);
        self.progress = Some(progress);
    }

    fn row(&mut self, sample: &Sample) {
        if let Some(progress) = &self.progress {
            progress.done(&sample.cell.candidate.to_string());
        }
    }

    fn ends(&mut self) {
        if let Some(progress) = self.progress.take() {
            progress.end();
        }
    }
}
