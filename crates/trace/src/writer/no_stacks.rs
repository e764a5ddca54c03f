//! A recorder without stacks, for builds that only read traces. See `stacks.rs`.

use super::process::Process;
use crate::stacks::StackId;

/// Nothing.
pub(super) struct Kept;

pub(super) fn look_up() {}

/// Nothing to look up.
pub fn look_up_in_program() {}

pub(super) fn are_possible() -> bool {
    false
}

pub(super) fn begin(_: &Process, _: *mut u8) -> bool {
    false
}

pub(super) fn own_bytes(_: &Process) -> u64 {
    0
}

pub(super) unsafe fn stack_of_here(_: *mut Kept, _: u64) -> (StackId, bool) {
    (0, true)
}

pub(super) unsafe fn begin_chunk(_: *mut Kept) {}

/// A library was closed: there is nothing to forget.
pub fn library_closed() {}
