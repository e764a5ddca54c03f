//! Decides which C library owns a piece of memory, if a process has several.

use super::marks::Marks;

/// The owner of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    This,
    Another,
    /// The piece has no free block that shows the owner.
    Unclear,
}

/// The memory of one C library, and of the others in the same process.
#[derive(Debug, Default)]
pub(super) struct Share<'a> {
    /// The ranges whose owner is already known, in the order of their addresses.
    pub taken: Vec<(u64, u64)>,
    /// The blocks in the main arena's bins, and the arena's end. `None` if there is no other C library.
    pub own: Option<&'a Marks>,
    /// The same for each other C library.
    pub others: Vec<&'a Marks>,
    /// The ends of the others' main arenas.
    pub ends: Vec<u64>,
}

impl Share<'_> {
    /// The owner of a piece.
    pub fn owner(&self, from: u64, to: u64) -> Owner {
        match self.own {
            None => Owner::This,
            Some(own) if own.has_within(from, to) => Owner::This,
            Some(_) if self.others.iter().any(|other| other.has_within(from, to)) => Owner::Another,
            Some(_) => Owner::Unclear,
        }
    }
}
