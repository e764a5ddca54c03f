//! How sure a number of bytes is that can go back, in JSON: `exact`, `at_most`, or `unknown` without a number. In: a flag of our own values.
//! Out: the word, and back. Each module is for `#[serde(with = "...")]`.

use serde::{Deserialize, Serialize};

/// The word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The number is what goes back.
    Exact,
    /// The number is the most that goes back.
    AtMost,
    /// There is no number.
    Unknown,
}

impl Bound {
    /// That of a number, if there is one.
    pub fn of(number: Option<u64>, at_most: bool) -> Bound {
        match number {
            None => Bound::Unknown,
            Some(_) if at_most => Bound::AtMost,
            Some(_) => Bound::Exact,
        }
    }
}

/// A flag that is set where the number is only an upper bound.
pub mod at_most {
    use super::Bound;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// As a word.
    pub fn serialize<S: Serializer>(at_most: &bool, to: S) -> Result<S::Ok, S::Error> {
        if *at_most { Bound::AtMost } else { Bound::Exact }.serialize(to)
    }

    /// From a word.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
        Bound::deserialize(from).map(|bound| bound == Bound::AtMost)
    }
}

/// A flag that is set where the number is exact.
pub mod exact {
    use super::Bound;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// As a word.
    pub fn serialize<S: Serializer>(exact: &bool, to: S) -> Result<S::Ok, S::Error> {
        if *exact { Bound::Exact } else { Bound::AtMost }.serialize(to)
    }

    /// From a word.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
        Bound::deserialize(from).map(|bound| bound == Bound::Exact)
    }
}
