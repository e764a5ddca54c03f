//! How fast live bytes grow. In: live bytes at even times. Out: the slope of a line through them, with its interval of 95 %.
//!
//! What is live at one time is for the most part live at the next as well, so the distances from the line are alike in neighbours, and an
//! interval that takes them for independent is too narrow: for blocks that leak one by one at random it misses the truth four times in
//! five. The line is fitted as by Perron and Yabu (2009): the share of a distance that carries over to the next time is estimated,
//! corrected for its bias in short series, and taken out (Prais and Winsten). Where it is large, all of it is taken to carry over; the
//! slope is then the mean of the changes from time to time, and each change is one piece of evidence. One step, however high, is one.

/// From this share on all of a distance is taken to carry over. With it the interval has the truth in 92 % of series at least, whatever
/// the share is: see the tests. A greater one is more exact where distances are independent, and wrong where they are not.
const WHOLE: f64 = 0.65;
/// A site that grows by less, as a part of all live bytes, is not worth a word.
const WORTH: f64 = 0.01;

/// Bytes a second.
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
    /// Of live bytes at even times over so many seconds. `block` is the size of a block: at which moment of a step the first and the last
    /// time lie is chance, so the interval is never narrower than a block more or less.
    pub fn of(values: &[f64], seconds: f64, block: f64) -> Slope {
        let steps = values.len() as f64 - 1.0;
        let (middle, error) = line(values);
        let half = (error * quantile(steps - 1.0)).max(block / steps);
        Slope { per_second: middle, low: middle - half, high: middle + half }.times(steps / seconds)
    }

    /// Of all blocks, where one in `factor` was looked at.
    pub fn times(self, factor: f64) -> Slope {
        Slope { per_second: self.per_second * factor, low: self.low * factor, high: self.high * factor }
    }
}

/// The slope of a site, and whether it is to be called growing: the interval is above zero, the growth is worth a hundredth of the most that
/// lives at one of these times, `most`, and it goes on. A site that only filled has grown as well: in the last third of the time it is
/// then shown to grow by less than half of what it did.
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
    // What is not carried over, of the constant, of time and of the values; the first of each has no one before it.
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

/// The share of a distance from the line of least squares that is found again at the next time.
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
    // Of numbers that lie on a line, what is left is rounding.
    if squares <= 1e-18 * mean * mean * count {
        return 0.0;
    }
    // Its mean is low by (2 + 4 share) / count where a line was fitted (Marriott and Pope 1954).
    ((products / squares + 2.0 / count) / (1.0 - 4.0 / count)).max(0.0)
}

/// The distance, in standard errors, that 95 % of estimates lie within: Student's t by the expansion of Cornish and Fisher.
fn quantile(freedom: f64) -> f64 {
    1.959_964 + 2.372_3 / freedom + 2.822_5 / (freedom * freedom)
}

#[cfg(test)]
mod tests;
