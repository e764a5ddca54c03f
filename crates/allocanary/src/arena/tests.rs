//! Tests of the arena's contract: sizes, limits, alignment, and any order of pieces.

use proptest::collection::vec;
use proptest::prelude::any;

use super::*;
use allocanary_testing::fuzz::holds;

#[repr(align(16))]
#[derive(Clone, Copy)]
struct Node {
    value: u64,
    next: u64,
}

#[test]
fn an_aligned_node_of_16_bytes_costs_16() {
    let arena = Arena::new();
    let nodes: Vec<&mut Node> = (0..1000).map(|value| arena.alloc(Node { value, next: 0 }).unwrap()).collect();
    assert!(nodes.iter().all(|node| std::ptr::from_ref::<Node>(node).is_aligned()));
    assert!(nodes.iter().map(|node| node.value + node.next).eq(0..1000));
    let sizes = arena.sizes();
    assert_eq!(sizes.used, 16_000);
    assert!(sizes.reserved >= sizes.used + sizes.lost, "{sizes:?}");
}

#[test]
fn chunks_double_and_their_lost_ends_are_counted() {
    let arena = Arena::with_capacity(400).unwrap();
    let first = arena.sizes().reserved;
    arena.alloc_layout(Layout::from_size_align(first - 20, 1).unwrap()).unwrap();
    assert_eq!(arena.sizes(), Sizes { used: first - 20, lost: 0, reserved: first });
    arena.copy(&[7; 40]).unwrap();
    let sizes = arena.sizes();
    assert_eq!((sizes.used, sizes.lost), (first + 20, 20));
    assert!(sizes.reserved >= 3 * first, "{sizes:?}, first chunk {first}");
}

/// Bytes and aligned values are allocated in any order, up to a limit. Each keeps the bytes that were written to it,
/// and all are counted.
#[test]
fn fuzz_pieces_lie_apart_and_keep_what_they_hold() {
    let pieces = vec((0_usize..600, any::<bool>()), 1..if cfg!(miri) { 20 } else { 200 });
    holds(64, 3, (pieces, 0_usize..2000, 0_usize..100_000), |(pieces, first, limit)| {
        let arena = Arena::with_capacity(first).unwrap();
        let most = limit.max(arena.sizes().reserved);
        let arena = arena.limited(limit);
        let (mut texts, mut nodes, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (at, (size, is_text)) in pieces.into_iter().enumerate() {
            let given = if is_text {
                arena.copy(&vec![at as u8; size]).map(|text| texts.push((at, size, text)))
            } else {
                arena.alloc(Node { value: at as u64, next: !0 }).map(|node| nodes.push((at, node)))
            };
            match given {
                Ok(()) => bytes += if is_text { size } else { size_of::<Node>() },
                Err(refused) => assert!(matches!(refused, ArenaError::Limit { .. }), "{refused}"),
            }
        }
        assert!(texts.iter().all(|(at, size, text)| text.len() == *size && text.iter().all(|byte| *byte == *at as u8)));
        assert!(nodes.iter().all(|(at, node)| (node.value, node.next) == (*at as u64, !0)));
        let sizes = arena.sizes();
        assert!(
            sizes.used >= bytes && sizes.used + sizes.lost <= sizes.reserved && sizes.reserved <= most,
            "{sizes:?}"
        );
    });
}

#[test]
fn more_than_it_may_hold_is_an_error_that_names_wanted_held_and_limit() {
    let arena = Arena::with_capacity(4096).unwrap().limited(64 << 10);
    let held = arena.sizes().reserved;
    let kept = arena.copy(b"kept").unwrap();
    let refused = arena.alloc_layout(Layout::array::<u8>(1 << 20).unwrap()).unwrap_err();
    assert_eq!(refused, ArenaError::Limit { wanted: 1 << 20, held, limit: 64 << 10 });
    let said = refused.to_string();
    assert!(said.contains("1048576") && said.contains("65536") && said.contains(&held.to_string()), "{said}");
    // The existing pieces are unchanged, and a request that fits still succeeds.
    assert_eq!(kept, b"kept");
    let mut pieces = 0;
    while arena.copy(&[1; 1000]).is_ok() {
        pieces += 1;
    }
    assert!(pieces >= 32 && arena.sizes().reserved <= 64 << 10, "{pieces}, {:?}", arena.sizes());
}

#[test]
fn a_limit_below_what_it_holds_stops_it_there() {
    let mut arena = Arena::with_capacity(4096).unwrap().limited(1000);
    let held = arena.sizes().reserved;
    while arena.copy(&[1; 1000]).is_ok() {
        assert_eq!(arena.sizes().reserved, held);
    }
    assert_eq!(arena.copy(&[1; 1000]), Err(ArenaError::Limit { wanted: 1000, held, limit: 1000 }));
    arena.reset();
    assert!(arena.copy(&vec![1; held + 1]).is_err());
    arena.trim_to(0);
    assert!(arena.copy(&[1; 1001]).is_err());
    assert!(arena.copy(&[1; 100]).is_ok());
    // A reset keeps one of several chunks and frees the others.
    let arena = Arena::new();
    (0..100).for_each(|_| assert_eq!(arena.copy(&[1; 1000]).unwrap().len(), 1000));
    let mut arena = arena.limited(1000);
    arena.reset();
    let held = arena.sizes().reserved;
    while arena.copy(&[1; 1000]).is_ok() {}
    assert_eq!(arena.sizes().reserved, held);
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends where an allocation fails")]
fn sizes_that_no_memory_has_are_errors() {
    for bytes in [isize::MAX as usize - 15, MOST + 1, MOST] {
        let arena = Arena::new();
        let refused = arena.alloc_layout(Layout::from_size_align(bytes, 16).unwrap());
        assert_eq!(refused, Err(ArenaError::Memory { wanted: bytes, held: 0 }));
        assert_eq!(Arena::with_capacity(bytes).unwrap_err(), ArenaError::Memory { wanted: bytes, held: 0 });
    }
    for (bytes, align) in [(16, 1 << 62), (1 << 62, 1 << 62)] {
        let refused = Arena::new().alloc_layout(Layout::from_size_align(bytes, align).unwrap());
        assert_eq!(refused, Err(ArenaError::Memory { wanted: bytes, held: 0 }));
    }
}

#[test]
fn no_hang_where_a_large_first_chunk_was_trimmed_away() {
    let mut arena = Arena::with_capacity(1 << 20).unwrap();
    arena.copy(&[1; 100]).unwrap();
    arena.trim_to(400 << 10);
    assert_eq!(arena.sizes(), Sizes::default());
    assert_eq!(arena.copy(&[2; 100]).unwrap(), [2; 100]);
    arena.trim_to(0);
    assert_eq!(arena.copy(&[3; 100]).unwrap(), [3; 100]);
}

#[test]
fn a_reset_keeps_the_largest_chunk_and_trimming_what_fits() {
    let mut arena = Arena::new().limited(1 << 20);
    (0..100).for_each(|_| assert_eq!(arena.copy(&[1; 1000]).unwrap().len(), 1000));
    arena.reset();
    let kept = arena.sizes();
    assert!(kept.used == 0 && kept.lost == 0 && kept.reserved > 32 << 10, "{kept:?}");
    arena.trim_to(kept.reserved);
    assert_eq!(arena.sizes(), kept);
    assert!(arena.copy(&vec![1; 2 << 20]).is_err(), "the limit outlives a reset");
    arena.trim_to(0);
    assert!(arena.copy(&vec![1; 2 << 20]).is_err(), "and a trim");
}

#[test]
fn a_second_release_is_harmless_and_a_released_arena_refuses() {
    let mut arena = Arena::with_capacity(1 << 16).unwrap();
    arena.release();
    arena.release();
    assert_eq!(arena.sizes(), Sizes::default());
    let refuses = |arena: &Arena| {
        assert_eq!(arena.alloc(1_u64).unwrap_err(), ArenaError::Released);
        // Pieces of no bytes need no chunk.
        assert_eq!(arena.alloc(()).unwrap_err(), ArenaError::Released);
        assert_eq!(arena.copy(b"").unwrap_err(), ArenaError::Released);
        assert_eq!(arena.alloc_layout(Layout::new::<[u64; 0]>()).unwrap_err(), ArenaError::Released);
    };
    refuses(&arena);
    arena.reset();
    arena.trim_to(0);
    refuses(&arena);
    let arena = arena.limited(1 << 20);
    refuses(&arena);
    let arena = arena.share();
    assert_eq!(arena.copy(b"").unwrap_err(), ArenaError::Released);
    assert!(Arena::from_id(arena.id()).is_none());
}

#[test]
fn pieces_of_no_bytes_are_given() {
    let arena = Arena::new();
    assert_eq!(arena.alloc(()), Ok(&mut ()));
    assert_eq!(arena.copy(b"").unwrap(), b"");
    assert_eq!(arena.sizes().used, 0);
}
