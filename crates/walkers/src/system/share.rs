//! Whose a piece of memory is, if a process has several C libraries. In: what each of them has. Out: this one's, another one's, or unclear.

use super::marks::Marks;

/// Whose a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    This,
    Another,
    /// No free block in it tells.
    Unclear,
}

/// What of a process one C library has, and what others have.
#[derive(Debug, Default)]
pub(super) struct Share<'a> {
    /// What is taken already, in the order of its addresses.
    pub taken: Vec<(u64, u64)>,
    /// The blocks in the main arena's bins, and its end. `None` if there is no other C library.
    pub own: Option<&'a Marks>,
    /// The same of each other one.
    pub others: Vec<&'a Marks>,
    /// The ends of the others' main arenas.
    pub ends: Vec<u64>,
}

impl Share<'_> {
    /// Whose a piece is.
    pub fn owner(&self, from: u64, to: u64) -> Owner {
        match self.own {
            None => Owner::This,
            Some(own) if own.has_within(from, to) => Owner::This,
            Some(_) if self.others.iter().any(|other| other.has_within(from, to)) => Owner::Another,
            Some(_) => Owner::Unclear,
        }
    }
}
