//! In JSON, a word says how certain a number of reclaimable bytes is: `exact`, `at_most`, or `unknown` without a number. In: a flag of our
//! own values. Out: the word, and back. Each module is for `#[serde(with = "...")]`.

use serde::{Deserialize, Serialize};

/// The certainty of a number of reclaimable bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Exactly this number goes back.
    Exact,
    /// At most this number goes back.
    AtMost,
    /// There is no number.
    Unknown,
}

impl Bound {
    /// The word for a number, if there is one. `at_most`: whether the number is only an upper bound.
    pub fn of(number: Option<u64>, at_most: bool) -> Bound {
        match number {
            None => Bound::Unknown,
            Some(_) if at_most => Bound::AtMost,
            Some(_) => Bound::Exact,
        }
    }
}

/// For a flag that is true if the number is only an upper bound.
pub mod at_most {
    use super::Bound;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the flag as a word.
    pub fn serialize<S: Serializer>(at_most: &bool, to: S) -> Result<S::Ok, S::Error> {
        if *at_most { Bound::AtMost } else { Bound::Exact }.serialize(to)
    }

    /// Reads the flag from a word.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
        Bound::deserialize(from).map(|bound| bound == Bound::AtMost)
    }
}

/// For a flag that is true if the number is exact.
pub mod exact {
    use super::Bound;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the flag as a word.
    pub fn serialize<S: Serializer>(exact: &bool, to: S) -> Result<S::Ok, S::Error> {
        if *exact { Bound::Exact } else { Bound::AtMost }.serialize(to)
    }

    /// Reads the flag from a word.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
        Bound::deserialize(from).map(|bound| bound == Bound::Exact)
    }
}
