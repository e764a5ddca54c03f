//! Block sizes of a service: many small blocks, and most bytes in few large ones. In: a range. Out: sizes, their mean.

use allocanary_sys::rng::Rng;

/// A random size. Size classes double from `least` to `least << (doublings - 1)`, and all are equally likely: many
/// small blocks, and most bytes in the few large ones, as in a service.
#[inline]
pub fn mixed_size(rng: &mut Rng, least: usize, doublings: usize) -> usize {
    let floor = least << rng.below(doublings);
    // The size is not only a power of two: sizes between two classes show the cost of rounding up.
    floor + rng.below(floor)
}

/// The mean of the sizes that [`mixed_size`] draws.
pub const fn mean_size(least: usize, doublings: usize) -> usize {
    // The mean of the floors times 1.5, because a size is on average half a floor above its floor.
    ((least << doublings) - least) / doublings * 3 / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_span_the_range() {
        let mut rng = Rng::new(1);
        let sizes: Vec<usize> = (0..10_000).map(|_| mixed_size(&mut rng, 16, 11)).collect();
        assert!(sizes.iter().all(|size| (16..32 << 10).contains(size)));
        assert!(sizes.iter().any(|size| *size < 20) && sizes.iter().any(|size| *size > 30_000));
        let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
        // The standard deviation of one size is 1.6 times the mean; that of the mean of 10,000 sizes is a hundredth of
        // it.
        assert!((mean / mean_size(16, 11) as f64 - 1.0).abs() < 0.08, "{mean}");
    }
}
