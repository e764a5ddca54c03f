//! Limits for CI. In: a metric, how much worse it may get, a comparison. Out: whether the limit holds.

use super::{Better, Comparison, Metric, metric_percent};
use crate::error::{Error, Result};
use allocanary_kernel::units::show_share;

/// A limit for a metric: it is broken if the metric surely got worse by more than `most`.
#[derive(Clone)]
pub struct Gate {
    /// The metric.
    pub metric: Metric,
    /// A share: 0.05 are 5 %.
    pub most: f64,
}

/// What a gate says of one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// The metric did not get worse by more than the gate.
    Holds,
    /// The metric got worse by more than the gate.
    Broken,
    /// The samples leave it open.
    Undecided,
}

impl Gate {
    /// The name and the share of `rss=5%`. Only the rows know all metrics, so the name is looked up later.
    pub fn parse(text: &str) -> Result<(&str, f64)> {
        let wrong = || Error::Input(format!("--gate: wanted METRIC=PERCENT such as rss=5%, found `{text}`"));
        metric_percent(text).ok_or_else(wrong)
    }

    /// A gate for a metric that can get worse by that much.
    pub fn new(metric: &Metric, most: f64) -> Result<Gate> {
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
        Ok(Gate { metric: metric.clone(), most })
    }

    /// Did the metric get worse by more than the gate? One rule, by the interval: a gate is broken if the whole interval
    /// lies beyond it, holds if the whole interval lies within it, and is open otherwise. The verdict asks something else:
    /// whether there is a difference at all.
    pub fn judge(&self, one: &Comparison) -> Judged {
        match one.worsening(self.metric.better) {
            Some((least, _)) if least > self.most && !one.doubted => Judged::Broken,
            Some((_, most)) if most <= self.most => Judged::Holds,
            _ => Judged::Undecided,
        }
    }

    /// Advice on what to measure so that an undecided gate can be decided.
    pub fn more(&self, one: &Comparison) -> String {
        if one.doubted {
            return "the machine was too busy to judge that: measure again when it is idle".into();
        }
        let bound = if self.metric.better == Better::Higher { -self.most } else { self.most };
        match one.repeats_to_pass(bound) {
            Some(repeats) => format!("about {repeats} repeats would decide"),
            None => {
                "the samples spread too far for any number of repeats: take a wider gate, or a quieter machine".into()
            }
        }
    }
}
