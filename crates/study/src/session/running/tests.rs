//! The loop over cells, by scripts: no process is started.

use super::*;
use crate::session::{ScriptStep, Scripted};
use allocanary_rows::error::Error;
use allocanary_rows::job::Job;
use allocanary_rows::sample::{Failure, FailureKind};

const SECOND: Duration = Duration::from_secs(1);

fn cell(candidate: &str, repeat: u32) -> Cell {
    Cell { repeat, ..Cell::new(candidate, candidate, Job::workload("small", 1)) }
}

/// Rounds of two candidates.
fn rounds(count: u32) -> Vec<Cell> {
    (0..count).flat_map(|repeat| ["system", "jemalloc"].map(|candidate| cell(candidate, repeat))).collect()
}

fn answers(seconds: u32) -> ScriptStep {
    ScriptStep::Answers(Box::default(), SECOND * seconds)
}

/// Runs cells by a script. The ending, the rows, and the cells that were run.
fn run(
    cells: &[Cell],
    budget: Option<Duration>,
    lines: impl IntoIterator<Item = ScriptStep>,
) -> (Ending, Vec<Sample>, Vec<Cell>) {
    let (scripted, interrupted, mut rows) = (Scripted::new(lines), AtomicBool::new(false), Vec::new());
    let session = Session { executor: &scripted, deadline: SECOND, budget, interrupted: &interrupted };
    let ending = session.run(cells, |sample| {
        rows.push(sample.clone());
        Ok(())
    });
    (ending.unwrap(), rows, scripted.ran())
}

#[test]
fn every_cell_has_a_row_in_the_order_of_the_plan() {
    let cells = rounds(3);
    let (ending, rows, ran) = run(&cells, None, [1, 2, 3, 4, 5, 6].map(answers));
    assert_eq!((ending, ran), (Ending::Finished, cells.clone()));
    assert_eq!(rows.iter().map(|row| row.cell.clone()).collect::<Vec<_>>(), cells);
    assert_eq!(rows.iter().map(|row| row.wall_us / 1_000_000).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_failed_cell_is_a_row_and_the_next_one_is_run() {
    let late = Failure { kind: FailureKind::Late, text: "killed at its deadline".into() };
    let (ending, rows, _) = run(&rounds(1), None, [ScriptStep::Fails(late.clone(), SECOND), answers(1)]);
    assert_eq!(ending, Ending::Finished);
    assert_eq!((rows[0].error.clone(), rows[0].measured.clone()), (Some(late), None));
    assert!(rows[1].error.is_none() && rows[1].measured.is_some());
}

#[test]
fn an_interrupted_cell_has_no_row_and_no_other_is_run() {
    let (ending, rows, ran) = run(&rounds(2), None, [answers(1), ScriptStep::Interrupts]);
    assert_eq!((ending, rows.len(), ran.len()), (Ending::Interrupted(3), 1, 2));
}

#[test]
fn an_interrupt_between_two_cells_starts_no_other() {
    let (scripted, interrupted) = (Scripted::new([answers(1)]), AtomicBool::new(false));
    let session = Session { executor: &scripted, deadline: SECOND, budget: None, interrupted: &interrupted };
    let ending = session.run(&rounds(1), |_| {
        interrupted.store(true, Ordering::Relaxed);
        Ok(())
    });
    assert_eq!((ending.unwrap(), scripted.ran().len()), (Ending::Interrupted(1), 1));
}

#[test]
fn a_budget_ends_before_a_round_that_would_be_too_late() {
    // Rounds of 4, 2 and 2 seconds; the next one may take 4, as long as the longest.
    let lines = || [2, 2, 1, 1, 1, 1].map(answers);
    for (budget, ending, rows) in [
        (1, Ending::OutOfBudget(4), 2),
        (7, Ending::OutOfBudget(4), 2),
        (8, Ending::OutOfBudget(2), 4),
        (9, Ending::OutOfBudget(2), 4),
        (10, Ending::Finished, 6),
    ] {
        let found = run(&rounds(3), Some(SECOND * budget), lines());
        assert_eq!((found.0, found.1.len()), (ending, rows), "{budget} s");
    }
}

#[test]
fn a_row_that_cannot_be_written_ends_the_session() {
    let (scripted, interrupted) = (Scripted::new([answers(1)]), AtomicBool::new(false));
    let session = Session { executor: &scripted, deadline: SECOND, budget: None, interrupted: &interrupted };
    let ended = session.run(&rounds(2), |_| Err(Error::Input("the disk is full".into())));
    assert_eq!((ended.unwrap_err().to_string(), scripted.ran().len()), ("the disk is full".into(), 1));
}
