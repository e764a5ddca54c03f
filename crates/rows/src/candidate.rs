//! A candidate: an allocator, its settings, and the variables of the user's environment that it gets. In: a row's
//! texts. Out: a candidate, which prints as in the row.

use std::collections::BTreeMap;
use std::fmt;

use crate::Spec;

/// An allocator with its settings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// Name and settings in the study's notation.
    pub spec: Spec,
    /// Variables of the user's environment that its cells get.
    pub inherited: BTreeMap<String, String>,
}

impl Candidate {
    /// A row's candidate: its text, and the variables that its cell got. A text that is not in our notation counts as a name, so that rows
    /// of other programs can be shown.
    pub fn read(text: &str, inherited: &BTreeMap<String, String>) -> Candidate {
        let known = text.strip_suffix(&after(inherited)).and_then(|spec| Spec::parse(spec).ok());
        match known {
            Some(spec) => Candidate { spec, inherited: inherited.clone() },
            None => Spec::named(text).into(),
        }
    }
}

impl From<&str> for Candidate {
    /// A candidate from this text. It gets no variable of the user's environment. A text that is not in our notation counts as a name.
    fn from(text: &str) -> Candidate {
        Candidate::read(text, &BTreeMap::new())
    }
}

impl From<Spec> for Candidate {
    /// A candidate that gets no variable of the user's environment.
    fn from(spec: Spec) -> Candidate {
        Candidate { spec, inherited: BTreeMap::new() }
    }
}

/// The variables in the form in which they follow the notation: ` NAME=VALUE NAME=VALUE`.
fn after(inherited: &BTreeMap<String, String>) -> String {
    inherited.iter().map(|(name, value)| format!(" {name}={value}")).collect()
}

impl fmt::Display for Candidate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.spec, after(&self.inherited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rows_candidate_prints_as_the_row_says_it() {
        let passed = BTreeMap::from([("MALLOC_CONF".to_string(), "narenas:1, tcache:false".to_string())]);
        let none = BTreeMap::new();
        for (text, inherited, name, settings) in [
            ("jemalloc", &none, "jemalloc", 0),
            ("jemalloc:narenas=1,tcache=false", &none, "jemalloc", 2),
            ("jemalloc:narenas=1 MALLOC_CONF=narenas:1, tcache:false", &passed, "jemalloc", 1),
            ("preload=/a b/c.so,env.A=1", &none, "preload=/a b/c.so", 1),
            // Not in our notation.
            ("my allocator", &none, "my allocator", 0),
            ("", &none, "", 0),
        ] {
            let read = Candidate::read(text, inherited);
            assert_eq!((read.to_string().as_str(), read.spec.name.as_str()), (text, name));
            assert_eq!((read.spec.settings.len(), &read.inherited), (settings, inherited));
        }
        // A row whose candidate's text does not have the variables.
        assert_eq!(Candidate::read("jemalloc 5", &passed).to_string(), "jemalloc 5");
    }
}
