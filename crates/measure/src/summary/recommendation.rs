//! What to do, by the rows of a panel: take a candidate, or keep the first. In: a section and one of its panels. Out: one value, from which
//! every report takes its answer and its lines to paste.

use super::{COST, GroupComparison, MedianEstimate, Panel, StudySection, Verdict};
use crate::metrics::{Better, Metric, metric_of_all};

/// How much worse each metric of [`COST`] may be, if the user limits nothing.
pub const COST_TOLERANCE: f64 = 0.1;

/// What to do, by the figures in the last column of a panel. Lines are named by their place in the panel.
pub struct Recommendation {
    /// The metric that decides.
    pub metric: Metric,
    /// The place of the column: the last one.
    pub column: usize,
    /// What to do.
    pub choice: RecommendedStep,
    /// The line with the best median, even if it is not taken. `None` without figures.
    pub best: Option<usize>,
    /// A line that is surely better than the first, and better than the line that is recommended, but costs more than
    /// [`COST_TOLERANCE`]. `None` if the user names limits: then the user knows what the memory may cost.
    pub dearer: Option<usize>,
    /// The lines of which more runs failed than of the first.
    pub failing: Vec<usize>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecommendedStep {
    /// This line is surely better than the first, within the limits, and the best of these. The limits are the user's, or else
    /// [`COST_TOLERANCE`].
    Take(usize),
    /// No candidate is surely better within the limits.
    Keep,
    /// There is only one candidate.
    Alone,
    /// The user limits a metric that the rows do not have, so nothing can be proposed.
    Unknown(String),
    /// The first candidate has no figure of the metric: nothing can be compared with it.
    NoFirst,
}

impl Recommendation {
    /// The recommendation of a panel; `None` if it has no column or no line.
    pub fn of(section: &StudySection, panel: &Panel) -> Option<Recommendation> {
        let metric = deciding_metric(section);
        let column = panel.columns.len().checked_sub(1).filter(|_| !panel.lines.is_empty())?;
        let failing: Vec<usize> = (0..panel.lines.len()).filter(|line| panel.fails_more(*line, column)).collect();
        let sound = (0..panel.lines.len()).filter(|line| !failing.contains(line));
        let median = |line: usize| Some((line, estimate(panel, line, column, metric)?.median));
        let all: Vec<(usize, f64)> = sound.filter_map(median).collect();
        let best = |among: &mut dyn Iterator<Item = &(usize, f64)>| {
            let order =
                |a: f64, b: f64| if metric.better == Better::Higher { b.total_cmp(&a) } else { a.total_cmp(&b) };
            among.min_by(|a, b| order(a.1, b.1)).map(|(line, _)| *line)
        };
        let surely = |line: usize| {
            line > 0 && panel.comparison(&metric.name, line, column).is_some_and(|one| one.verdict == Verdict::Better)
        };
        let fits = |line: usize| match section.within.is_empty() {
            true => is_affordable(panel, metric, line, column),
            false => is_within(section, panel, line, column),
        };
        let taken = || best(&mut all.iter().filter(|(line, _)| surely(*line) && fits(*line)));
        let choice = match missing_limit(section, panel, column) {
            _ if panel.lines.len() < 2 => RecommendedStep::Alone,
            _ if estimate(panel, 0, column, metric).is_none() => RecommendedStep::NoFirst,
            Some(name) => RecommendedStep::Unknown(name),
            None => taken().map_or(RecommendedStep::Keep, RecommendedStep::Take),
        };
        let dearer = match choice {
            RecommendedStep::Take(_) | RecommendedStep::Keep if section.within.is_empty() => {
                let surest = best(&mut all.iter().filter(|(line, _)| surely(*line)));
                surest.filter(|line| choice != RecommendedStep::Take(*line))
            }
            _ => None,
        };
        Some(Recommendation { metric: metric.clone(), column, choice, best: best(&mut all.iter()), dearer, failing })
    }

    /// The line that is recommended: the one to take, or the first. `None` if nothing can be proposed.
    pub fn line(&self) -> Option<usize> {
        match self.choice {
            RecommendedStep::Take(line) => Some(line),
            RecommendedStep::Keep | RecommendedStep::Alone => Some(0),
            RecommendedStep::Unknown(_) | RecommendedStep::NoFirst => None,
        }
    }

    /// The figure of a line in the deciding metric.
    pub fn estimate<'a>(&self, panel: &'a Panel, line: usize) -> Option<&'a MedianEstimate> {
        estimate(panel, line, self.column, &self.metric)
    }

    /// What a line saves against the first.
    pub fn saving<'a>(&self, panel: &'a Panel, line: usize) -> Option<&'a GroupComparison> {
        panel.comparison(&self.metric.name, line, self.column)
    }

    /// What a line costs against the first: the comparisons in the metrics of the cost that have figures.
    pub fn cost<'a>(&self, panel: &'a Panel, line: usize) -> Vec<(&'static str, &'a GroupComparison)> {
        cost(panel, &self.metric, line, self.column)
    }
}

fn cost<'a>(
    panel: &'a Panel,
    deciding: &Metric,
    line: usize,
    column: usize,
) -> Vec<(&'static str, &'a GroupComparison)> {
    let metrics = COST.into_iter().filter(|name| *name != deciding.name);
    let found = metrics.filter_map(|name| Some((name, panel.comparison(name, line, column)?)));
    found.filter(|(_, one)| one.n.0 > 0 && one.n.1 > 0).collect()
}

/// Whether no metric of the cost is surely more than [`COST_TOLERANCE`] worse. An undecided one may be twice as bad in the median: on a
/// busy machine the times of equal candidates differ by more than the tolerance, but not by that.
fn is_affordable(panel: &Panel, deciding: &Metric, line: usize, column: usize) -> bool {
    const UNDECIDED: f64 = 1.0;
    cost(panel, deciding, line, column).into_iter().all(|(name, one)| {
        let times = if metric_of_all(name).better == Better::Higher { 1.0 / one.ratio() } else { one.ratio() };
        times <= 1.0 + if one.verdict == Verdict::Undecided { UNDECIDED } else { COST_TOLERANCE }
    })
}

/// The metric that a section is about: its first one of which less or more is better, or else resident memory when idle.
fn deciding_metric(section: &StudySection) -> &Metric {
    let named = section.about.metrics.iter().find(|metric| metric.better != Better::Neither);
    named.unwrap_or_else(|| metric_of_all("resident"))
}

fn estimate<'a>(panel: &'a Panel, line: usize, column: usize, metric: &Metric) -> Option<&'a MedianEstimate> {
    panel.lines.get(line)?.points.get(column)?.as_ref()?.get(&metric.name)
}

/// A metric that the user limits and that the first candidate's rows do not have. Without it, nobody knows which candidates are within the
/// limits.
fn missing_limit(section: &StudySection, panel: &Panel, column: usize) -> Option<String> {
    let has = |name: &str| panel.lines.first()?.points.get(column)?.as_ref()?.get(name);
    section.within.iter().map(|(name, _)| name).find(|name| has(name).is_none()).cloned()
}

/// Whether a candidate is surely not worse than the user allows, in each metric that the user limits.
fn is_within(section: &StudySection, panel: &Panel, line: usize, column: usize) -> bool {
    section.within.iter().all(|(name, share)| {
        let metric = section.about.metrics.iter().find(|metric| metric.name == *name);
        let compared = panel.comparison(name, line, column);
        let (Some(metric), Some(compared)) = (metric, compared) else { return false };
        matches!(compared.verdict, Verdict::Better)
            || compared.worsening(metric.better).is_some_and(|(_, most)| most <= *share)
    })
}
