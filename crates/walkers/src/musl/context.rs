//! Finds musl's `malloc_context`, the global variable from which all groups are found, and verifies it.
//!
//! The context begins with a secret number, and each area of metas repeats this number. So it is recognised by its field `meta_area_head`:
//! this points to an area with the secret number that the context begins with. The areas are a list that ends at `meta_area_tail`.

use std::collections::BTreeSet;
use std::ops::Range;

use super::release::{ALL, AREA, MuslRelease};
use crate::Memory;
use crate::globals::{each_word, globals};

/// A context.
#[derive(Clone, Debug)]
pub struct Context {
    /// Its address.
    pub at: u64,
    /// The release whose layout fits.
    pub release: &'static MuslRelease,
    /// The addresses of its areas, in the order of the list.
    pub areas: Vec<u64>,
}

/// The counts of a context.
#[derive(Debug)]
pub struct ContextCounters {
    /// The number of metas that were ever used.
    pub used: u64,
    /// The address of the first meta in the ring of metas without a group; 0 if there is none.
    pub free: u64,
    /// The number of slots of each class.
    pub slots: Vec<u64>,
}

/// All contexts in the process. There is usually one.
pub fn find(memory: &dyn Memory) -> Vec<Context> {
    let mut found: Vec<Context> = Vec::new();
    for (range, release) in globals(memory).iter().flat_map(|range| ALL.iter().map(move |release| (range, release))) {
        each_word(memory, range, |slot, head| {
            let context = slot.checked_sub(release.context.head as u64).filter(|at| range.contains(at));
            let context = context.and_then(|at| proven(memory, at, head, range, release));
            found.extend(context.filter(|new| found.iter().all(|known| known.areas[0] != new.areas[0])));
        });
    }
    found
}

fn is_area(memory: &dyn Memory, at: u64) -> bool {
    let is_heap = |mapping: &crate::Mapping| mapping.is_heap_like() && mapping.readable;
    at != 0 && at.is_multiple_of(AREA) && memory.mapping(at).is_some_and(is_heap)
}

fn proven(
    memory: &dyn Memory,
    at: u64,
    head: u64,
    range: &Range<u64>,
    release: &'static MuslRelease,
) -> Option<Context> {
    let fields = &release.context;
    if !is_area(memory, head) || !range.contains(&at.checked_add(fields.bytes as u64)?.checked_sub(1)?) {
        return None;
    }
    let word = |place: usize| memory.word(at + place as u64);
    let secret = memory.word(at).filter(|secret| *secret != 0)?;
    let (mut areas, mut met, mut area) = (Vec::new(), BTreeSet::new(), head);
    while is_area(memory, area) && met.insert(area) && !memory.is_late() {
        let mut bytes = vec![0; release.area.slots];
        memory.read(area, &mut bytes).then_some(())?;
        let field = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let is_mine = field(0)? == secret && field(release.area.count)? & 0xffff_ffff == release.metas();
        is_mine.then(|| areas.push(area))?;
        area = field(release.area.next)?;
    }
    // `tail` need not be the last area of the list: a new area may just have been linked behind it.
    let (tail, next, left) = (word(fields.tail)?, word(fields.next)?, word(fields.left)?);
    let used = release.metas().checked_sub(left)?;
    let fits = areas.contains(&tail) && next == tail + release.area.slots as u64 + used * release.meta.bytes as u64;
    fits.then_some(Context { at, release, areas })
}

impl Context {
    /// Reads the counts. `None` if the context could not be read, or has a new area.
    pub fn counts(&self, memory: &dyn Memory) -> Option<ContextCounters> {
        let fields = &self.release.context;
        let mut bytes = vec![0; fields.bytes];
        memory.read(self.at, &mut bytes).then_some(())?;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        // `left` counts in the last area. If there is a new one, it does not fit the list.
        (self.areas.last() == Some(&word(fields.tail))).then_some(())?;
        Some(ContextCounters {
            used: (self.areas.len() as u64 * self.release.metas()).saturating_sub(word(fields.left)),
            free: word(fields.free),
            slots: (0..super::release::CLASSES.len()).map(|class| word(fields.usage + 8 * class)).collect(),
        })
    }
}
