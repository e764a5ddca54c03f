//! Several studies that run together and share one report. In: a file with one study, or with a list of `[[study]]`
//! tables. Out: the studies. Each is the same as if it ran alone; their rows are in one file.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::file::{StudyFile, unreadable};
use allocanary_rows::error::{Error, Result};
use allocanary_sys::input;
use allocanary_text::outside::harmless;

/// One or more studies, in the order in which they run and appear in the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Studies(pub Vec<StudyFile>);

/// The form of a file with several studies.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Several {
    study: Vec<StudyFile>,
}

/// Shows which form a file has: that of one study, or of several.
#[derive(Deserialize)]
struct StudiesFile {
    study: Option<toml::Value>,
}

impl Studies {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = input::text(path).map_err(|error| Error::file(path, "reading the study", error))?;
        Studies::parse(&path.display().to_string(), &text)
    }

    /// Reads a text; `name` is what an error calls it.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        if !toml::from_str(text).is_ok_and(|shape: StudiesFile| shape.study.is_some()) {
            return Ok(Studies(vec![StudyFile::parse(name, text)?]));
        }
        let several: Several = toml::from_str(text).map_err(|error| unreadable(name, text, &error))?;
        let group = Studies(several.study);
        group.check_names(name)?;
        Ok(group)
    }

    /// Fails if two studies have the same name but a report shows them differently: a row identifies its study only by the name. Studies
    /// with the same name are the sizes of one study. A single study needs no name.
    fn check_names(&self, file: &str) -> Result<()> {
        let problem = |problem: String| Err(Error::StudyFile { path: file.to_string(), problem });
        let Some(first) = self.0.first() else {
            return problem("`study`: wanted at least one, found none".into());
        };
        let one = self.0.iter().all(|study| study.is_read_as(first));
        for (at, study) in self.0.iter().enumerate() {
            let Some(name) = &study.name else {
                if one {
                    continue;
                }
                return problem(format!("study {} of {} has no `name`, and rows need it", at + 1, self.0.len()));
            };
            let mut before = self.0[..at].iter().filter(|other| other.name == study.name);
            if !before.all(|other| other.is_read_as(study)) {
                let differ = "and differ in `question`, `metrics` or `published`, which a report shows once";
                return problem(format!("two studies have the name `{name}` {differ}"));
            }
        }
        Ok(())
    }

    /// As TOML, to be read again by `--resume` and by `report`.
    pub fn to_toml(&self) -> String {
        match self.0.as_slice() {
            [study] => study.to_toml(),
            several => toml::to_string(&Several { study: several.to_vec() })
                .expect("a study has only texts, numbers, lists and tables"),
        }
    }

    /// The study with this name, or the first of its sizes: a report shows the same text for all sizes. In rows, the control characters of
    /// a name are replaced.
    pub fn find(&self, name: Option<&str>) -> Option<&StudyFile> {
        self.0.iter().find(|study| study.name.as_deref().map(harmless) == name.map(harmless))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_study_and_several_are_read_as_they_were_written() {
        let one = Studies::parse("x", "question = 'why?'\nrepeats = 3").unwrap();
        assert_eq!(one.0.len(), 1);
        let text = "[[study]]\nname = 'a'\nrepeats = 2\n[[study.published]]\nby = 'x'\nwhat = 'y'\nfigure = '1 s'\n\
                    [[study]]\nname = 'b'\n[[study.full]]\nmemory = '1GiB'\nrepeats = 1\n";
        let two = Studies::parse("x", text).unwrap();
        let names: Vec<_> = two.0.iter().map(|study| study.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(two.find(Some("a")).unwrap().published[0].figure, "1 s");
        let sizes =
            Studies::parse("x", "[[study]]\nname = 'a'\nrepeats = 1\n[[study]]\nname = 'a'\nthreads = [1]").unwrap();
        let unnamed = Studies::parse("x", "[[study]]\nrepeats = 1\n[[study]]\nthreads = [1]").unwrap();
        for group in [one, two, sizes, unnamed] {
            assert_eq!(Studies::parse("again", &group.to_toml()).unwrap(), group);
        }
    }

    #[test]
    fn studies_that_rows_could_not_tell_apart_are_refused() {
        for (text, said) in [
            ("[[study]]\nrepeats = 1\n[[study]]\nname = 'a'", "study 1 of 2 has no `name`"),
            ("[[study]]\nname = 'a'\n[[study]]\nname = 'a'\nquestion = 'b?'", "two studies have the name `a`"),
            ("[[study]]\n[[study]]\nmetrics = ['resident']", "study 1 of 2 has no `name`"),
            ("study = []", "wanted at least one"),
            ("[[study]]\nname = 'a'\nrepeat = 1", "`repeat`"),
        ] {
            let error = Studies::parse("my.toml", text).unwrap_err().to_string();
            assert!(error.starts_with("my.toml: ") && error.contains(said), "{error}");
        }
    }
}
