//! A study: its candidates, workloads and repeats. In: a shipped study, a TOML file, flags. Out: a checked [`Study`].

mod about;
mod checked;
mod count;
mod file;
mod full;
mod limits;
mod plan;
mod resumed;
mod shipped;
mod studies;

pub use checked::{Study, ThreadScale};
pub use count::{MOST_CELLS, too_many};
pub use file::{Full, StudyFile};
pub use full::Sized;
pub use limits::memory_at_hand;
pub use plan::{expected_seconds, expected_time, plan};
pub use shipped::{CASES, SHIPPED, Shipped, find_shipped};
pub use studies::Studies;

use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

use checked::{REPEATS, THREADS};

use allocanary_facts as allocators;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::{Candidate, Spec};
use allocanary_text::units::parse_duration;

/// The default candidates of a program that can be preloaded.
pub fn program_candidates() -> impl Iterator<Item = &'static str> {
    std::iter::once("own").chain(allocators::suggested().map(|suggested| suggested.candidate))
}
const DEADLINE: Duration = Duration::from_secs(60);

impl StudyFile {
    /// Checks the values and fills in the defaults.
    pub fn check(self) -> Result<Study> {
        self.check_count()?;
        let input = |text: String| Error::Input(text);
        let spec = |kind: &'static str| {
            move |text: &String| {
                Spec::parse(text).map_err(|problem| Error::Input(format!("{kind} `{text}`: {problem}")))
            }
        };
        if let Some(program) = &self.program {
            crate::program::check(program).map_err(input)?;
            let given = [(self.workloads.is_some(), "workloads"), (self.threads.is_some(), "threads")];
            if let Some((_, key)) = given.into_iter().find(|(given, _)| *given) {
                return Err(input(format!(
                    "{key}: a program decides that itself: leave it out, or leave out [program]"
                )));
            }
        }
        let ours = || program_candidates().map(str::to_string).collect();
        let candidates = self.candidates.unwrap_or_else(|| if self.program.is_some() { ours() } else { Vec::new() });
        let mut candidates: Vec<Spec> = candidates.iter().map(spec("candidate")).collect::<Result<_>>()?;
        drop_repeated(&mut candidates);
        if candidates.is_empty() {
            return Err(input("candidates: wanted at least one, such as `system`, found none".into()));
        }
        let workloads = self.workloads.unwrap_or_else(|| vec!["server".into()]);
        let mut workloads: Vec<Spec> = workloads.iter().map(spec("workload")).collect::<Result<_>>()?;
        drop_repeated(&mut workloads);
        if workloads.is_empty() {
            return Err(input("workloads: wanted at least one, such as `server`, found none".into()));
        }
        let repeats = self.repeats.unwrap_or(REPEATS);
        if repeats == 0 {
            return Err(input("repeats: wanted 1 or more, found 0".into()));
        }
        let span = |key: &str, text: Option<String>| match text {
            None => Ok(None),
            Some(text) => match parse_duration(&text) {
                Some(span) if !span.is_zero() => Ok(Some(span)),
                _ => Err(input(format!("{key}: wanted a time such as 90s or 5m, found `{text}`"))),
            },
        };
        Ok(Study {
            name: self.name,
            question: self.question.unwrap_or_default(),
            candidates: candidates
                .into_iter()
                .map(|spec| Candidate { spec, inherited: self.inherited.clone().unwrap_or_default() })
                .collect(),
            workloads,
            hosts: match &self.program {
                None => scales(self.threads, self.emulate_cpus)?,
                Some(_) if self.emulate_cpus.is_none() => vec![ThreadScale { threads: 0, cores: None }],
                Some(_) => {
                    let scales = scales(None, self.emulate_cpus)?;
                    scales.into_iter().map(|scale| ThreadScale { threads: 0, ..scale }).collect()
                }
            },
            repeats,
            seed: self.seed.unwrap_or(1),
            budget: span("time_budget", self.time_budget)?,
            deadline: span("run_timeout", self.run_timeout)?.unwrap_or(DEADLINE),
            program: self.program,
        })
    }
}

/// Every pair of threads and cores. If only cores are given, the workload starts one thread per core, like a server
/// that adapts to its host.
fn scales(threads: Option<Vec<u32>>, cores: Option<Vec<u32>>) -> Result<Vec<ThreadScale>> {
    let check = |key: &str, numbers: &[u32], most: u64| match numbers.iter().find(|n| **n == 0 || u64::from(**n) > most)
    {
        Some(number) => Err(Error::Input(format!("{key}: wanted 1 to {most}, found {number}"))),
        None if numbers.is_empty() => Err(Error::Input(format!("{key}: wanted at least one number, found none"))),
        None => Ok(()),
    };
    let most_threads = limits::most_threads();
    let mut scales: Vec<ThreadScale> = match (threads, cores) {
        (threads, None) => {
            let threads = threads.unwrap_or_else(|| THREADS.to_vec());
            check("threads", &threads, most_threads)?;
            threads.into_iter().map(|threads| ThreadScale { threads, cores: None }).collect()
        }
        (None, Some(cores)) => {
            check("emulate_cpus", &cores, most_threads)?;
            cores.into_iter().map(|cores| ThreadScale { threads: cores, cores: Some(cores) }).collect()
        }
        (Some(threads), Some(cores)) => {
            check("threads", &threads, most_threads)?;
            check("emulate_cpus", &cores, 100_000)?;
            let pair = |threads| cores.iter().map(move |cores| ThreadScale { threads, cores: Some(*cores) });
            threads.iter().copied().flat_map(pair).collect()
        }
    };
    drop_repeated(&mut scales);
    Ok(scales)
}

/// Drops repeated items: an item that is named twice must not be measured twice as often as the others.
fn drop_repeated<T: Hash + Eq + Clone>(items: &mut Vec<T>) {
    let mut kept = HashSet::new();
    items.retain(|item| kept.insert(item.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> StudyFile {
        StudyFile { candidates: Some(vec!["system".into()]), ..StudyFile::default() }
    }

    #[test]
    fn what_is_left_open_has_a_default() {
        let study = file().check().unwrap();
        assert_eq!(study.workloads[0].to_string(), "server");
        assert_eq!(study.hosts.iter().map(|scale| scale.threads).collect::<Vec<_>>(), THREADS);
        assert_eq!((study.repeats, study.seed, study.budget), (10, 1, None));
    }

    #[test]
    fn threads_follow_the_cores_unless_they_are_given() {
        let scales = |threads: Option<Vec<u32>>, cores| {
            let study = StudyFile { threads, emulate_cpus: Some(cores), ..file() }.check().unwrap();
            study.hosts.iter().map(|scale| (scale.threads, scale.cores)).collect::<Vec<_>>()
        };
        assert_eq!(scales(None, vec![4, 40, 4]), [(4, Some(4)), (40, Some(40))]);
        assert_eq!(scales(Some(vec![8]), vec![4, 40]), [(8, Some(4)), (8, Some(40))]);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let said = |file: StudyFile| file.check().unwrap_err().to_string();
        for (file, text) in [
            (StudyFile { candidates: None, ..file() }, "candidates: wanted at least one"),
            (StudyFile { candidates: Some(vec!["a:b".into()]), ..file() }, "candidate `a:b`: `b` is not `key=value`"),
            (StudyFile { workloads: Some(vec![]), ..file() }, "workloads: wanted at least one, such as `server`"),
            (StudyFile { threads: Some(vec![0]), ..file() }, "threads: wanted 1 to"),
            (StudyFile { threads: Some(vec![4_000_000]), ..file() }, "found 4000000"),
            (StudyFile { threads: Some(vec![]), ..file() }, "threads: wanted at least one number"),
            (StudyFile { emulate_cpus: Some(vec![0]), ..file() }, "emulate_cpus: wanted 1 to"),
            (StudyFile { repeats: Some(0), ..file() }, "repeats: wanted 1 or more"),
            (StudyFile { time_budget: Some("soon".into()), ..file() }, "time_budget: wanted a time"),
            (StudyFile { run_timeout: Some("0s".into()), ..file() }, "run_timeout: wanted a time"),
        ] {
            let said = said(file);
            assert!(said.contains(text), "{said}");
        }
    }
}
