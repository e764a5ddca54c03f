//! A study as it is written: TOML, or flags in the same shape. In: text. Out: fields that may be missing.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The wire type. A key that does not exist is an error, since a misspelt `repeats` would silently measure less.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyFile {
    /// What the study shall answer.
    pub question: Option<String>,
    /// Candidates: `["system", "jemalloc:narenas=1"]`.
    pub candidates: Option<Vec<String>>,
    /// Workloads: `["server", "small:live=1000"]`.
    pub workloads: Option<Vec<String>>,
    /// Worker threads.
    pub threads: Option<Vec<u32>>,
    /// Emulated cores.
    pub cores: Option<Vec<u32>>,
    /// Fresh processes for each cell.
    pub repeats: Option<u32>,
    /// The seed.
    pub seed: Option<u64>,
    /// Time for the whole study: `"100s"`.
    pub budget: Option<String>,
    /// Time for one cell.
    pub deadline: Option<String>,
    /// Variables of the user's environment that the candidates keep. Written by the command, not by hand.
    pub inherited: Option<BTreeMap<String, String>>,
}

impl StudyFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, "reading the study", error))?;
        StudyFile::parse(&path.display().to_string(), &text)
    }

    /// Reads a text; `name` is what an error calls it.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        toml::from_str(text)
            .map_err(|error| Error::StudyFile { path: name.to_string(), problem: problem(&error, text) })
    }

    /// This study with every field that `flags` sets replaced.
    pub fn overridden_by(self, flags: StudyFile) -> StudyFile {
        StudyFile {
            question: flags.question.or(self.question),
            candidates: flags.candidates.or(self.candidates),
            workloads: flags.workloads.or(self.workloads),
            // Threads and cores are one axis: a flag for either replaces the file's axis whole.
            threads: if flags.cores.is_some() { flags.threads.clone() } else { flags.threads.clone().or(self.threads) },
            cores: if flags.threads.is_some() { flags.cores } else { flags.cores.or(self.cores) },
            repeats: flags.repeats.or(self.repeats),
            seed: flags.seed.or(self.seed),
            budget: flags.budget.or(self.budget),
            deadline: flags.deadline.or(self.deadline),
            inherited: flags.inherited.or(self.inherited),
        }
    }

    /// As TOML, to be read again by `--resume`.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a study has only texts, numbers and lists")
    }
}

/// The parser's own text is a picture of several lines; an error is one. The line of the file holds the key.
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
        let flags = StudyFile { cores: Some(vec![4]), repeats: Some(5), ..StudyFile::default() };
        let both = file.clone().overridden_by(flags);
        assert_eq!((both.threads, both.cores, both.repeats, both.seed), (None, Some(vec![4]), Some(5), Some(7)));
        assert_eq!(file.clone().overridden_by(StudyFile::default()), file);
        assert_eq!(StudyFile::parse("x", &file.to_toml()).unwrap(), file);
    }
}
