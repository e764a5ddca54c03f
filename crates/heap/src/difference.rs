//! Compares an earlier and a later reading: which rows changed, and whether the growth is live blocks or overhead.

use allocanary_text::parts::OVERHEAD;
use allocanary_text::units::Bytes;

use crate::rows::rows;
use crate::{Part, Reading};

/// A number of bytes before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountChange {
    /// The name of the row, the arena or the sum.
    pub name: String,
    /// Bytes in the earlier reading.
    pub before: u64,
    /// Bytes in the later one.
    pub after: u64,
}

impl CountChange {
    /// The growth in bytes, negative if it shrank.
    pub fn by(&self) -> i64 {
        self.after as i64 - self.before as i64
    }
}

/// The changes from one reading to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Resident memory.
    pub resident: CountChange,
    /// All rows of both readings. The row that grew most is first.
    pub rows: Vec<CountChange>,
    /// All arenas of both readings. The arena that grew most is first.
    pub arenas: Vec<CountChange>,
    /// The growth of live blocks, in bytes.
    pub live: i64,
    /// The growth of the memory that allocators have beyond live blocks, in bytes.
    pub overhead: i64,
    /// The growth of all other memory, in bytes.
    pub rest: i64,
    /// Whether both readings are of the same process, running the same program.
    pub is_same: bool,
}

impl Difference {
    /// Compares two readings.
    pub fn of(before: &Reading, after: &Reading) -> Difference {
        let named = |reading: &Reading| -> Vec<(String, u64)> {
            rows(reading).into_iter().map(|row| (row.full_name(), row.resident)).collect()
        };
        let arenas = |reading: &Reading| -> Vec<(String, u64)> {
            let heaps = reading.heaps.iter();
            let of =
                |allocator: &str, arena: &crate::ArenaParts| (format!("{allocator}: {}", arena.name), arena.resident);
            heaps.flat_map(|heap| heap.arenas.iter().map(|arena| of(&heap.allocator, arena))).collect()
        };
        let by = |parts: &[Part]| -> i64 {
            let sum = |reading: &Reading| parts.iter().map(|part| reading.of_heaps().of(*part) as i64).sum::<i64>();
            sum(after) - sum(before)
        };
        let live = by(&[Part::Live]);
        let overhead = by(&OVERHEAD);
        let resident = CountChange { name: "resident".into(), before: before.resident, after: after.resident };
        Difference {
            rest: resident.by() - live - overhead,
            rows: changes(named(before), named(after)),
            arenas: changes(arenas(before), arenas(after)),
            live,
            overhead,
            is_same: before.process.is_same(&after.process),
            resident,
        }
    }

    /// The growth in a sentence: whether it is live or overhead.
    pub fn answer(&self) -> String {
        let by = self.resident.by();
        let (before, after) = (Bytes(self.resident.before), Bytes(self.resident.after));
        let whole = format!("{} resident: {before} before, {after} after", signed(by));
        let parts = [(self.live, "live"), (self.overhead, "overhead of allocators"), (self.rest, "rest")];
        let parts: Vec<String> = parts.iter().map(|(bytes, name)| format!("{} {name}", signed(*bytes))).collect();
        let most = match [self.live, self.overhead, self.rest].into_iter().max().unwrap_or_default() {
            most if most <= 0 || by <= 0 => "nothing grew on the whole",
            most if most == self.live => "what grew is live: the program holds it",
            most if most == self.overhead => "what grew is overhead: the program has freed it",
            _ => "what grew is no malloc's, or not analysed",
        };
        format!("{whole}; {}: {most}", parts.join(", "))
    }
}

/// Bytes with a sign: `+1.50 MiB`.
pub fn signed(bytes: i64) -> String {
    let sign = if bytes < 0 { '-' } else { '+' };
    format!("{sign}{}", Bytes(bytes.unsigned_abs()))
}

fn changes(before: Vec<(String, u64)>, after: Vec<(String, u64)>) -> Vec<CountChange> {
    let mut all: Vec<CountChange> = Vec::new();
    for (name, bytes) in before {
        match all.iter_mut().find(|change| change.name == name) {
            Some(change) => change.before += bytes,
            None => all.push(CountChange { name, before: bytes, after: 0 }),
        }
    }
    for (name, bytes) in after {
        match all.iter_mut().find(|change| change.name == name) {
            Some(change) => change.after += bytes,
            None => all.push(CountChange { name, before: 0, after: bytes }),
        }
    }
    all.sort_by_key(|change| std::cmp::Reverse(change.by()));
    all
}
