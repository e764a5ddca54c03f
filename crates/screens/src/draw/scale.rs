//! Scales: the position of a value on an axis, and the labelled values. In: values. Out: shares of the axis's length.

use allocanary_text::units::Unit;

/// An axis of values.
pub struct AxisScale {
    unit: Unit,
    is_log: bool,
    low: f64,
    high: f64,
    /// The labelled values of the axis.
    pub ticks: Vec<f64>,
}

/// The highest ratio of the largest to the middle candidate on a linear axis. At a higher ratio, half of the candidates would be in the
/// lowest eighth of the axis.
const MOST_LINEAR: f64 = 8.0;
/// The minimum span of an axis that does not begin at 0, as a share of the largest value.
const LEAST_SPAN: f64 = 0.05;

impl AxisScale {
    /// A linear scale from 0 to a round value.
    pub fn linear(unit: Unit, values: impl Iterator<Item = f64>) -> AxisScale {
        let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let step = even_step(unit, most);
        // Without the 1e-9, a rounding error near the greatest value could change the number of steps.
        let steps = (most / step - 1e-9).ceil().max(1.0);
        let ticks = (0..=steps as u32).map(|at| f64::from(at) * step).collect();
        AxisScale { unit, is_log: false, low: 0.0, high: steps * step, ticks }
    }

    /// A scale for points, which need not begin at 0. If the values are close together, it begins near the smallest value. It spans at
    /// least a twentieth of the largest value: on a shorter axis all ticks would have the same label, and noise would look like an effect.
    pub fn close(unit: Unit, values: &[f64]) -> AxisScale {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let (least, most) = (finite().fold(f64::INFINITY, f64::min), finite().fold(0.0, f64::max));
        if !least.is_finite() || least < most / 2.0 || least >= most {
            return AxisScale::fitting(unit, &values.iter().map(|value| vec![*value]).collect::<Vec<_>>(), &[]);
        }
        let room = ((most - least) * 0.1).max((most * LEAST_SPAN - (most - least)) / 2.0);
        let (low, high) = (least - room, most + room);
        AxisScale { unit, is_log: false, low, high, ticks: even_ticks(unit, low, high) }
    }

    /// A logarithmic scale. Values without a logarithm are left out.
    pub fn log(unit: Unit, values: impl Iterator<Item = f64> + Clone) -> AxisScale {
        let values = values.filter(|value| value.is_finite() && *value > 0.0);
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(0.0, f64::max);
        if most == 0.0 {
            return AxisScale::linear(unit, std::iter::empty());
        }
        let (low, high) = (least / 1.25, most * 1.25);
        let powers = (1..=10).map(|step| powers_of_two(low, high, step));
        let decades = [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]].into_iter().map(|of| decade_ticks(low, high, of));
        let fits = |ticks: &Vec<f64>| ticks.len() <= 7;
        let ticks = if unit == Unit::Bytes { powers.into_iter().find(fits) } else { decades.into_iter().find(fits) };
        let ticks = ticks.filter(|ticks| ticks.len() >= 2).unwrap_or_else(|| even_ticks(unit, low, high));
        AxisScale { unit, is_log: true, low, high, ticks }
    }

    /// A logarithmic scale if one candidate is much larger than the others, otherwise a linear scale. `candidates` are the values of each
    /// candidate. `others` are further values that must be in the picture.
    pub fn fitting(unit: Unit, candidates: &[Vec<f64>], others: &[f64]) -> AxisScale {
        let most = |values: &Vec<f64>| values.iter().copied().filter(|value| value.is_finite()).reduce(f64::max);
        let mut most: Vec<f64> = candidates.iter().filter_map(most).filter(|most| *most > 0.0).collect();
        most.sort_by(f64::total_cmp);
        let middle = most.get(most.len().saturating_sub(1) / 2).copied().unwrap_or_default();
        let dwarfs = most.last().is_some_and(|last| *last > MOST_LINEAR * middle);
        let values = candidates.iter().flatten().chain(others).copied();
        if dwarfs { AxisScale::log(unit, values) } else { AxisScale::linear(unit, values) }
    }

    /// The position of the value: 0 at the axis's start, 1 at its end.
    pub fn share(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share.clamp(0.0, 1.0)
    }

    /// The label of a value: `100 MiB`, not `100.0 MiB`.
    pub fn label(&self, value: f64) -> String {
        let text = self.unit.show(value);
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
        if value == 0.0 { "0".into() } else { format!("{number}{unit}") }
    }

    /// The remark about the axis in a caption.
    pub fn note(&self) -> &'static str {
        if self.is_log { " The axis is logarithmic: equal steps are equal factors." } else { "" }
    }
}

/// The positions of columns on their axis, as shares. They follow the values or their logarithms, whichever gives the larger distance
/// between the nearest two.
pub fn column_shares(columns: &[u32]) -> Vec<f64> {
    let spread = |of: &dyn Fn(u32) -> f64| -> Vec<f64> {
        let (Some(first), Some(last)) = (columns.first(), columns.last()) else { return Vec::new() };
        let length = of(*last) - of(*first);
        let share = |value: &u32| if length > 0.0 { (of(*value) - of(*first)) / length } else { 0.5 };
        columns.iter().map(share).collect()
    };
    let nearest = |shares: &[f64]| shares.windows(2).map(|pair| pair[1] - pair[0]).fold(1.0, f64::min);
    let linear = spread(&|value| f64::from(value));
    let log = spread(&|value| f64::from(value.max(1)).ln());
    if nearest(&log) > nearest(&linear) { log } else { linear }
}

/// Round values at equal distances.
fn even_ticks(unit: Unit, low: f64, high: f64) -> Vec<f64> {
    let step = even_step(unit, high - low);
    let first = (low / step).ceil();
    (0..12).map(|at| (first + f64::from(at)) * step).filter(|tick| *tick <= high).collect()
}

/// A round distance, in multiples of the unit, that divides the length into three to six pieces.
fn even_step(unit: Unit, length: f64) -> f64 {
    let thousand: f64 = if unit == Unit::Bytes { 1024.0 } else { 1000.0 };
    let multiple = thousand.powf((length.ln() / thousand.ln()).floor().max(0.0));
    let rough = length / multiple / 6.0;
    let decade = 10_f64.powf(rough.log10().floor());
    let round = [1.0, 2.0, 5.0].into_iter().find(|step| step * decade >= rough).unwrap_or(10.0);
    round * decade * multiple
}

fn powers_of_two(low: f64, high: f64, step: usize) -> Vec<f64> {
    (0..60).step_by(step).map(|power| 2_f64.powi(power)).filter(|tick| (low..=high).contains(tick)).collect()
}

fn decade_ticks(low: f64, high: f64, of: &[f64]) -> Vec<f64> {
    let ticks = (-9..=15).flat_map(|power| of.iter().map(move |digit| digit * 10_f64.powi(power)));
    ticks.filter(|tick| (low..=high).contains(tick)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1048576.0;

    #[test]
    fn ticks_are_round_in_the_units_own_multiples() {
        let scale = AxisScale::linear(Unit::Bytes, [79.0 * MIB].into_iter());
        let labels: Vec<String> = scale.ticks.iter().map(|tick| scale.label(*tick)).collect();
        assert_eq!(labels, ["0", "20 MiB", "40 MiB", "60 MiB", "80 MiB"]);
        let scale = AxisScale::log(Unit::Nanoseconds, [120.0, 80_000_000.0].into_iter());
        let labels: Vec<String> = scale.ticks.iter().map(|tick| scale.label(*tick)).collect();
        assert_eq!(labels, ["100 ns", "1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms"]);
    }

    #[test]
    fn one_giant_makes_the_axis_logarithmic() {
        assert!(AxisScale::fitting(Unit::Bytes, &[vec![10.0], vec![12.0], vec![100.0]], &[]).is_log);
        assert!(!AxisScale::fitting(Unit::Bytes, &[vec![10.0], vec![70.0]], &[]).is_log);
        assert!(!AxisScale::fitting(Unit::Bytes, &[vec![10.0, 900.0]], &[]).is_log, "a single candidate grows");
    }

    #[test]
    fn an_axis_stands_without_values() {
        for values in [Vec::<f64>::new(), vec![0.0], vec![f64::NAN], vec![-1.0], vec![f64::INFINITY]] {
            for scale in [
                AxisScale::linear(Unit::Bytes, values.clone().into_iter()),
                AxisScale::log(Unit::Count, values.clone().into_iter()),
                AxisScale::fitting(Unit::Ratio, &[values], &[]),
            ] {
                assert!((0.0..=1.0).contains(&scale.share(0.5)));
                assert!(scale.ticks.iter().all(|tick| tick.is_finite()));
            }
        }
    }

    #[test]
    fn values_that_are_close_are_told_apart() {
        let scale = AxisScale::close(Unit::Bytes, &[100.0 * MIB, 104.0 * MIB]);
        assert!(scale.share(100.0 * MIB) < 0.2 && scale.share(104.0 * MIB) > 0.8 && scale.ticks.len() > 2);
        let scale = AxisScale::close(Unit::Bytes, &[89.7 * MIB, 89.71 * MIB]);
        let labels: Vec<String> = scale.ticks.iter().map(|tick| scale.label(*tick)).collect();
        assert_eq!(labels, ["88 MiB", "89 MiB", "90 MiB", "91 MiB"], "no two ticks have the same label");
        let scale = AxisScale::close(Unit::Bytes, &[10.0 * MIB, 104.0 * MIB]);
        assert_eq!(scale.share(0.0), 0.0, "values far apart are seen from 0");
        for values in [vec![], vec![0.0, 0.0], vec![f64::NAN, 5.0], vec![-3.0, -2.0], vec![7.0, 7.0]] {
            let scale = AxisScale::close(Unit::Count, &values);
            assert!((0.0..=1.0).contains(&scale.share(5.0)), "{values:?}");
        }
    }

    #[test]
    fn columns_stand_as_evenly_as_they_can() {
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-3);
        assert!(near(&column_shares(&[1, 4, 16, 64]), &[0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0]));
        assert!(near(&column_shares(&[4, 12, 24, 32, 40]), &[0.0, 0.222, 0.556, 0.778, 1.0]));
        assert_eq!((column_shares(&[8]), column_shares(&[])), (vec![0.5], Vec::new()));
    }
}
