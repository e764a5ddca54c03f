//! Resident bytes of processes, by what they are. The parts add up to what the kernel counts, also between two readings of a heap.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a resident byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// In a block that the program holds.
    Live,
    /// In a free block that a thread cache keeps.
    Cached,
    /// Free, in a page that has something else in it: fragmentation.
    Free,
    /// In a whole free page that the allocator keeps.
    Kept,
    /// Never used: resident only because the kernel made a huge page around it.
    Padding,
    /// The allocator's own structures.
    Structures,
    /// The heap of a language runtime.
    Runtime,
    /// Stacks of threads.
    Stacks,
    /// Programs, libraries, mapped files and shared memory.
    Files,
    /// Not known: not read yet, changed since it was read, or in a heap that cannot be divided into parts.
    Unknown,
}

/// Every part, in the order of reports.
pub const PARTS: [Part; 10] = [
    Part::Live,
    Part::Cached,
    Part::Free,
    Part::Kept,
    Part::Padding,
    Part::Structures,
    Part::Runtime,
    Part::Stacks,
    Part::Files,
    Part::Unknown,
];

/// The order in which the parts lose bytes if resident memory has become less since the heap was read: a process gives back the first
/// ones first.
const LEAVING: [Part; 10] = [
    Part::Kept,
    Part::Unknown,
    Part::Files,
    Part::Free,
    Part::Padding,
    Part::Cached,
    Part::Live,
    Part::Runtime,
    Part::Stacks,
    Part::Structures,
];

impl Part {
    /// Its name as a label and in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Part::Live => "live",
            Part::Cached => "cached",
            Part::Free => "free",
            Part::Kept => "kept",
            Part::Padding => "padding",
            Part::Structures => "structures",
            Part::Runtime => "runtime",
            Part::Stacks => "stacks",
            Part::Files => "files",
            Part::Unknown => "unknown",
        }
    }

    /// Its name for a person.
    pub fn name(self) -> &'static str {
        match self {
            Part::Live => "live",
            Part::Cached => "cached by threads",
            Part::Free => "free in used pages",
            Part::Kept => "whole free pages",
            Part::Padding => "huge-page padding",
            Part::Structures => "structures",
            Part::Runtime => "runtimes' heaps",
            Part::Stacks => "stacks",
            Part::Files => "programs and files",
            Part::Unknown => "not known",
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
        let sum = &mut self.0[part as usize];
        *sum = sum.saturating_add(bytes);
    }

    /// All bytes.
    pub fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes))
    }

    /// Each part with its bytes, in the order of reports.
    pub fn iter(&self) -> impl Iterator<Item = (Part, u64)> + '_ {
        PARTS.iter().map(|&part| (part, self.of(part)))
    }

    /// The parts of an earlier reading, changed so that they add up to `resident` now. Bytes that were added since count as not known.
    /// Bytes that are gone are subtracted from the parts that a process gives back first.
    pub fn at(mut self, resident: u64) -> Parts {
        let mut gone = self.sum().saturating_sub(resident);
        self.add(Part::Unknown, resident.saturating_sub(self.sum()));
        for part in LEAVING {
            let bytes = gone.min(self.of(part));
            self.0[part as usize] -= bytes;
            gone -= bytes;
        }
        self
    }
}

impl AddAssign for Parts {
    fn add_assign(&mut self, other: Parts) {
        other.iter().for_each(|(part, bytes)| self.add(part, bytes));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(of: &[(Part, u64)]) -> Parts {
        let mut parts = Parts::default();
        of.iter().for_each(|(part, bytes)| parts.add(*part, *bytes));
        parts
    }

    #[test]
    fn an_earlier_reading_adds_up_to_what_is_resident_now() {
        let read = parts(&[(Part::Live, 50), (Part::Kept, 30), (Part::Files, 20)]);
        assert_eq!(read.at(100), read);
        let grown = read.at(140);
        assert_eq!((grown.of(Part::Unknown), grown.of(Part::Live), grown.sum()), (40, 50, 140));
        let shrunk = read.at(60);
        assert_eq!((shrunk.of(Part::Kept), shrunk.of(Part::Files), shrunk.of(Part::Live)), (0, 10, 50));
        for resident in [0, 1, 49, 50, 51, 99, u64::MAX] {
            assert_eq!(read.at(resident).sum(), resident);
        }
    }

    #[test]
    fn every_part_leaves_at_last_and_has_its_own_key() {
        let keys: std::collections::BTreeSet<_> = PARTS.iter().map(|part| part.key()).collect();
        assert_eq!(keys.len(), PARTS.len());
        assert!(PARTS.iter().all(|part| LEAVING.contains(part)));
        assert!(PARTS.iter().enumerate().all(|(at, part)| *part as usize == at));
    }

    #[test]
    fn parts_are_json_by_their_keys() {
        let read = parts(&[(Part::Live, 5), (Part::Unknown, 7)]);
        let text = serde_json::to_string(&read).unwrap();
        assert!(text.contains("\"live\":5") && text.contains("\"unknown\":7"), "{text}");
        assert_eq!(serde_json::from_str::<Parts>(&text).unwrap(), read);
        assert!(serde_json::from_str::<Parts>("{\"gold\":1}").unwrap_err().to_string().contains("no part `gold`"));
    }
}
