//! A memory for tests: mappings, page states and bytes that a test invents.

use crate::pages::Run;
use crate::{Counted, Mapping, Memory, PAGE, Pages, State, Thread, parse_maps};

/// The memory.
#[derive(Default)]
pub struct Invented {
    pub mappings: Vec<Mapping>,
    pub threads: Vec<Thread>,
    pub pages: Pages,
    pub bytes: Vec<(u64, Vec<u8>)>,
}

impl Invented {
    /// Mappings from lines of `/proc/PID/maps`. All private memory that can be written is resident.
    pub fn of(maps: &str) -> Invented {
        let mappings = parse_maps(maps);
        let mut pages = Pages::default();
        for one in mappings.iter().filter(|one| one.writable && !one.shared) {
            pages.push(Run { from: one.from, to: one.to, state: State::Resident });
        }
        Invented { mappings, pages, ..Invented::default() }
    }

    /// Puts words at an address.
    pub fn put(&mut self, at: u64, words: &[u64]) {
        self.bytes.push((at, words.iter().flat_map(|word| word.to_le_bytes()).collect()));
    }

    /// What the kernel would count: everything is resident, and half of each mapping is its share.
    pub fn counted(&self) -> Vec<Counted> {
        let count = |mapping: &Mapping| Counted {
            resident: if mapping.readable { mapping.bytes() } else { 0 },
            share: if mapping.readable { mapping.bytes() / 2 } else { 0 },
            mapping: mapping.clone(),
            ..Counted::default()
        };
        self.mappings.iter().map(count).collect()
    }
}

impl Memory for Invented {
    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn pages(&self) -> &Pages {
        &self.pages
    }

    /// What nobody put there is zero.
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let last = at + into.len() as u64 - 1;
        if self.mapping(at).is_none() || self.mapping(last / PAGE * PAGE).is_none() {
            return false;
        }
        into.fill(0);
        for (from, bytes) in &self.bytes {
            for (offset, byte) in bytes.iter().enumerate() {
                if let Some(place) =
                    (from + offset as u64).checked_sub(at).and_then(|place| into.get_mut(place as usize))
                {
                    *place = *byte;
                }
            }
        }
        true
    }
}
