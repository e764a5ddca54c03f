//! The part that `study` shares with the command without a verb. It runs cells, writes rows and prints the report. In: a group of one or more studies. Out: rows in one file, and a report of all of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use super::left;
use super::output::VerbOutput;
use super::production;
use super::progress::{Progress, StudyProgress};
use super::terminal;
use allocanary_measure::metrics::Metrics;
use allocanary_measure::rows;
use allocanary_measure::summary::{Decided, Findings, Fold, StudyNotes};
use allocanary_rows::description::Description;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::sample::Sample;
use allocanary_screens::report as reports;
use allocanary_screens::report::production::{DeployTarget, recommended};
use allocanary_study::search::cells::is_stage;
use allocanary_study::session::{
    Executor, Measured, OutOfBudget, Roster, RunProgress, Studies, StudiesEnd, StudyCells, StudyFiles, find_shipped,
    prefix,
};
use allocanary_sys::private;
use allocanary_text::paste::CommandLine;
use allocanary_text::units::show_duration;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The flag that Ctrl-C and SIGTERM set from this call on.
pub fn watch_interrupts() -> &'static AtomicBool {
    // Setting the handler a second time fails, and is not needed.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
    &INTERRUPTED
}

/// A run of a study or of a group: what to run, with which cells, and where to write the rows.
pub struct MeasureRun<'a> {
    /// The studies as the user requested them, to be stored next to the rows.
    pub group: &'a Studies,
    /// The available cells.
    pub roster: &'a Roster,
    /// Where to write the rows.
    pub target: StudyFiles,
    /// Whether the target may already have rows.
    pub resume: bool,
    /// What runs a cell.
    pub executor: &'a dyn Executor,
    /// Where the answer is to be used.
    pub write_for: Option<DeployTarget>,
    /// What is printed at the end.
    pub output: VerbOutput,
}

impl MeasureRun<'_> {
    /// Runs the cells that have no row yet, one study after the other, then reports all rows.
    pub fn run(mut self) -> Result<ExitCode> {
        production::check(self.write_for, &self.target)?;
        let Measured { store, ended, failed, .. } = self.measure(&mut |_| ())?;
        if let Some(rows) = store.left() {
            self.report_of(&rows.readable)?;
            return Err(left::told(&rows, &self.target, "study", left::resume_study));
        }
        // The answer comes last, and after it only where the rows are and how to go on.
        ended.iter().for_each(tell_budgets);
        let reported = self.report();
        // A full disk stops both the rows and the report. The error of the rows is returned first, because it says what
        // is lost.
        let ended = ended?;
        reported?;
        let left: usize = ended.out_of_budget.iter().map(|study| study.left).sum();
        if left > 0 && ended.interrupted.is_none() {
            terminal::tell(format_args!("{left} processes are left; {}", self.how_to_resume()));
        }
        if let Some(left) = ended.interrupted {
            terminal::tell(format_args!("interrupted: {left} processes are left; {}", self.how_to_resume()));
            return Ok(ExitCode::from(130));
        }
        Ok(if failed > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }

    /// Runs the cells and returns their rows, without a report; `None` if the user interrupted them.
    pub fn samples(mut self) -> Result<Option<Vec<Sample>>> {
        let mut samples = Vec::new();
        let measured = self.measure(&mut |sample| samples.push(sample.clone()))?;
        if let Some(rows) = measured.store.left() {
            return Err(left::told(&rows, &self.target, "study", left::resume_study));
        }
        let ended = measured.ended?;
        tell_budgets(&ended);
        let Some(left) = ended.interrupted else { return Ok(Some(samples)) };
        let name = self.target.name();
        terminal::tell(format_args!("interrupted: {left} processes were not run; the rows so far are in {name}"));
        Ok(None)
    }

    /// Runs the cells that have no row yet. Calls `seen` with each row that was written.
    fn measure(&mut self, seen: &mut dyn FnMut(&Sample)) -> Result<Measured> {
        let cells = self.roster.descriptions();
        let measurement = allocanary_study::session::Measurement {
            group: self.group,
            cells: &cells,
            executor: self.executor,
            target: &self.target,
            resume: self.resume,
            command: as_typed(std::env::args_os()).to_string(),
            interrupted: watch_interrupts(),
        };
        let mut shown = Shown { cells: &cells, progress: None, seen };
        let measured = measurement.measure(&mut shown);
        shown.progress.into_iter().for_each(Progress::end);
        let measured = measured?;
        self.target = measured.target.clone();
        Ok(measured)
    }

    /// Prints the report of all rows, and writes the page with the pictures next to them.
    fn report(&self) -> Result<()> {
        let Some(path) = self.target.rows() else { return Ok(()) };
        let Some(findings) = self.report_of(&path)? else { return Ok(()) };
        let mut places = format!("rows: {}", path.display());
        if let StudyFiles::Folder(folder) = &self.target {
            let page = folder.join("report.html");
            let html = reports::find("html").expect("html is in the list of reports");
            private::replace(&page, (html.render)(&findings, &terminal::look()).as_bytes())
                .map_err(|error| Error::file(&page, "writing the report", error))?;
            places.push_str(&format!("\npictures: {}", page.display()));
            if let Some(place) = self.write_for {
                production::write(place, recommended(&findings), folder)?;
            }
        }
        terminal::tell(places);
        Ok(())
    }

    /// Prints the report of the rows in a file, if there are any.
    fn report_of(&self, rows: &Path) -> Result<Option<Findings>> {
        let findings = findings(&[rows.to_path_buf()], self.group)?;
        if findings.rows == 0 {
            return Ok(None);
        }
        terminal::print(self.output.text(&findings, &terminal::look()).as_bytes())?;
        Ok(Some(findings))
    }

    fn how_to_resume(&self) -> String {
        match &self.target {
            StudyFiles::Folder(path) => {
                if self.group.0.len() > 1 && self.group.0.iter().all(|study| study.program.is_some()) {
                    return format!("finish with the same command, --resume and --out-dir {}", path.display());
                }
                let is_program = self.group.0.iter().any(|study| study.program.is_some());
                let verb = if is_program { "run" } else { "study" };
                format!("finish with `allocanary {verb} --resume --out-dir {}`", path.display())
            }
            StudyFiles::Rows(_) => "finish with the same command and --resume".into(),
            StudyFiles::Stdout | StudyFiles::Fresh(_) => "rows on standard output cannot be resumed".into(),
        }
    }
}

/// A line for each study that used up its budget.
fn tell_budgets(ended: &StudiesEnd) {
    for OutOfBudget { study, left, of } in &ended.out_of_budget {
        let name = prefix(study.as_deref());
        terminal::tell(format_args!("{name}the time budget is used up: {left} of {of} processes were not run"));
    }
}

/// Shows a measurement on the terminal.
struct Shown<'a> {
    cells: &'a [Description],
    /// The progress, once the first study has begun.
    progress: Option<Progress>,
    seen: &'a mut dyn FnMut(&Sample),
}

impl RunProgress for Shown<'_> {
    fn begins(&mut self, left: &[StudyCells]) {
        let stretch = |(study, left): &StudyCells| StudyProgress::new(left, self.cells, study.budget);
        let stretches: Vec<StudyProgress> = left.iter().map(stretch).collect();
        let progress = Progress::new(stretches.clone());
        for ((study, _), stretch) in left.iter().zip(&stretches) {
            let (name, span) = (prefix(study.name.as_deref()), show_duration(stretch.expected));
            let budget =
                stretch.budget.map_or(String::new(), |budget| format!(", time budget {}", show_duration(budget)));
            progress.say(&format!("{name}{} processes, about {span}{budget}", stretch.cells));
        }
        self.progress = Some(progress);
    }

    fn study(&mut self, at: usize) {
        self.progress.iter().for_each(|progress| progress.begin(at));
    }

    fn row(&mut self, sample: &Sample) {
        if let Some(progress) = &self.progress {
            if let Some(failure) = &sample.error {
                progress.say(&format!("failed: {}: {}", sample.cell.title(), failure.text));
            }
            progress.done(&sample.cell.candidate.to_string());
        }
        (self.seen)(sample);
    }
}

/// The command line as a shell would read it. The command's own path is left out: it means nothing on another host.
fn as_typed(mut words: impl Iterator<Item = OsString>) -> CommandLine {
    words.next();
    CommandLine::new("allocanary").words(words)
}

/// All rows of some files as findings. Rows may come from another host, or from a file without a study next to it. So
/// the question and the metrics of a row's study come from `group`, or else from the shipped studies.
pub fn findings(files: &[PathBuf], group: &Studies) -> Result<Findings> {
    let mut fold = Fold::default();
    let problems = rows::read(files, |sample| fold.add(&sample))?;
    let about = |name: Option<&str>, metrics: &Metrics| {
        if name.is_some_and(is_stage) {
            // The search decided by its own rules: only it knows the limits and all candidates that it tried.
            let decided = "These rows are of a search: tune.txt, next to them, has its answer.";
            let decided = Decided { text: decided.into(), ..Decided::default() };
            return StudyNotes { decided: Some(decided), ..StudyNotes::default() };
        }
        let here = group.find(name).and_then(|study| study.about(metrics).ok());
        let shipped = |name: &str| find_shipped(name)?.ok()?.find(Some(name))?.about(metrics).ok();
        here.or_else(|| shipped(name?)).unwrap_or_default()
    };
    Ok(Findings { problems, ..Findings::of(fold, about) })
}

/// The studies that are stored next to the rows, if all rows are in one folder; otherwise none. If the file of the
/// studies cannot be read, a warning is printed and the rows are still shown.
pub fn studies_beside(rows: &[PathBuf]) -> Studies {
    let [rows] = rows else { return Studies::default() };
    let folder = if rows.is_dir() { Some(rows.as_path()) } else { rows.parent() };
    let study = folder.map(|folder| folder.join("study.toml")).filter(|path: &PathBuf| Path::is_file(path));
    let read = |path: PathBuf| {
        let told = |error| {
            terminal::tell(format_args!("{error}; shown without the study's question, metrics and published figures"))
        };
        Studies::read(&path).map_err(told).ok()
    };
    study.and_then(read).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_kept_as_it_can_be_typed_again() {
        let words =
            ["/usr/bin/allocanary", "study", "--candidates", "jemalloc:narenas=1,tcache=false", "a b", "it's", ""];
        let typed = as_typed(words.into_iter().map(OsString::from)).to_string();
        assert_eq!(typed, "allocanary study --candidates jemalloc:narenas=1,tcache=false 'a b' 'it'\\''s' ''");
    }
}
