//! Sizes of blocks, and of their spans. In: a size. Out: a class, and the sizes of its blocks and spans.

/// The number of classes. Blocks of the last class have 4 GiB.
pub(super) const CLASSES: usize = 8 + 4 * (32 - 7);
/// The number of sizes of spans. The first is one page, and each is twice the one before.
pub(super) const ORDERS: usize = 32 - 12 + 1;

/// Blocks of at most this many bytes share a span with others.
const SMALL: usize = 8 << 10;

/// The class with the smallest blocks of at least this size.
pub(super) fn class_of(size: usize) -> Option<usize> {
    let class = match size.max(1) - 1 {
        below @ ..128 => below / 16,
        below => {
            let log2 = below.ilog2() as usize;
            8 + (log2 - 7) * 4 + (below >> (log2 - 2) & 3)
        }
    };
    (class < CLASSES).then_some(class)
}

/// The size of the blocks of a class, in bytes.
pub(super) fn size_of_class(class: usize) -> usize {
    match class {
        0..8 => 16 * (class + 1),
        _ => {
            let (log2, part) = (7 + (class - 8) / 4, (class - 8) % 4);
            (1 << log2) + ((part + 1) << (log2 - 2))
        }
    }
}

/// The size of the spans of a class, as a power of two of pages. A span has eight blocks or more, or one large block.
pub(super) fn order_of(class: usize) -> usize {
    let size = size_of_class(class);
    let bytes = if size <= SMALL { 8 * size } else { size };
    (bytes.next_power_of_two().ilog2() as usize).saturating_sub(12)
}

/// The number of blocks in a span of a class.
pub(super) fn blocks_in(class: usize) -> usize {
    (4096 << order_of(class)) / size_of_class(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_the_least_that_has_the_size() {
        let of = |size| class_of(size).map(size_of_class);
        assert_eq!(
            [0, 1, 16, 17, 128, 129, 161, 256, 257].map(of),
            [16, 16, 16, 32, 128, 160, 192, 256, 320].map(Some)
        );
        for class in 1..CLASSES {
            let (below, size) = (size_of_class(class - 1), size_of_class(class));
            assert!(below < size && size % 16 == 0, "{class}");
            assert_eq!((class_of(below + 1), class_of(size)), (Some(class), Some(class)));
        }
        assert_eq!((of(1 << 32), of((1 << 32) + 1)), (Some(1 << 32), None));
    }

    #[test]
    fn a_span_has_eight_small_blocks_or_a_large_one() {
        let in_all = |size: usize| {
            let class = class_of(size).unwrap();
            (4096 << order_of(class), blocks_in(class))
        };
        assert_eq!([16, 64, 448, 640, 8192].map(in_all), [(4096, 256), (4096, 64), (4096, 9), (8192, 12), (65536, 8)]);
        assert_eq!([8193, 16384, 1 << 31].map(in_all), [(16384, 1), (16384, 1), (1_usize << 31, 1)]);
        assert!((0..CLASSES).all(|class| order_of(class) < ORDERS && blocks_in(class) > 0));
    }
}
