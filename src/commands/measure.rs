//! What `study` and the command without a verb share: cells are found (or built), run, kept as rows, reported.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::terminal;
use crate::cell::Cell;
use crate::error::{Error, Result};
use crate::reports;
use crate::rows;
use crate::run::{Builder, Progress, Roster, Runner, Store, Target};
use crate::study::{Study, StudyFile, expected, plan};
use crate::summary::{Findings, Fold};
use crate::units::show_duration;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The cells beside the command, built first where cargo started it and one is missing or of another build.
pub fn roster(folders: &[PathBuf]) -> Result<Roster> {
    let command = std::env::current_exe().map_err(|error| Error::file("the command", "finding", error))?;
    let own = command.parent().map(PathBuf::from);
    let folders: Vec<PathBuf> = folders.iter().cloned().chain(own).collect();
    let roster = Roster::find(&folders);
    let built_in = 1 + usize::from(cfg!(feature = "jemalloc")) + usize::from(cfg!(feature = "mimalloc"));
    let complete = roster.cells.iter().filter(|(cell, _)| cell.build.package == env!("CARGO_PKG_NAME")).count();
    let roster = match Builder::find(&command).filter(|_| complete < built_in) {
        None => roster.or_say_why()?,
        Some(builder) => {
            builder.build()?;
            Roster::find(&folders).or_say_why()?
        }
    };
    // Else a stale cell would look as if its allocator did not exist.
    roster.refused.iter().for_each(|reason| eprintln!("refused {reason}"));
    Ok(roster)
}

/// A study on its way: what is run, from where and to where.
pub struct Measurement<'a> {
    /// The study as it was asked for, to be kept beside the rows.
    pub file: &'a StudyFile,
    /// The cells at hand.
    pub roster: &'a Roster,
    /// Where rows go.
    pub target: Target,
    /// Whether rows may be there already.
    pub resume: bool,
}

impl Measurement<'_> {
    /// Runs what has no row yet, then reports all rows.
    pub fn run(mut self) -> Result<ExitCode> {
        let study = self.file.clone().check()?;
        let cells = self.roster.descriptions();
        let planned = plan(&study, &cells)?;
        self.target = self.target.make()?;
        let mut store = Store::open(&self.target, self.resume)?;
        self.keep_study()?;
        let done = self.measured()?;
        let left: Vec<Cell> = planned.iter().filter(|cell| !done.contains(&identity(cell))).cloned().collect();

        // A second handler cannot be set; that one is there already is as good.
        let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
        let bar = progress_bar(left.len());
        let spans = expected(&left, &cells);
        let budget = study.budget.map_or(String::new(), |budget| format!(", budget {}", show_duration(budget)));
        bar.println(format!("{} cells, about {}{budget}", left.len(), show_duration(spans)));
        let runner =
            Runner { roster: self.roster, deadline: study.deadline, budget: study.budget, interrupted: &INTERRUPTED };
        let mut failed = 0;
        let ran = runner.run(&left, |sample| {
            if let Some(failure) = &sample.error {
                failed += 1;
                bar.println(format!("failed: {}: {}", sample.cell.title(), failure.text));
            }
            bar.set_message(sample.cell.candidate.clone());
            store.append(sample)?;
            bar.inc(1);
            Ok(())
        });
        bar.finish_and_clear();
        let reported = self.report(&study);
        // A disk that is full stops rows and report alike; the row's error says what is lost.
        let progress = ran?;
        reported?;
        match progress {
            Progress::Finished => {}
            Progress::OutOfBudget(left) => {
                eprintln!("the budget is used up: {left} cells of {} were left out", planned.len());
            }
            Progress::Interrupted(left) => {
                eprintln!("interrupted: {left} cells are left; {}", self.how_to_resume());
                return Ok(ExitCode::from(130));
            }
        }
        Ok(if failed > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }

    /// The study as TOML beside its rows, so that `--resume` needs nothing but the folder.
    fn keep_study(&self) -> Result<()> {
        let Target::Folder(folder) = &self.target else { return Ok(()) };
        let path = folder.join("study.toml");
        let text = self.file.to_toml();
        if fs::read_to_string(&path).is_ok_and(|there| there == text) {
            return Ok(()); // on a full disk, writing it anew would lose it
        }
        fs::write(&path, text).map_err(|error| Error::file(path, "writing the study", error))
    }

    /// The cells that have a row already.
    fn measured(&self) -> Result<BTreeSet<String>> {
        let mut done = BTreeSet::new();
        if let Some(rows) = self.target.rows().filter(|_| self.resume) {
            rows::read(&[rows], |sample| {
                done.insert(identity(&sample.cell));
            })?;
        }
        Ok(done)
    }

    /// Prints the report of all rows, and writes the page with the pictures beside them.
    fn report(&self, study: &Study) -> Result<()> {
        let Some(path) = self.target.rows() else { return Ok(()) };
        let mut findings = findings(std::slice::from_ref(&path))?;
        findings.question = study.question.clone();
        if findings.rows == 0 {
            return Ok(());
        }
        terminal::print((reports::ALL[0].render)(&findings, &terminal::look()).as_bytes())?;
        let mut places = format!("rows: {}", path.display());
        if let Target::Folder(folder) = &self.target {
            let page = folder.join("report.html");
            let html = reports::find("html").expect("html is in the list of reports");
            fs::write(&page, (html.render)(&findings, &terminal::look()))
                .map_err(|error| Error::file(&page, "writing the report", error))?;
            places.push_str(&format!("\npictures: {}", page.display()));
        }
        eprintln!("{places}");
        Ok(())
    }

    fn how_to_resume(&self) -> String {
        match &self.target {
            Target::Folder(path) => format!("finish with `allocanary study --resume --out {}`", path.display()),
            Target::Rows(_) => "finish with the same command and --resume".into(),
            Target::Stdout | Target::Fresh(_) => "rows on standard output cannot be resumed".into(),
        }
    }
}

/// All rows of some files as findings.
pub fn findings(files: &[PathBuf]) -> Result<Findings> {
    let mut fold = Fold::default();
    let problems = rows::read(files, |sample| fold.add(&sample))?;
    Ok(Findings { problems, ..Findings::of(fold) })
}

/// What makes a cell the same cell in a resumed study.
fn identity(cell: &Cell) -> String {
    // Its place in the round shifts when a candidate or a column is added; the cell stays the same.
    serde_json::to_string(&Cell { place: 0, ..cell.clone() }).expect("a cell has only texts and numbers")
}

/// A bar with the time left, on standard error, and none where nobody looks.
fn progress_bar(cells: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(cells as u64), ProgressDrawTarget::stderr_with_hz(5));
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} cells, {eta} left  {msg}");
    bar.set_style(style.expect("the template is a constant"));
    bar
}
