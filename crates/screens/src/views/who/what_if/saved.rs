//! How much less memory the replays of one placement keep than those of another. In: heaps. Out: bytes with their interval, and whether the
//! difference is worth a change.

use allocanary_measure::summary::stats::{median, ratio};
use allocanary_measure::summary::{MISSES, difference_interval, ratio_interval};
use allocanary_who::what_if::ReplayHeap;

/// A change below this share of the heap does not count.
pub(super) const MARGIN: f64 = 0.02;

/// What is saved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Saved {
    /// The difference of the medians; negative if more is kept.
    pub bytes: f64,
    /// Its interval, by the ranks of the differences of all pairs. With fewer than five replays both bounds are the
    /// difference.
    pub low: f64,
    pub high: f64,
    /// The bounds of the ratio, new over old.
    pub ratios: (f64, f64),
    /// The median of the heap as it is, from which the ratios are computed.
    before: f64,
    is_sure: bool,
}

/// The effect of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Saves,
    Costs,
    /// Less than the margin in either direction.
    Nothing,
    /// The interval contains several of these effects.
    Unsure,
}

impl Effect {
    pub fn name(self) -> &'static str {
        match self {
            Effect::Saves => "saves",
            Effect::Costs => "costs",
            Effect::Nothing => "nothing",
            Effect::Unsure => "unsure",
        }
    }
}

impl Saved {
    /// Computes what is saved in one figure of the heaps. `None` if there is no heap.
    pub fn of(as_it_is: &[ReplayHeap], changed: &[ReplayHeap], figure: fn(&ReplayHeap) -> f64) -> Option<Saved> {
        let values = |heaps: &[ReplayHeap]| heaps.iter().map(figure).collect::<Vec<f64>>();
        let (old, new) = (values(as_it_is), values(changed));
        let (before, after) = (median(&old)?, median(&new)?);
        let interval = ratio_interval(&old, &new, MISSES).filter(|(_, high)| high.is_finite());
        let (middle, bytes) = (ratio(after, before), before - after);
        let ratios = interval.unwrap_or((middle, middle));
        let (low, high) = difference_interval(&old, &new, MISSES).unwrap_or((bytes, bytes));
        Some(Saved { bytes, low, high, ratios, before, is_sure: interval.is_some() })
    }

    /// Compares the change with the margin of a heap of `heap` bytes.
    pub fn effect(&self, heap: f64) -> Effect {
        let margin = MARGIN * heap;
        let saved = |ratio: f64| self.before * (1.0 - ratio);
        match (saved(self.ratios.1), saved(self.ratios.0)) {
            _ if !self.is_sure => Effect::Unsure,
            (low, _) if low > margin => Effect::Saves,
            (_, high) if high < -margin => Effect::Costs,
            (low, high) if low >= -margin && high <= margin => Effect::Nothing,
            _ => Effect::Unsure,
        }
    }

    /// The saving in words: `19.8 MiB less (19.7 to 20.0)`.
    pub fn words(&self, effect: Effect) -> String {
        let most = [self.bytes, self.low, self.high].into_iter().map(f64::abs).fold(0.0, f64::max);
        let (unit, size) = if most < MIB { ("KiB", 1024.0) } else { ("MiB", MIB) };
        let show = |bytes: f64| figure(bytes / size);
        let span = |low: f64, high: f64| span(&show(low), &show(high));
        // Replays of one thread give equal results, so there is no interval to show.
        let sure = |what: &str, bytes: f64, low: f64, high: f64| match (show(bytes), span(low, high)) {
            (figure, span) if figure == span => format!("{figure} {unit} {what}"),
            (figure, span) => format!("{figure} {unit} {what} ({span})"),
        };
        match effect {
            Effect::Saves => sure("less", self.bytes, self.low, self.high),
            Effect::Costs => sure("more", -self.bytes, -self.high, -self.low),
            Effect::Nothing => format!("about as much ({} {unit} less)", span(self.low, self.high)),
            Effect::Unsure => format!("{} {unit} less (not sure)", span(self.low, self.high)),
        }
    }
}

const MIB: f64 = 1_048_576.0;

/// A figure of a table: `19.8`, `1970`.
pub(super) fn figure(value: f64) -> String {
    let text = if value.abs() < 99.95 { format!("{value:.1}") } else { format!("{value:.0}") };
    if text == "-0.0" { "0.0".into() } else { text }
}

/// Two bounds, or one if both have the same text.
pub(super) fn span(low: &str, high: &str) -> String {
    if low == high { low.into() } else { format!("{low} to {high}") }
}

/// The median of each figure.
pub(super) fn medians(heaps: &[ReplayHeap]) -> Option<ReplayHeap> {
    let middle = |figure: fn(&ReplayHeap) -> f64| median(&heaps.iter().map(figure).collect::<Vec<f64>>());
    let bytes = |figure| middle(figure).map(|bytes| bytes.round() as u64);
    Some(ReplayHeap {
        holding: bytes(|heap| heap.holding as f64)?,
        resident: bytes(|heap| heap.resident as f64)?,
        pool: bytes(|heap| heap.pool as f64)?,
        blocks: bytes(|heap| heap.blocks as f64)?,
        cpu: middle(|heap| heap.cpu)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heaps(mib: [f64; 5]) -> Vec<ReplayHeap> {
        mib.map(|mib| ReplayHeap { resident: (mib * 1_048_576.0) as u64, ..ReplayHeap::default() }).to_vec()
    }

    #[test]
    fn what_is_saved_has_an_interval_and_is_compared_with_a_share_of_the_heap() {
        let old = heaps([100.0, 101.0, 100.0, 99.0, 100.0]);
        let of = |new: [f64; 5]| Saved::of(&old, &heaps(new), |heap| heap.resident as f64).unwrap();
        let effect = |saved: Saved| saved.effect(100.0 * 1_048_576.0);
        let less = of([80.0, 81.0, 80.5, 80.0, 79.0]);
        assert_eq!(less.words(Effect::Saves), "20.0 MiB less (19.0 to 21.0)");
        assert!(less.low < less.bytes && less.bytes < less.high && less.ratios.0 < 0.8, "{less:?}");
        assert_eq!(effect(less), Effect::Saves);
        let alike = Saved::of(&old[..1].repeat(5), &heaps([60.0; 5]), |heap| heap.resident as f64).unwrap();
        assert_eq!(alike.words(Effect::Saves), "40.0 MiB less");
        let more = of([110.0; 5]);
        assert_eq!(effect(more), Effect::Costs);
        assert_eq!(more.words(Effect::Costs), "10.0 MiB more (9.0 to 11.0)");
        assert_eq!(effect(of([100.0, 100.5, 100.0, 99.5, 100.0])), Effect::Nothing);
        let wide = of([80.0, 120.0, 100.0, 90.0, 130.0]);
        assert_eq!(effect(wide), Effect::Unsure);
        assert!(wide.words(Effect::Unsure).starts_with("-3"), "{}", wide.words(Effect::Unsure));
        let spread = Saved::of(&heaps([70.0, 50.0, 90.0, 80.0, 60.0]), &heaps([1.0; 5]), |heap| heap.resident as f64);
        assert_eq!(spread.unwrap().words(Effect::Saves), "69.0 MiB less (49.0 to 89.0)", "what single replays save");
        let few = Saved::of(&old[..4], &heaps([1.0; 5])[..4], |heap| heap.resident as f64).unwrap();
        assert_eq!(few.effect(1.0), Effect::Unsure, "four are too few");
        assert_eq!(Saved::of(&old, &[], |heap| heap.cpu), None);
    }
}
