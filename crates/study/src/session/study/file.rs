//! The fields of a study, from a TOML file or from flags. In: text. Out: fields that may be missing.
//!
//! A file contains one study, or several as a list of `[[study]]` tables: see [`Studies`](super::Studies).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use allocanary_measure::summary::Published;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::program::Program;

/// The fields of a study file. An unknown key is an error: a misspelt `repeats` would silently measure less.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyFile {
    /// The study's name in its rows. One file of rows may contain several studies: a report shows a section for each
    /// name. Studies with the same name are the sizes of one study.
    pub name: Option<String>,
    /// The question that the study answers.
    pub question: Option<String>,
    /// What a report shows, by the names of `allocanary list metrics`: one table of the whole study instead of a table
    /// of resident memory for each workload.
    pub metrics: Option<Vec<String>>,
    /// The package whose cells the study needs as well as the command's own. It is built if cargo started the command.
    pub package: Option<String>,
    /// Candidates: `["system", "jemalloc:narenas=1"]`.
    pub candidates: Option<Vec<String>>,
    /// Workloads: `["server", "small:live=1000"]`.
    pub workloads: Option<Vec<String>>,
    /// Numbers of worker threads.
    pub threads: Option<Vec<u32>>,
    /// Numbers of CPUs to emulate.
    pub emulate_cpus: Option<Vec<u32>>,
    /// Repeats: processes per cell.
    pub repeats: Option<u32>,
    /// Random seed for run order and workloads.
    pub seed: Option<u64>,
    /// Time budget for the whole study: `"100s"`.
    pub time_budget: Option<String>,
    /// Time limit of one cell.
    pub run_timeout: Option<String>,
    /// Variables of the user's environment that the cells get. The command writes them; a user does not.
    pub inherited: Option<BTreeMap<String, String>>,
    /// The user's program, which the cells run instead of a workload.
    pub program: Option<Program>,
    /// Figures that others have published. A report shows them next to ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// Large sizes, such as the published one of a study that is itself smaller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub full: Vec<Full>,
}

/// The values that `--full` changes in a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Full {
    /// The memory that its largest cell needs: `"6.5GiB"`. If less is available, this size is named and not run.
    pub memory: String,
    /// Workloads with their large parameters.
    pub workloads: Option<Vec<String>>,
    /// Candidates, if not all of them can run this size.
    pub candidates: Option<Vec<String>>,
    /// Numbers of worker threads.
    pub threads: Option<Vec<u32>>,
    /// Repeats: processes per cell.
    pub repeats: Option<u32>,
    /// Time budget for the whole study [default: none].
    pub time_budget: Option<String>,
    /// Time limit of one cell.
    pub run_timeout: Option<String>,
}

impl StudyFile {
    /// Reads a text; `name` is what an error calls it.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| unreadable(name, text, &error))
    }

    /// This study, with every field replaced that `flags` sets.
    pub fn overridden_by(self, flags: StudyFile) -> StudyFile {
        StudyFile {
            name: flags.name.or(self.name),
            question: flags.question.or(self.question),
            metrics: flags.metrics.or(self.metrics),
            package: flags.package.or(self.package),
            candidates: flags.candidates.or(self.candidates),
            workloads: flags.workloads.or(self.workloads),
            // Threads and cores are one axis: a flag for either one replaces both of the file's values.
            threads: if flags.emulate_cpus.is_some() {
                flags.threads.clone()
            } else {
                flags.threads.clone().or(self.threads)
            },
            emulate_cpus: if flags.threads.is_some() {
                flags.emulate_cpus
            } else {
                flags.emulate_cpus.or(self.emulate_cpus)
            },
            repeats: flags.repeats.or(self.repeats),
            seed: flags.seed.or(self.seed),
            time_budget: flags.time_budget.or(self.time_budget),
            run_timeout: flags.run_timeout.or(self.run_timeout),
            inherited: flags.inherited.or(self.inherited),
            program: flags.program.or(self.program),
            published: if flags.published.is_empty() { self.published } else { flags.published },
            full: if flags.full.is_empty() { self.full } else { flags.full },
        }
    }

    /// Whether a report shows the same text for both, so that one section can have the rows of both.
    pub(super) fn is_read_as(&self, other: &StudyFile) -> bool {
        let read = |study: &StudyFile| (study.question.clone(), study.metrics.clone(), study.published.clone());
        self.name == other.name && read(self) == read(other)
    }

    /// As TOML, to be read again by `--resume`.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a study has only texts, numbers and lists")
    }
}

/// The error of a text that is not a study.
pub(super) fn unreadable(name: &str, text: &str, error: &toml::de::Error) -> Error {
    Error::StudyFile { path: name.to_string(), problem: problem(error, text) }
}

/// The parser's message has several lines; an error has one. The line of the file contains the key.
fn problem(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().trim().replace('\n', "; ");
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return message };
    let number = before.matches('\n').count();
    let line = text.lines().nth(number).unwrap_or_default().trim();
    format!("line {}: `{line}`: {message}", number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_does_not_exist_is_named_with_its_line() {
        let text = "candidates = [\"system\"]\nrepeat = 3\n";
        let said = StudyFile::parse("my.toml", text).unwrap_err().to_string();
        assert!(said.starts_with("my.toml: "), "{said}");
        assert!(said.contains("line 2") && said.contains("`repeat`") && said.contains("repeats"), "{said}");
    }

    #[test]
    fn flags_win_and_the_rest_stays() {
        let file = StudyFile::parse("x", "threads = [1]\nrepeats = 3\nseed = 7").unwrap();
        let flags = StudyFile { emulate_cpus: Some(vec![4]), repeats: Some(5), ..StudyFile::default() };
        let both = file.clone().overridden_by(flags);
        assert_eq!((both.threads, both.emulate_cpus, both.repeats, both.seed), (None, Some(vec![4]), Some(5), Some(7)));
        assert_eq!(file.clone().overridden_by(StudyFile::default()), file);
        assert_eq!(StudyFile::parse("x", &file.to_toml()).unwrap(), file);
    }
}
