//! The larger sizes of a study. In: a study with `[[full]]` tables, in any order, and the memory at hand. Out: the largest
//! that fits, and what does not fit.

use super::{Full, StudyFile};
use crate::error::{Error, Result};
use crate::units::{Bytes, parse_bytes};

/// A study at the largest of its larger sizes that fits.
#[derive(Debug, PartialEq)]
pub struct Sized {
    /// The study; none where no size fits.
    pub study: Option<StudyFile>,
    /// What to tell the user of the size that needs more memory than there is.
    pub too_large: Option<String>,
}

impl StudyFile {
    /// This study at the largest of its `[[full]]` sizes for which `at_hand` bytes are enough.
    pub fn at_full_size(self, at_hand: u64) -> Result<Sized> {
        let name = self.name.clone().unwrap_or_else(|| "this study".into());
        let memory = |full: &Full| {
            parse_bytes(&full.memory).ok_or_else(|| {
                let found = &full.memory;
                Error::Input(format!("{name}: full.memory: wanted a size such as 6.5GiB, found `{found}`"))
            })
        };
        let wanted = self.full.iter().map(memory).collect::<Result<Vec<u64>>>()?;
        let Some(most) = wanted.iter().max() else {
            let text = format!("--full: {name} has no `[[full]]` table: what it measures is all that there is");
            return Err(Error::Input(text));
        };
        let fits = (0..wanted.len()).filter(|at| wanted[*at] <= at_hand).max_by_key(|at| wanted[*at]);
        let too_large = (*most > at_hand).then(|| {
            let instead = fits.map_or("not run".into(), |fits| format!("run at the size of {}", Bytes(wanted[fits])));
            format!("{name}: its full size needs {}, and {} are at hand: {instead}", Bytes(*most), Bytes(at_hand))
        });
        Ok(Sized { study: fits.map(|fits| self.at_size(fits)), too_large })
    }

    fn at_size(self, size: usize) -> StudyFile {
        let Full { memory: _, workloads, candidates, threads, repeats, budget, deadline, seconds: _ } =
            self.full[size].clone();
        StudyFile {
            workloads: workloads.or(self.workloads),
            candidates: candidates.or(self.candidates),
            threads: threads.or(self.threads),
            repeats: repeats.or(self.repeats),
            // The small study's budget was made for the small study.
            budget,
            deadline: deadline.or(self.deadline),
            full: Vec::new(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_size_that_fits_is_taken_and_what_does_not_says_by_how_much() {
        let text = "name = 'sort'\nrepeats = 5\nbudget = '9s'\nworkloads = ['a']\n\
                    [[full]]\nmemory = '6GiB'\nworkloads = ['b']\n\
                    [[full]]\nmemory = '20GiB'\nworkloads = ['c']\nthreads = [3]";
        let at = |gib: u64| StudyFile::parse("x", text).unwrap().at_full_size(gib << 30).unwrap();
        let full = at(20).study.unwrap();
        assert_eq!((full.repeats, &full.budget, &full.full), (Some(5), &None, &Vec::new()));
        assert_eq!((full.workloads, full.threads), (Some(vec!["c".to_string()]), Some(vec![3])));
        assert_eq!(at(20).too_large, None);
        let Sized { study, too_large } = at(19);
        assert_eq!(study.unwrap().workloads, Some(vec!["b".to_string()]));
        let said = "sort: its full size needs 20.0 GiB, and 19.0 GiB are at hand: run at the size of 6.00 GiB";
        assert_eq!(too_large.as_deref(), Some(said));
        let said = "sort: its full size needs 20.0 GiB, and 5.00 GiB are at hand: not run";
        assert_eq!(at(5), Sized { study: None, too_large: Some(said.into()) });
    }

    #[test]
    fn the_order_of_the_sizes_does_not_matter() {
        let text = "[[full]]\nmemory = '20GiB'\nrepeats = 3\n[[full]]\nmemory = '1GiB'\nrepeats = 1\n\
                    [[full]]\nmemory = '6GiB'\nrepeats = 2";
        let at = |gib: u64| StudyFile::parse("x", text).unwrap().at_full_size(gib << 30).unwrap();
        assert_eq!([1, 6, 20].map(|gib| at(gib).study.unwrap().repeats), [Some(1), Some(2), Some(3)]);
        assert!(
            at(6).too_large.unwrap().contains("needs 20.0 GiB, and 6.00 GiB are at hand: run at the size of 6.00 GiB")
        );
    }

    #[test]
    fn a_study_without_a_full_size_says_so() {
        let said = |text: &str| StudyFile::parse("x", text).unwrap().at_full_size(1).unwrap_err().to_string();
        assert!(said("name = 'cores'").contains("cores has no `[[full]]` table"));
        assert!(said("[[full]]\nmemory = 'much'").contains("full.memory: wanted a size such as 6.5GiB, found `much`"));
    }
}
