//! The rows of a reading: one for each part of each heap, and one for each area. They add up to its resident bytes.

use crate::{Part, Reading};

/// A row of a table of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRow {
    /// The heap's allocator; `None` for an area.
    pub allocator: Option<String>,
    /// The part.
    pub part: Part,
    /// Its name, such as `live` or `stacks`.
    pub name: String,
    /// Resident bytes.
    pub resident: u64,
    /// Its share of the resident bytes; `None` if it was not read.
    pub share: Option<u64>,
}

impl PartRow {
    /// The name with the allocator's, such as `glibc: live`.
    pub fn full_name(&self) -> String {
        self.allocator.as_ref().map_or_else(|| self.name.clone(), |allocator| format!("{allocator}: {}", self.name))
    }
}

/// The rows that have bytes: the parts of the heaps, then the areas.
pub fn rows(reading: &Reading) -> Vec<PartRow> {
    let of_heaps = reading.heaps.iter().flat_map(|heap| {
        heap.parts.iter().map(|(part, bytes)| PartRow {
            allocator: Some(heap.allocator.clone()),
            part,
            name: part.name().into(),
            resident: bytes,
            share: heap.share.map(|share| allocanary_text::parts::in_proportion(share, bytes, heap.resident)),
        })
    });
    let of_areas = reading.areas.iter().map(|area| {
        let part = reading.part_of(area);
        let name = if part == Part::OwnMappings { part.name().into() } else { area.name.clone() };
        PartRow { allocator: None, part, name, resident: area.resident, share: area.share }
    });
    of_heaps.chain(of_areas).filter(|row| row.resident > 0).collect()
}

/// Adds the rows of several processes by their shares. A page that several of these processes have is counted once. A
/// page that other processes have too is counted in part. The order is that of the first process that has the row.
pub fn together(readings: &[Reading]) -> Vec<PartRow> {
    let mut all: Vec<PartRow> = Vec::new();
    for row in readings.iter().flat_map(rows) {
        match all.iter_mut().find(|known| known.full_name() == row.full_name()) {
            Some(known) => {
                known.resident += row.resident;
                known.share = known.share.zip(row.share).map(|(one, more)| one + more);
            }
            None => all.push(row),
        }
    }
    all.sort_by_key(|row| (row.allocator.is_none(), row.allocator.clone(), row.part));
    all
}
