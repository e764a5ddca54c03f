//! The version of the allocator, and the builds of the user's files. In: a row. Out: an identity that can be compared
//! and printed.

use std::fmt;

use crate::sample::Sample;

/// The version of the allocator, with the builds of the user's files. Rows that differ in it are never pooled.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The allocator's version; empty if the row failed before the allocator reported it.
    pub allocator: String,
    /// The builds of the program, and of a library that the candidate names by its path. Empty in rows of our workloads.
    pub builds: Vec<String>,
}

impl Version {
    /// The version of a row.
    pub fn of(sample: &Sample) -> Version {
        let allocator = sample.measured.as_ref().map_or_else(String::new, |answer| answer.version.clone());
        Version { allocator, builds: sample.builds.values().cloned().collect() }
    }

    /// The version in a row of the same files that failed before the allocator reported its version.
    pub fn of_failed(&self) -> Version {
        Version { allocator: String::new(), builds: self.builds.clone() }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.allocator.is_empty(), self.builds.is_empty()) {
            (true, true) => out.write_str("unknown"),
            (false, true) => out.write_str(&self.allocator),
            (true, false) => write!(out, "build {}", self.builds.join(" and ")),
            (false, false) => write!(out, "{}, build {}", self.allocator, self.builds.join(" and ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_says_all_that_is_known() {
        let version = |allocator: &str, builds: &[&str]| Version {
            allocator: allocator.into(),
            builds: builds.iter().map(|build| build.to_string()).collect(),
        };
        for (allocator, builds, said) in [
            ("5.3.1", &[][..], "5.3.1"),
            ("5.3.1", &["ab", "cd"], "5.3.1, build ab and cd"),
            ("", &["ab"], "build ab"),
            ("", &[], "unknown"),
            // An allocator's version may contain the word "build" too.
            ("3.3, build 9", &["ab"], "3.3, build 9, build ab"),
        ] {
            assert_eq!(version(allocator, builds).to_string(), said);
        }
        assert_eq!(version("3.3, build 9", &["ab"]).of_failed(), version("", &["ab"]));
    }
}
