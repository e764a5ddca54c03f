//! Whole measurements by scripts: what is run, what is written where, and what is refused. No process is started.

mod resumed;

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tempfile::{TempDir, tempdir};

use super::*;
use crate::session::StudyFile;
use crate::session::{ScriptStep, Scripted};
use allocanary_measure::rows;
use allocanary_rows::sample::{Failure, FailureKind};

const SECOND: Duration = Duration::from_secs(1);

fn cells() -> Vec<Description> {
    Scripted::described(&["jemalloc", "system"], &allocanary_cell::workloads::described())
}

/// A study of two candidates with this many repeats.
fn study(name: &str, repeats: u32, more: &str) -> StudyFile {
    let text = format!(
        "name = '{name}'\ncandidates = ['system', 'jemalloc']\nworkloads = ['small']\nthreads = [1]\n\
         repeats = {repeats}\n{more}"
    );
    StudyFile::parse("test", &text).unwrap()
}

fn answer() -> ScriptStep {
    ScriptStep::Answers(Box::default(), SECOND)
}

fn failure() -> ScriptStep {
    ScriptStep::Fails(Failure { kind: FailureKind::Crashed, text: "killed by signal 11".into() }, SECOND)
}

/// Counts what it was told.
#[derive(Default)]
struct Told {
    left: Vec<usize>,
    studies: Vec<usize>,
    rows: usize,
}

impl RunProgress for Told {
    fn begins(&mut self, left: &[StudyCells]) {
        self.left = left.iter().map(|(_, cells)| cells.len()).collect();
    }

    fn study(&mut self, at: usize) {
        self.studies.push(at);
    }

    fn row(&mut self, _sample: &Sample) {
        self.rows += 1;
    }
}

/// A folder for rows, and what is measured there.
struct Place {
    folder: TempDir,
    /// How often it was measured there.
    sessions: std::cell::Cell<u32>,
}

impl Place {
    fn new() -> Self {
        Place { folder: tempdir().unwrap(), sessions: std::cell::Cell::default() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn rows(&self) -> Vec<Sample> {
        let mut found = Vec::new();
        let file = self.path().join("out/samples.jsonl");
        let problems = rows::read(&[file], |sample| {
            found.push(sample);
            Ok(())
        });
        assert_eq!(problems.unwrap(), Vec::<String>::new());
        found
    }

    /// Measures by a script, which has a line for each cell.
    fn measure(
        &self,
        studies: &[StudyFile],
        resume: bool,
        lines: Vec<ScriptStep>,
    ) -> Result<(Measured, Told, Vec<Cell>)> {
        let mut lines = lines.into_iter();
        self.measure_by(studies, resume, move |_| lines.next().expect("the script has a line for each cell"))
    }

    /// Measures by a script that is asked what each cell does.
    fn measure_by(
        &self,
        studies: &[StudyFile],
        resume: bool,
        line: impl FnMut(&Cell) -> ScriptStep,
    ) -> Result<(Measured, Told, Vec<Cell>)> {
        // A day apart: rows of one cell are told apart by their times.
        self.sessions.set(self.sessions.get() + 1);
        let scripted = Scripted::by(line).beginning_at(86_400 * SECOND * self.sessions.get());
        let (interrupted, mut told) = (AtomicBool::new(false), Told::default());
        let measurement = Measurement {
            group: &Studies(studies.to_vec()),
            cells: &cells(),
            executor: &scripted,
            target: &StudyFiles::Folder(self.path().join("out")),
            resume,
            command: "allocanary study".into(),
            interrupted: &interrupted,
        };
        let measured = measurement.measure(&mut told)?;
        Ok((measured, told, scripted.ran()))
    }

    /// The error of a measurement that must run nothing.
    fn refused(&self, study: &StudyFile, resume: bool) -> String {
        match self.measure(std::slice::from_ref(study), resume, Vec::new()) {
            Ok(_) => panic!("wanted an error"),
            Err(error) => error.to_string(),
        }
    }
}

#[test]
fn rows_say_their_plan_and_command_and_the_study_lies_next_to_them() {
    let place = Place::new();
    let (measured, told, ran) =
        place.measure(&[study("a", 2, "")], false, vec![answer(), failure(), answer(), answer()]).unwrap();
    assert_eq!((measured.ended.unwrap(), measured.failed), (StudiesEnd::default(), 1));
    assert_eq!((told.left, told.studies, told.rows), (vec![4], vec![0], 4));
    let rows = place.rows();
    assert_eq!(rows.iter().map(|row| row.cell.clone()).collect::<Vec<_>>(), ran);
    let of = |row: &Sample| (row.planned, row.command.clone());
    assert!(rows.iter().all(|row| of(row) == (Some(4), Some("allocanary study".into()))));
    assert_eq!(Studies::read(&place.path().join("out/study.toml")).unwrap(), Studies(vec![study("a", 2, "")]));
}

#[test]
fn an_interrupted_measurement_is_finished_by_the_cells_without_a_row() {
    let place = Place::new();
    let (measured, ..) =
        place.measure(&[study("a", 3, "")], false, vec![answer(), answer(), ScriptStep::Interrupts]).unwrap();
    assert_eq!(measured.ended.unwrap().interrupted, Some(4));
    drop(measured.store); // its lock on the file
    let refused = place.refused(&study("a", 3, ""), false);
    assert!(refused.contains("holds rows already: add --resume"), "{refused}");
    let (measured, told, ran) = place.measure(&[study("a", 3, "")], true, (0..4).map(|_| answer()).collect()).unwrap();
    assert_eq!((measured.ended.unwrap(), told.left, ran.len()), (StudiesEnd::default(), vec![4], 4));
    let identities: BTreeSet<String> = place.rows().iter().map(|row| row.cell.identity()).collect();
    assert_eq!((identities.len(), place.rows().len()), (6, 6), "each cell has one row");
}

#[test]
fn a_failed_cell_is_run_again_and_its_new_row_names_the_one_that_it_replaces() {
    let place = Place::new();
    drop(place.measure(&[study("a", 1, "")], false, vec![failure(), answer()]).unwrap());
    let (_, told, ran) = place.measure(&[study("a", 1, "")], true, vec![answer()]).unwrap();
    assert_eq!((told.left, &ran[0]), (vec![1], &place.rows()[0].cell));
    let rows = place.rows();
    assert_ne!(rows[0].started_ms, rows[1].started_ms);
    assert_eq!(rows[2].replaces, Some(rows[0].started_ms));
    assert!(rows[..2].iter().all(|row| row.replaces.is_none()));
    // Now nothing is left.
    let (_, told, ran) = place.measure(&[study("a", 1, "")], true, Vec::new()).unwrap();
    assert_eq!((told.left, ran), (vec![0], Vec::new()));
}

#[test]
fn each_study_of_a_group_has_its_own_budget_and_an_interrupt_ends_all() {
    let place = Place::new();
    let with_budget = study("a", 3, "time_budget = '3s'");
    let other = StudyFile { workloads: Some(vec!["small:live=64".into()]), ..study("b", 1, "") };
    let group = [with_budget, other.clone()];
    let (measured, told, _) = place.measure(&group, false, (0..4).map(|_| answer()).collect()).unwrap();
    let ended = measured.ended.unwrap();
    assert_eq!(ended.out_of_budget, [OutOfBudget { study: Some("a".into()), left: 4, of: 6 }]);
    assert_eq!((ended.interrupted, told.studies), (None, vec![0, 1]));
    let places: Vec<u32> = place.rows().iter().map(|row| row.cell.place).collect();
    assert!(places.is_sorted(), "the second study stands behind the first: {places:?}");

    let place = Place::new();
    let group = [study("a", 1, ""), other];
    let (measured, told, ran) = place.measure(&group, false, vec![ScriptStep::Interrupts]).unwrap();
    assert_eq!((measured.ended.unwrap().interrupted, told.studies, ran.len()), (Some(4), vec![0], 1));
}

#[test]
fn rows_of_another_study_are_not_continued() {
    let place = Place::new();
    drop(place.measure(&[study("a", 1, "")], false, vec![answer(), answer()]).unwrap());
    for (other, said) in [
        (study("a", 1, "seed = 2"), "the rows there are of another study"),
        (
            StudyFile { workloads: Some(vec!["bleed".into()]), ..study("a", 1, "") },
            "the rows there are of another study",
        ),
    ] {
        let refused = place.refused(&other, true);
        assert!(refused.starts_with("--resume: ") && refused.contains(said), "{refused}");
    }
    // Without the study next to them, the rows themselves tell.
    fs::remove_file(place.path().join("out/study.toml")).unwrap();
    let refused = place.refused(&study("a", 1, "seed = 2"), true);
    assert!(refused.contains("has rows of another study") && refused.contains(": wanted seed "), "{refused}");
    assert_eq!(place.rows().len(), 2);
}

#[test]
fn files_of_the_user_are_not_written_over() {
    for name in ["study.toml", "report.html"] {
        let place = Place::new();
        let out = place.path().join("out");
        fs::create_dir(&out).unwrap();
        fs::write(out.join(name), "name = 'mine'\n").unwrap();
        let refused = place.refused(&study("a", 1, ""), false);
        assert!(
            refused.contains(name) && refused.contains("would be overwritten: name another --out-dir"),
            "{refused}"
        );
        assert_eq!(fs::read_to_string(out.join(name)).unwrap(), "name = 'mine'\n");
        assert!(!out.join("samples.jsonl").exists());
    }
}

/// Each of these could be planned alone.
#[test]
fn a_group_that_is_too_large_is_refused_with_its_size() {
    let each = |name: &str| StudyFile {
        repeats: Some(100_000),
        candidates: Some(vec!["system".into()]),
        ..study(name, 1, "")
    };
    let group = Studies(["a", "b", "c"].map(each).to_vec());
    let refused = planned(&group, &cells()).unwrap_err().to_string();
    assert!(refused.contains("wanted at most 250000, found 300000 (3 studies)"), "{refused}");
}

#[test]
fn two_sizes_of_a_study_share_no_cell() {
    let place = Place::new();
    let twice = [study("a", 1, ""), study("a", 1, "")];
    let refused = place.measure(&twice, false, Vec::new()).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("two of its sizes have the cell"), "{refused}");
    assert!(!place.path().join("out").exists(), "nothing is left behind");
}
