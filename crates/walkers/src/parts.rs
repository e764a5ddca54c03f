//! What the resident bytes of a heap are.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// In a block that the program holds.
    Live,
    /// In a block that the program has freed and a thread cache keeps.
    Cached,
    /// Free, in a page that has something else in it: fragmentation.
    Free,
    /// In a whole page without anything in it that the allocator keeps.
    Kept,
    /// The allocator's own structures.
    Structures,
    /// Never used: resident only because the kernel made a huge page around it.
    Padding,
    /// Freed lazily: the kernel takes the page back when it needs memory.
    Lazy,
    /// Of the heap, and not known.
    Unknown,
}

/// Every part, in the order of reports.
pub const PARTS: [Part; 8] =
    [Part::Live, Part::Cached, Part::Free, Part::Kept, Part::Structures, Part::Padding, Part::Lazy, Part::Unknown];

impl Part {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Part::Live => "live",
            Part::Cached => "cached by threads",
            Part::Free => "free in used pages",
            Part::Kept => "whole free pages",
            Part::Structures => "structures",
            Part::Padding => "huge-page padding",
            Part::Lazy => "lazily freed",
            Part::Unknown => "not known",
        }
    }

    /// Its name in a saved reading.
    pub fn key(self) -> &'static str {
        match self {
            Part::Live => "live",
            Part::Cached => "cached",
            Part::Free => "free",
            Part::Kept => "kept",
            Part::Structures => "structures",
            Part::Padding => "padding",
            Part::Lazy => "lazy",
            Part::Unknown => "unknown",
        }
    }
}

/// Resident bytes by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts([u64; PARTS.len()]);

impl Parts {
    /// The bytes of a part.
    pub fn of(&self, part: Part) -> u64 {
        self.0[part as usize]
    }

    /// Adds bytes to a part.
    pub fn add(&mut self, part: Part, bytes: u64) {
        self.0[part as usize] += bytes;
    }

    /// Moves bytes from one part to another: as many as there are, at most.
    pub fn pass(&mut self, from: Part, to: Part, bytes: u64) {
        let bytes = bytes.min(self.of(from));
        self.0[from as usize] -= bytes;
        self.add(to, bytes);
    }

    /// All bytes.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each part with its bytes, in the order of reports.
    pub fn iter(&self) -> impl Iterator<Item = (Part, u64)> + '_ {
        PARTS.iter().map(|&part| (part, self.of(part)))
    }
}

/// `whole` divided as `part` is to `of`.
pub fn part_of(whole: u64, part: u64, of: u64) -> u64 {
    (u128::from(whole) * u128::from(part) / u128::from(of.max(1))) as u64
}

impl std::ops::AddAssign for Parts {
    fn add_assign(&mut self, other: Parts) {
        for (sum, bytes) in self.0.iter_mut().zip(other.0) {
            *sum += bytes;
        }
    }
}

/// Each part's bytes under its key.
impl Serialize for Parts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter().map(|(part, bytes)| (part.key(), bytes)))
    }
}

/// A part that is missing has no bytes.
impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Parts, D::Error> {
        let mut parts = Parts::default();
        for (key, bytes) in BTreeMap::<String, u64>::deserialize(from)? {
            let part = PARTS.into_iter().find(|part| part.key() == key);
            parts.add(part.ok_or_else(|| D::Error::custom(format!("no part `{key}`")))?, bytes);
        }
        Ok(parts)
    }
}
