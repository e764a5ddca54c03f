//! A recorder without stacks, for builds that only read traces. See `stacks.rs`.

use super::process::Process;
use crate::stacks::StackId;

/// Without stacks a thread has no state for them.
pub(super) struct Kept;

pub(super) fn look_up() {}

/// Does nothing: without stacks no function is looked up.
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

/// Does nothing: without stacks a closed library changes nothing.
pub fn library_closed() {}
