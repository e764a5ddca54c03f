//! Limits for CI. In: a metric, how much worse it may get, a comparison. Out: whether the limit holds.

use super::{GroupComparison, metric_percent};
use crate::metrics::{Better, Metric, Metrics};
use allocanary_rows::error::{Error, Result};
use allocanary_text::units::show_share;

/// A limit for a metric. It is broken if the metric surely got worse by more than `most`.
#[derive(Clone)]
pub struct MetricLimit {
    /// The metric.
    pub metric: Metric,
    /// The quantile of the runs that is judged, such as 0.9; `None` for the median.
    pub quantile: Option<f64>,
    /// A share: 0.05 are 5 %.
    pub most: f64,
}

/// The result of a gate for one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// The metric did not get worse by more than the gate.
    Holds,
    /// The metric got worse by more than the gate.
    Broken,
    /// The samples do not decide it.
    Undecided,
}

impl MetricLimit {
    /// The name and the share of `resident=5%`. Only the rows know all metrics, so the name is looked up later.
    pub fn parse(text: &str) -> Result<(&str, f64)> {
        let wrong = || {
            Error::Input(format!(
                "--gate: wanted METRIC=PERCENT such as resident=5% or peak_resident.p90=5%, found `{text}`"
            ))
        };
        metric_percent(text).ok_or_else(wrong)
    }

    /// A gate for one of these metrics, or for a quantile of it such as `peak_resident.p90`. `most` is how much worse it may get, as a
    /// share.
    pub fn new(metrics: &Metrics, name: &str, most: f64) -> Result<MetricLimit> {
        let (metric, quantile) = match name.rsplit_once(".p") {
            // A figure of the user's program may itself have such a name.
            Some((metric, percent)) if metrics.find(name).is_none() => {
                let percent =
                    percent.parse().ok().filter(|percent| (1..100_u32).contains(percent)).ok_or_else(|| {
                        Error::Input(format!(
                            "--gate {name}: wanted a quantile from p1 to p99, such as peak_resident.p90, found `p{percent}`"
                        ))
                    })?;
                (metrics.wanted(metric)?, Some(f64::from(percent) / 100.0))
            }
            _ => (metrics.wanted(name)?, None),
        };
        if metric.better == Better::Neither {
            return Err(Error::Input(format!(
                "--gate: `{}` has no better direction, so it cannot get worse",
                metric.name
            )));
        }
        if metric.better == Better::Higher && most >= 1.0 {
            return Err(Error::Input(format!(
                "--gate {}: more of it is better, so it cannot get worse by more than 100 %: wanted less than that, found {}",
                metric.name,
                show_share(most)
            )));
        }
        Ok(MetricLimit { metric: metric.clone(), quantile, most })
    }

    /// Whether it is for this figure of a comparison.
    pub(super) fn is_for(&self, metric: &Metric, quantile: Option<f64>) -> bool {
        self.metric.name == metric.name && self.quantile == quantile
    }

    /// Did the metric get worse by more than the gate? The interval decides: a gate is broken if the whole interval lies beyond it, holds
    /// if the whole interval lies within it, and is open otherwise. The verdict answers another question: whether there is a difference at
    /// all.
    ///
    /// A single broken gate fails all, so it must not be broken by chance in any comparison of the family. For this, the interval is wider,
    /// the larger the family is. To pass, all gates must hold, so each holds by its own interval.
    pub fn judge(&self, one: &GroupComparison) -> Judged {
        let is_broken = one.surely_worse(self.metric.better).is_some_and(|least| least > self.most);
        let holds = one.worsening(self.metric.better).is_some_and(|(_, most)| most <= self.most);
        match (holds, is_broken && !one.doubted) {
            (true, _) => Judged::Holds,
            (_, true) => Judged::Broken,
            _ => Judged::Undecided,
        }
    }

    /// Advice on what to measure so that an undecided gate can be decided.
    pub fn more(&self, one: &GroupComparison) -> String {
        if one.doubted {
            return "the machine was too busy to judge that: measure again when it is idle".into();
        }
        let bound = if self.metric.better == Better::Higher { -self.most } else { self.most };
        let is_beyond = one.worsening(self.metric.better).is_some_and(|(least, _)| least > self.most);
        let chance = match is_beyond {
            true => format!("one of {} comparisons is so by chance too often; ", one.family),
            false => String::new(),
        };
        match one.repeats_to_judge(bound) {
            Some(repeats) => format!("{chance}about {repeats} repeats would decide"),
            None => {
                "the samples spread too far for any number of repeats: take a wider gate, or a quieter machine".into()
            }
        }
    }
}
