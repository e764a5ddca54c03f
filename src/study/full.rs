//! The published size of a study. In: a study with a `[full]` table, and the memory at hand. Out: the larger study, or
//! why it does not fit.

use super::{Full, StudyFile};
use crate::error::{Error, Result};
use crate::units::{Bytes, parse_bytes};

/// A study at its published size.
#[derive(Debug, PartialEq)]
pub enum Sized {
    /// It fits.
    Fits(Box<StudyFile>),
    /// It needs more memory than there is: what to tell the user.
    TooLarge(String),
}

impl StudyFile {
    /// This study at its published size, where `at_hand` bytes are enough for it.
    pub fn at_full_size(self, at_hand: u64) -> Result<Sized> {
        let name = self.name.clone().unwrap_or_else(|| "this study".into());
        let Some(full) = &self.full else {
            let text = format!("--full: {name} has no `[full]` table: what it measures is all that there is");
            return Err(Error::Input(text));
        };
        let wanted = parse_bytes(&full.memory).ok_or_else(|| {
            let found = &full.memory;
            Error::Input(format!("{name}: full.memory: wanted a size such as 6.5GiB, found `{found}`"))
        })?;
        if wanted > at_hand {
            let (wanted, at_hand) = (Bytes(wanted), Bytes(at_hand));
            return Ok(Sized::TooLarge(format!(
                "{name}: its full size needs {wanted}, and {at_hand} are at hand: not run"
            )));
        }
        let Full { memory: _, workloads, candidates, repeats, budget, deadline, seconds } = full.clone();
        Ok(Sized::Fits(Box::new(StudyFile {
            workloads: workloads.or(self.workloads),
            candidates: candidates.or(self.candidates),
            repeats: repeats.or(self.repeats),
            // The small study's budget was made for the small study.
            budget,
            deadline: deadline.or(self.deadline),
            seconds,
            full: None,
            ..self
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_larger_and_what_does_not_says_by_how_much() {
        let text =
            "name = 'sort'\nrepeats = 5\nbudget = '9s'\nworkloads = ['a']\n[full]\nmemory = '6GiB'\nworkloads = ['b']";
        let study = StudyFile::parse("x", text).unwrap();
        let Sized::Fits(full) = study.clone().at_full_size(6 << 30).unwrap() else { panic!("6 GiB are enough") };
        assert_eq!((full.repeats, &full.budget, &full.full), (Some(5), &None, &None));
        assert_eq!(full.workloads, Some(vec!["b".to_string()]));
        let Sized::TooLarge(said) = study.at_full_size(5 << 30).unwrap() else { panic!("5 GiB are not") };
        assert_eq!(said, "sort: its full size needs 6.00 GiB, and 5.00 GiB are at hand: not run");
    }

    #[test]
    fn a_study_without_a_full_size_says_so() {
        let said = |text: &str| StudyFile::parse("x", text).unwrap().at_full_size(1).unwrap_err().to_string();
        assert!(said("name = 'cores'").contains("cores has no `[full]` table"));
        assert!(said("[full]\nmemory = 'much'").contains("full.memory: wanted a size such as 6.5GiB, found `much`"));
    }
}
