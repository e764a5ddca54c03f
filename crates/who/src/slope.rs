//! Computes how fast live bytes grow: the slope of a line through live bytes at even times, with its 95 % interval.
//!
//! Most blocks that are live at one time are also live at the next. So neighbouring values are at similar distances from the line, and an
//! interval that assumes independence is too narrow: for blocks that leak one by one at random, it misses the true slope four times in
//! five. The line is fitted as by Perron and Yabu (2009). The share of a distance that carries over to the next time is estimated,
//! corrected for its bias in short series, and removed (Prais and Winsten). If the share is large, it is taken as 1. Then the slope is the
//! mean of the changes from time to time, and each change is one piece of evidence, however high it is.

/// From this share on, the share is taken as 1. With this limit the interval contains the true slope in at least 92 % of series,
/// whatever the share is: see the tests. A higher limit gives narrower intervals if distances are independent, and wrong ones if they
/// are not.
const WHOLE: f64 = 0.65;
/// A site that grows by a smaller share of all live bytes is not marked.
const WORTH: f64 = 0.01;

/// How fast live bytes grow, in bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slope {
    /// The best estimate.
    pub per_second: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Slope {
    /// The slope of live bytes at even times over `seconds`. `block` is the size of a block. The first and the last time may be just
    /// before or after a step, by chance, so the interval is never narrower than one block more or less.
    pub fn of(values: &[f64], seconds: f64, block: f64) -> Slope {
        let steps = values.len() as f64 - 1.0;
        let (middle, error) = line(values);
        let half = (error * quantile(steps - 1.0)).max(block / steps);
        Slope { per_second: middle, low: middle - half, high: middle + half }.times(steps / seconds)
    }

    /// The slope of all blocks, if one in `factor` was counted.
    pub fn times(self, factor: f64) -> Slope {
        Slope { per_second: self.per_second * factor, low: self.low * factor, high: self.high * factor }
    }
}

/// The slope of a site, and whether it is marked as growing. Three conditions: the interval is above zero; the growth is at least a
/// hundredth of `most`, the highest live bytes at one of these times; and the growth goes on. A site that only filled a table has grown
/// too, but in the last third of the time it grows by less than half of its former rate.
pub fn growth(values: &[f64], seconds: f64, block: f64, most: f64) -> (Slope, bool) {
    let slope = Slope::of(values, seconds, block);
    let last = &values[values.len() * 2 / 3 - 1..];
    let share = (last.len() as f64 - 1.0) / (values.len() as f64 - 1.0);
    let goes_on = Slope::of(last, seconds * share, block).high >= slope.low / 2.0;
    (slope, slope.low > 0.0 && goes_on && slope.per_second * seconds >= most * WORTH)
}

/// The slope from each value to the next, and its standard error.
fn line(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let carried = carried(values);
    if carried >= WHOLE {
        let changes: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = (values[values.len() - 1] - values[0]) / (count - 1.0);
        let squares: f64 = changes.iter().map(|change| (change - mean).powi(2)).sum();
        return (mean, (squares / (count - 2.0) / (count - 1.0)).sqrt());
    }
    // The parts of the constant, of time and of the values that are not carried over. The first of each has no
    // predecessor.
    let first = (1.0 - carried * carried).sqrt();
    let left = |at: usize| match at {
        0 => (first, 0.0, first * values[0]),
        _ => (1.0 - carried, at as f64 - carried * (at as f64 - 1.0), values[at] - carried * values[at - 1]),
    };
    let sum = |term: &dyn Fn((f64, f64, f64)) -> f64| (0..values.len()).map(|at| term(left(at))).sum::<f64>();
    let (cc, ct, tt) = (sum(&|(c, ..)| c * c), sum(&|(c, t, _)| c * t), sum(&|(_, t, _)| t * t));
    let (cv, tv) = (sum(&|(c, _, v)| c * v), sum(&|(_, t, v)| t * v));
    let determinant = cc * tt - ct * ct;
    let (slope, constant) = ((cc * tv - ct * cv) / determinant, (tt * cv - ct * tv) / determinant);
    let squares = sum(&|(c, t, v)| (v - constant * c - slope * t).powi(2));
    (slope, (squares / (count - 2.0) * cc / determinant).sqrt())
}

/// The share of a distance from the line of least squares that is still there at the next time.
fn carried(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let mean = values.iter().sum::<f64>() / count;
    let times = || (0..values.len()).map(|at| at as f64 - middle);
    let slope = times().zip(values).map(|(time, value)| time * value).sum::<f64>()
        / times().map(|time| time * time).sum::<f64>();
    let off: Vec<f64> = times().zip(values).map(|(time, value)| value - mean - slope * time).collect();
    let products: f64 = off.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let squares: f64 = off[..off.len() - 1].iter().map(|off| off * off).sum();
    // If the values are on a line, the remaining distances are rounding errors.
    if squares <= 1e-18 * mean * mean * count {
        return 0.0;
    }
    // With a fitted line, the mean of the estimate is too low by (2 + 4 share) / count (Marriott and Pope 1954).
    ((products / squares + 2.0 / count) / (1.0 - 4.0 / count)).max(0.0)
}

/// 95 % of estimates are within this distance, in standard errors: Student's t by the expansion of Cornish and Fisher.
fn quantile(freedom: f64) -> f64 {
    1.959_964 + 2.372_3 / freedom + 2.822_5 / (freedom * freedom)
}

#[cfg(test)]
mod tests;
