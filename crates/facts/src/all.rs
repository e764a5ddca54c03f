//! The list of all allocators, and lists of some of them in the same order.

use crate::descriptor::{Descriptor, Ours, Suggested};
use crate::{hoard, jemalloc, mesh, mimalloc, musl, rpmalloc, snmalloc, system, tcmalloc};

/// Every allocator that this crate describes. All lists of allocators have this order.
pub const ALL: &[&Descriptor] = &[
    &system::DESCRIPTOR,
    &jemalloc::DESCRIPTOR,
    &mimalloc::DESCRIPTOR,
    &tcmalloc::DESCRIPTOR,
    &snmalloc::DESCRIPTOR,
    &mesh::DESCRIPTOR,
    &rpmalloc::DESCRIPTOR,
    &hoard::DESCRIPTOR,
    &musl::DESCRIPTOR,
];

/// The allocators that have an `install!`, a cell and a preload.
pub fn ours() -> impl Iterator<Item = (&'static Descriptor, &'static Ours)> {
    ALL.iter().filter_map(|one| Some((*one, one.ours?)))
}

/// The description of the allocator of this name, if it is one of [`ours`].
pub fn our(name: &str) -> Option<(&'static Descriptor, &'static Ours)> {
    ours().find(|(one, _)| one.name == name)
}

/// The candidates that are compared if the user names none.
pub fn suggested() -> impl Iterator<Item = &'static Suggested> {
    ours().flat_map(|(_, ours)| ours.candidates)
}

/// The names of [`ours`] for a sentence: `system, jemalloc or mimalloc`.
pub fn our_names() -> String {
    let names: Vec<&str> = ours().map(|(one, _)| one.name).collect();
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_once_and_candidates_are_of_their_allocator() {
        let mut names: Vec<&str> = ALL.iter().map(|one| one.name).collect();
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for (one, ours) in ours() {
            let name = |candidate: &str| candidate.split(':').next() == Some(one.name);
            assert!(!ours.candidates.is_empty() && ours.candidates.iter().all(|suggested| name(suggested.candidate)));
        }
        assert!(our_names().starts_with("system, ") && our_names().contains(" or "), "{}", our_names());
    }
}
