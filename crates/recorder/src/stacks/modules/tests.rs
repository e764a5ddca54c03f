//! Recording files when a window has no room at the moment, or never.

use std::alloc::{Layout, alloc_zeroed};

use super::*;
use crate::process::{RING, Ring};
use allocanary_trace::format::HEADER;

pub(in crate::stacks) fn empty() -> Box<Modules> {
    // SAFETY: all zeros is a valid state, and the box frees by the same layout.
    unsafe { Box::from_raw(alloc_zeroed(Layout::new::<Modules>()).cast()) }
}

/// The file that these tests are in.
fn object() -> MappedObject {
    assert!(allocanary_stacks::walk::look_up());
    // SAFETY: this program's own.
    unsafe { MappedObject::of(empty as *const () as u64) }.unwrap()
}

#[test]
fn a_file_that_has_no_room_for_the_moment_is_told_at_its_next_frame() {
    // Four places, of which tables may have two; threads write in all of them.
    let (ring, modules) = (Ring::new(HEADER + 4 * RING, 1 << 40), empty());
    let base = AtomicPtr::new(ring.file);
    let room = Room { process: &ring.process, base: &base };
    let object = object();
    let places: Vec<_> = std::iter::from_fn(|| ring.process.ring_chunk(1)).collect();
    assert_eq!(places.len(), 4);
    assert!(!modules.find_or_add(&room, &object, 0) && modules.known().is_empty());
    ring.process.close_chunk(places[0].1, 2);
    assert!(modules.find_or_add(&room, &object, 0) && modules.known().len() == 1);
}

#[test]
fn a_file_that_never_has_room_is_not_asked_for_again() {
    // There is one place, and tables may have none.
    let (ring, modules) = (Ring::new(HEADER + RING, 1 << 40), empty());
    let base = AtomicPtr::new(ring.file);
    let room = Room { process: &ring.process, base: &base };
    let object = object();
    assert!(modules.find_or_add(&room, &object, 0) && modules.known().is_empty());
    // The child of a fork has another file, or none.
    let base = AtomicPtr::new(std::ptr::null_mut());
    let room = Room { process: &ring.process, base: &base };
    room.count(at::NO_ROOM);
    assert!(modules.find_or_add(&room, &object, 0) && modules.known().is_empty());
    assert_eq!(ring.process.long(at::NO_ROOM).load(Relaxed), 0);
}
