//! Divides the resident bytes of a process into thirteen parts. Each byte is in exactly one part. In: bytes by part. Out: their sums, and
//! their names in each output.
//!
//! ```text
//! resident = live + overhead + outside + unknown
//! overhead = cached + fragmentation + free_pages + lazy_free + metadata + padding
//! outside  = runtime + own_mappings + stacks + files + shared
//! ```

use std::ops::AddAssign;

/// The part to which a resident byte belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// In a block that the program has allocated and not freed, at its usable size.
    Live,
    /// In a freed block that a thread's or a processor's cache keeps.
    Cached,
    /// Free, in a page that also has a live or cached block.
    Fragmentation,
    /// In a whole page without a block, which the allocator keeps.
    FreePages,
    /// Given back by `MADV_FREE`: the kernel takes the page when it needs memory.
    LazyFree,
    /// The allocator's own tables.
    Metadata,
    /// Never used: resident only because the kernel made a huge page around it.
    Padding,
    /// The heap and the code of a language runtime.
    Runtime,
    /// Anonymous memory that the program mapped itself, without an allocator.
    OwnMappings,
    /// Stacks of threads.
    Stacks,
    /// Pages of files, and the data of programs and libraries.
    Files,
    /// Shared memory.
    Shared,
    /// Not analysed, not read yet, or without an owner.
    Unknown,
}

/// Every part, in the order of reports.
pub const PARTS: [Part; 13] = [
    Part::Live,
    Part::Cached,
    Part::Fragmentation,
    Part::FreePages,
    Part::LazyFree,
    Part::Metadata,
    Part::Padding,
    Part::Runtime,
    Part::OwnMappings,
    Part::Stacks,
    Part::Files,
    Part::Shared,
    Part::Unknown,
];

/// The parts of an allocator's heap, in the order of reports.
pub const OF_HEAP: [Part; 8] = [
    Part::Live,
    Part::Cached,
    Part::Fragmentation,
    Part::FreePages,
    Part::LazyFree,
    Part::Metadata,
    Part::Padding,
    Part::Unknown,
];

/// The parts that an allocator needs in addition to live blocks.
pub const OVERHEAD: [Part; 6] =
    [Part::Cached, Part::Fragmentation, Part::FreePages, Part::LazyFree, Part::Metadata, Part::Padding];

/// The parts that belong to no allocator.
pub const OUTSIDE: [Part; 5] = [Part::Runtime, Part::OwnMappings, Part::Stacks, Part::Files, Part::Shared];

impl Part {
    /// Its name in text.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Live => "live",
            Part::Cached => "cached by threads",
            Part::Fragmentation => "fragmentation",
            Part::FreePages => "free pages",
            Part::LazyFree => "lazily freed",
            Part::Metadata => "metadata",
            Part::Padding => "huge-page padding",
            Part::Runtime => "language runtimes",
            Part::OwnMappings => "own mappings",
            Part::Stacks => "stacks",
            Part::Files => "files",
            Part::Shared => "shared memory",
            Part::Unknown => "not known",
        }
    }

    /// Its name at the head of a column.
    pub const fn head(self) -> &'static str {
        match self {
            Part::Fragmentation => "frag",
            Part::FreePages => "free pg",
            Part::LazyFree => "lazy",
            Part::Metadata => "meta",
            Part::OwnMappings => "own map",
            _ => self.key(),
        }
    }

    /// Its name in JSON, in rows, as a label and in a condition.
    pub const fn key(self) -> &'static str {
        match self {
            Part::Live => "live",
            Part::Cached => "cached",
            Part::Fragmentation => "fragmentation",
            Part::FreePages => "free_pages",
            Part::LazyFree => "lazy_free",
            Part::Metadata => "metadata",
            Part::Padding => "padding",
            Part::Runtime => "runtime",
            Part::OwnMappings => "own_mappings",
            Part::Stacks => "stacks",
            Part::Files => "files",
            Part::Shared => "shared",
            Part::Unknown => "unknown",
        }
    }

    /// The name of its column in rows and CSV.
    pub const fn column(self) -> &'static str {
        match self {
            Part::Live => "part_live_bytes",
            Part::Cached => "part_cached_bytes",
            Part::Fragmentation => "part_fragmentation_bytes",
            Part::FreePages => "part_free_pages_bytes",
            Part::LazyFree => "part_lazy_free_bytes",
            Part::Metadata => "part_metadata_bytes",
            Part::Padding => "part_padding_bytes",
            Part::Runtime => "part_runtime_bytes",
            Part::OwnMappings => "part_own_mappings_bytes",
            Part::Stacks => "part_stacks_bytes",
            Part::Files => "part_files_bytes",
            Part::Shared => "part_shared_bytes",
            Part::Unknown => "part_unknown_bytes",
        }
    }

    /// The part with this key.
    pub fn of(key: &str) -> Option<Part> {
        PARTS.into_iter().find(|part| part.key() == key)
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

    /// Adds bytes to a part. Numbers from another process may be arbitrarily large, so the sum stops at the largest number.
    pub fn add(&mut self, part: Part, bytes: u64) {
        let sum = &mut self.0[part as usize];
        *sum = sum.saturating_add(bytes);
    }

    /// Takes bytes from a part, at most as many as it has. Returns how many.
    pub fn take(&mut self, part: Part, bytes: u64) -> u64 {
        let bytes = bytes.min(self.of(part));
        self.0[part as usize] -= bytes;
        bytes
    }

    /// Moves bytes from one part to another, at most as many as the first one has.
    pub fn pass(&mut self, from: Part, to: Part, bytes: u64) {
        let bytes = self.take(from, bytes);
        self.add(to, bytes);
    }

    /// All resident bytes.
    pub fn sum(&self) -> u64 {
        self.of_all(&PARTS)
    }

    /// The bytes of some parts.
    pub fn of_all(&self, parts: &[Part]) -> u64 {
        parts.iter().fold(0, |sum: u64, part| sum.saturating_add(self.of(*part)))
    }

    /// The bytes that an allocator needs in addition to live blocks.
    pub fn overhead(&self) -> u64 {
        self.of_all(&OVERHEAD)
    }

    /// The bytes that belong to no allocator.
    pub fn outside(&self) -> u64 {
        self.of_all(&OUTSIDE)
    }

    /// Each part with its bytes, in the order of reports.
    pub fn iter(&self) -> impl Iterator<Item = (Part, u64)> + '_ {
        PARTS.iter().map(|&part| (part, self.of(part)))
    }
}

/// `whole * part / of`. If `of` is 0, it counts as 1.
pub fn in_proportion(whole: u64, part: u64, of: u64) -> u64 {
    (u128::from(whole) * u128::from(part) / u128::from(of.max(1))) as u64
}

impl AddAssign for Parts {
    fn add_assign(&mut self, other: Parts) {
        other.iter().for_each(|(part, bytes)| self.add(part, bytes));
    }
}

impl FromIterator<(Part, u64)> for Parts {
    fn from_iter<I: IntoIterator<Item = (Part, u64)>>(all: I) -> Parts {
        let mut parts = Parts::default();
        all.into_iter().for_each(|(part, bytes)| parts.add(part, bytes));
        parts
    }
}

/// Writes each part's bytes under its key. The parts of a heap are always written, and the others only if they have bytes.
#[cfg(feature = "serde")]
impl serde::Serialize for Parts {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let shown = self.iter().filter(|(part, bytes)| *bytes > 0 || OF_HEAP.contains(part));
        to.collect_map(shown.map(|(part, bytes)| (part.key(), bytes)))
    }
}

/// A missing part has 0 bytes.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Parts {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Parts, D::Error> {
        let all = std::collections::BTreeMap::<String, u64>::deserialize(from)?;
        let one = |(key, bytes): (String, u64)| {
            let none = || serde::de::Error::custom(format!("no part `{key}`"));
            Part::of(&key).ok_or_else(none).map(|part| (part, bytes))
        };
        all.into_iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_is_in_two_sums_and_each_is_in_one() {
        let mut all: Vec<Part> = [&[Part::Live, Part::Unknown][..], &OVERHEAD, &OUTSIDE].concat();
        all.sort();
        assert_eq!(all, PARTS);
        assert!(PARTS.iter().enumerate().all(|(at, part)| *part as usize == at));
        assert!(OF_HEAP.iter().all(|part| !OUTSIDE.contains(part)) && OF_HEAP.len() + OUTSIDE.len() == PARTS.len());
        let parts: Parts = PARTS.into_iter().zip(1..).collect();
        assert_eq!(parts.of(Part::Live) + parts.overhead() + parts.outside() + parts.of(Part::Unknown), parts.sum());
        assert_eq!((parts.sum(), parts.overhead(), parts.outside()), (91, 27, 50));
    }

    #[test]
    fn each_part_has_a_name_of_its_own_in_each_output() {
        let names: [fn(Part) -> &'static str; 4] = [Part::name, Part::head, Part::key, Part::column];
        for name in names {
            let mut all = PARTS.map(name).to_vec();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), PARTS.len(), "{all:?}");
        }
        assert!(PARTS.iter().all(|part| Part::of(part.key()) == Some(*part)));
        assert!(PARTS.iter().all(|part| part.column() == format!("part_{}_bytes", part.key())));
        // A sum is the name of no part.
        assert!(["resident", "overhead", "outside"].iter().all(|sum| Part::of(sum).is_none()));
    }

    #[test]
    fn no_more_is_taken_than_there_is_and_sums_end_at_the_largest_number() {
        let mut parts: Parts = [(Part::Live, 5), (Part::FreePages, u64::MAX)].into_iter().collect();
        parts.pass(Part::Live, Part::FreePages, 7);
        assert_eq!((parts.of(Part::Live), parts.of(Part::FreePages), parts.sum()), (0, u64::MAX, u64::MAX));
    }
}
