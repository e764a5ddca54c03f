//! The large sizes of a study. In: a study with `[[full]]` tables, and the available memory. Out: one study for each
//! size that fits, all with the same name, and a message for each size that does not fit.

use super::file::{Full, StudyFile};
use allocanary_rows::error::{Error, Result};
use allocanary_text::units::{Bytes, parse_bytes};

/// A study at its large sizes.
#[derive(Debug, PartialEq)]
pub struct Sized {
    /// One study for each size that fits, in the order of the file. All have the name of the study, so that a report
    /// shows them in one section. Their rows differ in the workload.
    pub studies: Vec<StudyFile>,
    /// A message for each size that needs more than the available memory.
    pub too_large: Vec<String>,
}

impl StudyFile {
    /// This study at each of its `[[full]]` sizes that fits in `at_hand` bytes of available memory.
    pub fn at_full_size(self, at_hand: u64) -> Result<Sized> {
        let name = self.name.as_deref().unwrap_or("this study");
        if self.full.is_empty() {
            let text = format!("--full: {name} has no `[[full]]` table, and so no larger size: leave out --full");
            return Err(Error::Input(text));
        }
        let mut sized = Sized { studies: Vec::new(), too_large: Vec::new() };
        for full in &self.full {
            let wanted = parse_bytes(&full.memory).ok_or_else(|| {
                let found = &full.memory;
                Error::Input(format!("{name}: full.memory: wanted a size such as 6.5GiB, found `{found}`"))
            })?;
            if wanted <= at_hand {
                sized.studies.push(self.at_size(full));
                continue;
            }
            let what =
                full.workloads.as_ref().or(self.workloads.as_ref()).map_or("one size".into(), |all| all.join(" "));
            let (wanted, there) = (Bytes(wanted), Bytes(at_hand));
            sized
                .too_large
                .push(format!("{name}: not run: {what} needs {wanted} of memory, and {there} are available"));
        }
        Ok(sized)
    }

    fn at_size(&self, full: &Full) -> StudyFile {
        let Full { memory: _, workloads, candidates, threads, repeats, time_budget, run_timeout } = full.clone();
        let small = self.clone();
        StudyFile {
            workloads: workloads.or(small.workloads),
            candidates: candidates.or(small.candidates),
            threads: threads.or(small.threads),
            repeats: repeats.or(small.repeats),
            // The budget of the small study would be too short for the large size.
            time_budget,
            run_timeout: run_timeout.or(small.run_timeout),
            full: Vec::new(),
            ..small
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_that_fits_is_a_study_and_every_other_says_by_how_much_it_does_not() {
        let text = "name = 'sort'\nrepeats = 5\ntime_budget = '9s'\nworkloads = ['a']\n\
                    [[full]]\nmemory = '20GiB'\nworkloads = ['c', 'd']\nthreads = [3]\n\
                    [[full]]\nmemory = '6GiB'\nworkloads = ['b']\n\
                    [[full]]\nmemory = '30GiB'";
        let at = |gib: u64| StudyFile::parse("x", text).unwrap().at_full_size(gib << 30).unwrap();
        let workloads = |sized: &Sized| -> Vec<String> {
            sized.studies.iter().map(|study| study.workloads.as_ref().unwrap().join(" ")).collect()
        };
        let all = at(30);
        assert_eq!((workloads(&all), &all.too_large), (vec!["c d".into(), "b".into(), "a".into()], &Vec::new()));
        let [first, second, _] = all.studies.as_slice() else { panic!("{all:?}") };
        assert_eq!((first.repeats, &first.time_budget, &first.full), (Some(5), &None, &Vec::new()));
        assert_eq!((&first.threads, &second.threads), (&Some(vec![3]), &None));
        assert!(all.studies.iter().all(|study| study.name.as_deref() == Some("sort")));
        let some = at(6);
        assert_eq!(workloads(&some), ["b"]);
        let said = |what: &str, needs: &str, there: &str| {
            format!("sort: not run: {what} needs {needs} GiB of memory, and {there} GiB are available")
        };
        assert_eq!(some.too_large, [said("c d", "20.0", "6.00"), said("a", "30.0", "6.00")]);
        assert_eq!((at(5).studies, at(5).too_large.len()), (Vec::new(), 3));
    }

    #[test]
    fn a_study_without_a_full_size_says_so() {
        let said = |text: &str| StudyFile::parse("x", text).unwrap().at_full_size(1).unwrap_err().to_string();
        assert!(said("name = 'cores'").contains("cores has no `[[full]]` table"));
        assert!(said("[[full]]\nmemory = 'much'").contains("full.memory: wanted a size such as 6.5GiB, found `much`"));
    }
}
