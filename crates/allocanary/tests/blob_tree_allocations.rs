//! The exact allocations of building a blob's tree. This is a separate binary, because its global allocator counts.

use std::convert::Infallible;

use allocanary::Counting;
use allocanary::blob_tree::{BlobTree, Hash, Requested};
use allocanary::counting::{Counts, count};

allocanary::install!(system, wrap = Counting);

const SIZES: [usize; 12] =
    [0, 1, 1000, 4000, 4001, 10_000, 100_000, 799_999, 800_000, 1_000_000, 1_600_000, 10_000_000];

fn build(tree: &mut BlobTree, data: &[u8]) -> Hash {
    let Ok(root) = tree.build(data, data.len() as u64, |_, _| Ok::<(), Infallible>(())) else {
        panic!("a slice does not fail");
    };
    root
}

fn data(size: usize) -> Vec<u8> {
    (0..size).map(|at| at as u8).collect()
}

#[test]
fn a_warm_builder_asks_for_nothing() {
    let mut kept = BlobTree::new();
    build(&mut kept, &data(10_000_000));
    for size in SIZES {
        let data = data(size);
        // A builder that has built a value of this size, and one that has built a larger one.
        let mut tree = BlobTree::new();
        let (first, cold) = count(|| build(&mut tree, &data));
        assert_eq!(cold.allocations > 0, size > 0, "the allocator counts: {cold:?}");
        for _ in 0..3 {
            for tree in [&mut tree, &mut kept] {
                let (root, warm) = count(|| build(tree, &data));
                assert_eq!((root, warm), (first, Counts::default()), "{size} bytes");
            }
        }
        let held = Requested { allocations: cold.allocations, bytes: cold.bytes };
        assert_eq!((tree.asked(), tree.held_bytes()), (held, cold.live as u64), "{size} bytes");
    }
}

#[test]
fn a_builder_goes_on_without_allocating_after_an_error() {
    let (mut tree, data) = (BlobTree::new(), data(1_000_000));
    let root = build(&mut tree, &data);
    let failed = tree.build(&data[..900_000], 1_000_000, |_, _| Ok::<(), Infallible>(()));
    assert!(failed.is_err());
    assert_eq!(count(|| build(&mut tree, &data)), (root, Counts::default()));
}

/// Size, then allocations and bytes per blob: of a builder made for each, and of one that is kept and has a buffer made
/// for each node. A node's buffer is its values, 10 bytes for each of them and 200; a level's arrays are 4000 and 1600.
const PUBLISHED_WAYS: [(usize, [u64; 2], [u64; 2]); 5] = [
    (1000, [1, 1210], [1, 1210]),
    (10_000, [6, 16_520], [4, 10_920]),
    (100_000, [28, 111_800], [26, 106_200]),
    (1_000_000, [257, 1_071_860], [253, 1_060_660]),
    (10_000_000, [2518, 10_614_390], [2514, 10_603_190]),
];

#[test]
fn the_published_ways_ask_for_what_we_say() {
    for (size, naive, reuse) in PUBLISHED_WAYS {
        let data = data(size);
        let wanted = build(&mut BlobTree::new(), &data);
        let mut kept = BlobTree::with_buffer_per_node();
        build(&mut kept, &data);
        for _ in 0..3 {
            let before = kept.asked();
            let (root, counts) = count(|| build(&mut kept, &data));
            assert_eq!((root, [counts.allocations, counts.bytes]), (wanted, reuse), "reuse, {size} bytes");
            let asked = [kept.asked().allocations - before.allocations, kept.asked().bytes - before.bytes];
            assert_eq!(asked, reuse, "its own count, {size} bytes");

            let ((root, asked), counts) = count(|| {
                let mut tree = BlobTree::with_buffer_per_node();
                (build(&mut tree, &data), tree.asked())
            });
            assert_eq!((root, [counts.allocations, counts.bytes]), (wanted, naive), "naive, {size} bytes");
            assert_eq!(([asked.allocations, asked.bytes], counts.live), (naive, 0), "naive, {size} bytes");
            assert_eq!(counts.reallocations, 0);
        }
    }
}
