//! What this crate knows about each allocator, in one folder for each: how to find it in a file or a process, which programs read its
//! variables, its defaults, and what to advise. Each folder has a [`Part`], and the rest of the crate loops over these. A folder uses no
//! code that loops over all of them.

pub mod jemalloc;
mod mimalloc;
mod musl;
mod snmalloc;
mod system;
mod tcmalloc;

use crate::contract::Part;

/// The parts of all allocators, in the order in which a page shows them.
pub(crate) const ALL: &[&Part] =
    &[&jemalloc::PART, &system::PART, &mimalloc::PART, &tcmalloc::PART, &snmalloc::PART, &musl::PART];

/// The knowledge about the allocator of this name.
pub(crate) fn part(name: &str) -> Option<&'static Part> {
    ALL.iter().copied().find(|part| part.of.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_facts::ours;

    #[test]
    fn each_of_ours_is_known_by_its_preload_and_has_defaults_and_advice() {
        for (one, _) in ours() {
            let part =
                part(one.name).unwrap_or_else(|| panic!("{}: wanted a folder here, and a line of ALL", one.name));
            assert!(part.marks.preload.is_some() && part.defaults.is_some() && part.advice.is_some(), "{}", one.name);
            assert_eq!(part.usual.allocator().map(|of| of.name), Some(one.name));
        }
    }

    #[test]
    fn heaps_are_named_as_their_allocators() {
        let names: Vec<&str> = allocanary_facts::ALL.iter().map(|one| one.heap).collect();
        let walked = allocanary_walkers::ALL.iter().map(|walker| walker.name);
        for name in walked.chain(allocanary_walkers::KNOWN.iter().map(|known| known.name)) {
            assert!(names.contains(&name), "a heap is called {name}; wanted one of {names:?}");
        }
    }

    #[test]
    fn a_symbol_belongs_to_one_allocator() {
        let mut symbols: Vec<&str> = ALL.iter().flat_map(|part| part.marks.symbols).map(|(name, _)| *name).collect();
        let count = symbols.len();
        symbols.sort();
        symbols.dedup();
        assert_eq!(symbols.len(), count);
    }
}
