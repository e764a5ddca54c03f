//! Nodes of several threads at one time, in the places of a window.

use std::alloc::{Layout, alloc_zeroed};
use std::sync::Barrier;

use super::*;
use crate::process::Ring;
use allocanary_trace::format::HEADER;

fn empty() -> Box<Nodes> {
    // SAFETY: all zeros is a valid state, and the box frees by the same layout.
    unsafe { Box::from_raw(alloc_zeroed(Layout::new::<Nodes>()).cast()) }
}

/// The nodes that a reader finds in the file: address and parent of each.
fn written(ring: &Ring) -> Vec<(u64, StackId)> {
    // SAFETY: the file is mapped, and no thread writes any more.
    let file = unsafe { std::slice::from_raw_parts(ring.file, ring.used()) };
    let mut found = vec![(0, 0); MOST_NODES];
    for offset in (HEADER..file.len()).step_by(CHUNK) {
        let Some(table) = TableHeader::read(&file[offset..], offset as u64) else { continue };
        assert_eq!((table.magic, table.length as usize), (NODE_MAGIC, CHUNK));
        for (at, node) in file[offset + CHUNK_HEADER..offset + CHUNK].as_chunks::<NODE>().0.iter().enumerate() {
            let pc = u64::from_le_bytes(node[..8].try_into().unwrap());
            if pc != 0 {
                found[table.first as usize + at] = (pc, u32::from_le_bytes(node[8..12].try_into().unwrap()));
            }
        }
    }
    found
}

#[test]
fn threads_that_need_a_place_at_one_time_share_it_until_there_is_none() {
    const THREADS: u64 = 6;
    // 20 places, of which the nodes may have 10: 20,440 nodes.
    let (ring, nodes) = (Ring::new(HEADER + 20 * RING, 1 << 40), empty());
    let base = AtomicPtr::new(ring.file);
    let room = || Room { process: &ring.process, base: &base };
    let modules = super::super::modules::tests::empty();
    let barrier = Barrier::new(THREADS as usize);
    // Every second node is common to all threads; the others belong to one thread.
    let pc_of = |thread: u64, at: u64| 0x1000 + at * 16 + if at.is_multiple_of(2) { 0 } else { (thread + 1) << 40 };
    let given: Vec<Vec<Option<StackId>>> = std::thread::scope(|scope| {
        let work = |thread| {
            barrier.wait();
            let room = room();
            (0..9000).map(|at| nodes.find_or_add(&room, 0, pc_of(thread, at), &modules)).collect()
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let found = written(&ring);
    for (thread, given) in given.iter().enumerate() {
        for (at, node) in given.iter().enumerate() {
            let pc = pc_of(thread as u64, at as u64);
            let again = nodes.find_or_add(&room(), 0, pc, &modules);
            // Near the end of the share a thread may find no room although there is some. Another thread may have just
            // added the same node; or it may have taken the last place, and is about to give it back or has not
            // published it yet.
            assert!(again == *node || node.is_none(), "thread {thread}, node {at}: {node:?}, then {again:?}");
            if let Some(node) = node {
                assert_eq!(found[*node as usize], (pc, 0), "thread {thread}, node {at}");
            }
        }
    }
    let kept: std::collections::BTreeSet<StackId> = given.into_iter().flatten().flatten().collect();
    // A number is lost only when threads add the same node at the same time: at most five of twelve.
    assert!(kept.len() > 10_000 && kept.len() <= 20_440, "{}", kept.len());
    assert_eq!(ring.process.table_place(1), None, "the share is used up");
    // A place that was taken for tables and not needed is used for events.
    let rest = std::iter::from_fn(|| ring.process.ring_chunk(1 << 50)).count();
    assert_eq!(rest, 10);
}
