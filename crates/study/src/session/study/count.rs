//! Counts the cells of a study before the plan is built, because a plan that is too large would use up the memory.
//! In: a study file's fields. Out: an error with the number, if there are too many.

use super::checked::{REPEATS, Study, THREADS};
use super::file::StudyFile;
use allocanary_rows::error::{Error, Result};

/// The maximum number of cells of a study, and of a group of studies. They take hours to run, and 200 MiB to plan.
pub const MOST_CELLS: u128 = 250_000;

impl StudyFile {
    /// Fails if there are more than [`MOST_CELLS`] cells. A repeated name counts each time here.
    pub(super) fn check_count(&self) -> Result<()> {
        let length = |names: &Option<Vec<String>>| names.as_ref().map_or(1, Vec::len);
        let numbers = |numbers: &Option<Vec<u32>>, default| numbers.as_ref().map_or(default, Vec::len);
        let fixed = self.emulate_cpus.is_some() || self.program.is_some();
        let threads = numbers(&self.threads, if fixed { 1 } else { THREADS.len() });
        let factors = [
            (length(&self.candidates) as u64, "candidates"),
            (length(&self.workloads) as u64, "workloads"),
            (threads as u64, "threads"),
            (numbers(&self.emulate_cpus, 1) as u64, "cores"),
            (u64::from(self.repeats.unwrap_or(REPEATS)), "repeats"),
        ];
        let cells = factors.iter().fold(1_u128, |cells, (factor, _)| cells.saturating_mul(u128::from(*factor)));
        if cells <= MOST_CELLS {
            return Ok(());
        }
        let factors: Vec<String> = factors
            .iter()
            .filter(|(factor, _)| *factor != 1)
            .map(|(factor, name)| format!("{factor} {name}"))
            .collect();
        Err(too_many(cells, &format!(" ({})", factors.join(" x "))))
    }
}

impl Study {
    /// The number of cells of its plan.
    pub fn count(&self) -> u128 {
        let factors = [self.candidates.len(), self.workloads.len(), self.hosts.len(), self.repeats as usize];
        factors.iter().fold(1, |cells, factor| cells.saturating_mul(*factor as u128))
    }
}

/// The error of a plan that is too large.
pub fn too_many(cells: u128, factors: &str) -> Error {
    Error::Input(format!(
        "too many cells: wanted at most {MOST_CELLS}, found {cells}{factors}: reduce a number, or split the study"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Option<Vec<String>> {
        Some((0..count).map(|at| format!("system:arena_max={}", at + 1)).collect())
    }

    #[test]
    fn a_plan_is_counted_before_it_is_made() {
        let file = StudyFile { candidates: names(1), ..StudyFile::default() };
        let said = |file: &StudyFile| file.clone().check().unwrap_err().to_string();
        let repeats = StudyFile { repeats: Some(100_000_000), ..file.clone() };
        assert!(said(&repeats).contains("wanted at most 250000, found 400000000 (4 threads x 100000000 repeats)"));
        let large = StudyFile {
            candidates: names(4000),
            workloads: Some(vec!["server".into(); 3000]),
            threads: Some(vec![1; 1000]),
            emulate_cpus: Some(vec![1; 5000]),
            repeats: Some(u32::MAX),
            ..StudyFile::default()
        };
        let factors = "(4000 candidates x 3000 workloads x 1000 threads x 5000 cores x 4294967295 repeats)";
        assert!(said(&large).contains(&format!("found 257698037700000000000000 {factors}")), "{}", said(&large));
        // The maximum itself is accepted.
        let most = StudyFile { threads: Some(vec![1]), repeats: Some(250_000), ..file.clone() };
        assert_eq!(most.clone().check().unwrap().count(), MOST_CELLS);
        let more = StudyFile { repeats: Some(250_001), ..most };
        assert!(said(&more).contains("found 250001 (250001 repeats)"), "{}", said(&more));
        assert_eq!(file.check().unwrap().count(), 40);
    }
}
