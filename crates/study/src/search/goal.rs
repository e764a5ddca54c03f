//! What the user wants to reduce, and what may get worse in exchange. In: texts such as `memory` and `p99=20%`, and
//! what is measured. Out: metrics.

use allocanary_measure::metrics::{Better, Metric, Metrics, metric_of_all};
use allocanary_measure::summary::metric_percent;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::perhaps;

/// The names of objectives.
pub const OBJECTIVES: [&str; 3] = ["memory", "cpu", "p99"];

/// What is measured. This decides which metric `memory` means, and what may get worse by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoalSource {
    /// A built-in workload: resident memory when idle.
    Workload,
    /// A program that runs until it is stopped: resident memory when idle.
    Service,
    /// A program that ends: the maximum of resident memory.
    Program,
    /// A replayed trace: resident memory without files when idle. Only the allocator's memory is in it.
    Trace,
}

impl GoalSource {
    /// The metric of the objective `memory`.
    pub fn memory(self) -> &'static str {
        match self {
            GoalSource::Workload | GoalSource::Service => "resident",
            GoalSource::Program => "peak_resident",
            GoalSource::Trace => "anonymous",
        }
    }

    /// What may get worse by default. A limit is left out if the rows do not have its metric.
    pub fn within(self) -> &'static [&'static str] {
        match self {
            GoalSource::Workload | GoalSource::Service | GoalSource::Trace => &["throughput=5%", "p99=20%"],
            GoalSource::Program => &["wall=5%", "cpu=20%"],
        }
    }
}

/// An objective and its guards.
#[derive(Clone)]
pub struct Goal {
    /// The metric to reduce.
    pub objective: Metric,
    /// Metrics that may get worse by at most this share.
    pub guards: Vec<Guard>,
    /// All metrics that the rows can have.
    pub metrics: Metrics,
}

/// A metric that may get worse by at most a share.
#[derive(Clone)]
pub struct Guard {
    /// The metric.
    pub metric: Metric,
    /// The share: 0.05 is 5 %.
    pub share: f64,
    /// Whether the user requested it. A default is left out if the rows do not have its metric.
    pub is_typed: bool,
}

impl Goal {
    /// Parses the flags, for rows with these metrics. Without `within` the guards are those of the source, except for one on the objective
    /// itself.
    pub fn parse(objective: &str, within: Option<&[String]>, source: GoalSource, metrics: &Metrics) -> Result<Goal> {
        if !OBJECTIVES.contains(&objective) {
            let hint = perhaps(objective, OBJECTIVES.iter().copied());
            return Err(Error::Input(format!("--objective: no objective `{objective}`{hint}")));
        }
        let objective = metric_of_all(if objective == "memory" { source.memory() } else { objective });
        let mut guards: Vec<Guard> = Vec::new();
        match within {
            None => {
                let defaults = source.within().iter().map(|text| Guard::parse(text, metrics));
                let defaults = defaults.map(|guard| guard.map(|guard| Guard { is_typed: false, ..guard }));
                let defaults = defaults.collect::<Result<Vec<_>>>()?;
                guards.extend(defaults.into_iter().filter(|guard| guard.metric.name != objective.name));
            }
            Some(texts) => {
                for text in texts {
                    let guard = Guard::parse(text, metrics)?;
                    if guard.metric.name == objective.name {
                        let name = &objective.name;
                        let text = format!(
                            "--tolerance {text}: {name} is the objective itself, so that it cannot get worse: leave this guard out"
                        );
                        return Err(Error::Input(text));
                    }
                    if guards.iter().any(|known| known.metric.name == guard.metric.name) {
                        return Err(Error::Input(format!("--tolerance {text}: `{}` stands twice", guard.metric.name)));
                    }
                    guards.push(guard);
                }
            }
        }
        Ok(Goal { objective: objective.clone(), guards, metrics: metrics.clone() })
    }

    /// The metrics that a row must have: the objective first.
    pub fn wanted(&self) -> impl Iterator<Item = &Metric> {
        std::iter::once(&self.objective).chain(self.guards.iter().map(|guard| &guard.metric))
    }

    /// Reduces the goal to metrics that the rows have. `has` says whether they have the metric of this name. A default
    /// limit without its metric is left out, or replaced by the time of the work if that is the nearest metric. The
    /// returned sentences say so. An error says that a metric is missing that the user requested.
    pub fn keep_to(&mut self, has: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        let wanted = std::iter::once((&self.objective, "--objective".to_string()));
        let typed = self.guards.iter().filter(|guard| guard.is_typed);
        let mut wanted = wanted.chain(typed.map(|guard| (&guard.metric, format!("--tolerance {}", guard.text()))));
        if let Some((metric, flag)) = wanted.find(|(metric, _)| !has(&metric.name)) {
            let known = self.metrics.all().filter(|metric| metric.better != Better::Neither && has(&metric.name));
            let known: Vec<&str> = known.map(|metric| &*metric.name).collect();
            return Err(Error::Input(format!(
                "{flag}: the rows have no {}: they have {}",
                metric.name,
                if known.is_empty() { "nothing that can be better or worse".to_string() } else { known.join(", ") }
            )));
        }
        let mut said = Vec::new();
        // A load with a fixed number of requests takes longer if the service is slower.
        let wall = Some(metric_of_all("wall")).filter(|wall| has(&wall.name));
        for guard in &mut self.guards {
            if let Some(wall) = wall.filter(|_| guard.metric.name == "throughput" && !has("throughput")) {
                guard.metric = wall.clone();
                said.push(format!(
                    "the rows have no throughput: the time of the load is limited instead, {}",
                    guard.text()
                ));
            }
        }
        self.guards.retain(|guard| {
            let there = has(&guard.metric.name);
            if !there {
                said.push(format!(
                    "the rows have no {0}: the default limit {1} is left out",
                    guard.metric.name,
                    guard.text()
                ));
            }
            there
        });
        Ok(said)
    }
}

impl std::fmt::Debug for Goal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let guards: Vec<String> = self.guards.iter().map(Guard::text).collect();
        write!(out, "{} within {guards:?}", self.objective.name)
    }
}

impl Guard {
    /// The change of the metric at the limit; negative if higher is better.
    pub fn bound(&self) -> f64 {
        if self.metric.better == Better::Higher { -self.share } else { self.share }
    }

    /// Parses `p99=20%`.
    fn parse(text: &str, metrics: &Metrics) -> Result<Guard> {
        let wrong = |why: String| Err(Error::Input(format!("--tolerance {text}: {why}")));
        let Some((name, share)) = metric_percent(text).filter(|(_, share)| *share <= 10.0) else {
            return wrong("wanted METRIC=PERCENT from 0% to 1000%, such as throughput=5%".into());
        };
        let Some(metric) = metrics.find(name) else {
            let hint = perhaps(name, metrics.all().map(|metric| &*metric.name));
            return wrong(format!("no metric `{name}`{hint}"));
        };
        if metric.better == Better::Neither {
            return wrong(format!("`{name}` has no better direction, so that it cannot get worse"));
        }
        Ok(Guard { metric: metric.clone(), share, is_typed: true })
    }

    /// The text as the user types it: `p99=20%`.
    pub fn text(&self) -> String {
        format!("{}={}%", self.metric.name, (self.share * 1e6).round() / 1e4)
    }

    /// By how much `new` is worse than `old`, as a share; negative if it is better.
    pub fn worsening(&self, old: f64, new: f64) -> f64 {
        match self.metric.better {
            Better::Higher => 1.0 - new / old,
            _ => new / old - 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_read_and_what_cannot_be_is_named() {
        let goal = Goal::parse("memory", None, GoalSource::Workload, &Metrics::default()).unwrap();
        let names: Vec<String> = goal.wanted().map(|metric| metric.name.to_string()).collect();
        assert_eq!(names, ["resident", "throughput", "p99"]);
        let p99 = Goal::parse("p99", None, GoalSource::Workload, &Metrics::default()).unwrap();
        assert_eq!(p99.wanted().map(|metric| metric.name.to_string()).collect::<Vec<_>>(), ["p99", "throughput"]);
        let own =
            Goal::parse("cpu", Some(&["resident=10%".into()]), GoalSource::Workload, &Metrics::default()).unwrap();
        assert!((own.guards[0].worsening(10.0, 11.0) - 0.1).abs() < 1e-9 && own.guards[0].share == 0.1);
        assert!((goal.guards[0].worsening(100.0, 95.0) - 0.05).abs() < 1e-9, "less throughput is worse");
        let said = |objective: &str, within: &[&str]| {
            let within: Vec<String> = within.iter().map(|text| text.to_string()).collect();
            Goal::parse(objective, Some(&within), GoalSource::Workload, &Metrics::default())
                .expect_err("an error")
                .to_string()
        };
        assert!(said("memroy", &[]).contains("no objective `memroy`; perhaps memory"));
        assert!(said("memory", &["resident=5%"]).contains("resident is the objective itself"));
        assert!(said("memory", &["p99=5%", "p99=9%"]).contains("stands twice"));
        assert!(said("memory", &["p99"]).contains("wanted METRIC=PERCENT"));
        assert!(said("memory", &["p98=5%"]).contains("no metric `p98`"));
        assert!(said("memory", &["requested=5%"]).contains("no better direction"));
        assert!(said("memory", &["p99=-1%"]).contains("from 0% to 1000%"));
    }

    #[test]
    fn each_source_has_its_memory_and_limits() {
        let of = |source| {
            let goal = Goal::parse("memory", None, source, &Metrics::default()).unwrap();
            goal.wanted().map(|metric| metric.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of(GoalSource::Service), ["resident", "throughput", "p99"]);
        assert_eq!(of(GoalSource::Program), ["peak_resident", "wall", "cpu"]);
        assert_eq!(of(GoalSource::Trace), ["anonymous", "throughput", "p99"]);
        let cpu = Goal::parse("cpu", None, GoalSource::Program, &Metrics::default()).unwrap();
        assert_eq!(cpu.wanted().map(|metric| metric.name.to_string()).collect::<Vec<_>>(), ["cpu", "wall"]);
    }

    #[test]
    fn a_default_limit_is_left_out_or_replaced_and_a_typed_one_must_be_there() {
        let mut goal = Goal::parse("memory", None, GoalSource::Service, &Metrics::default()).unwrap();
        let said = goal.keep_to(|name| ["resident", "wall", "cpu"].contains(&name)).unwrap();
        assert_eq!(goal.guards.iter().map(Guard::text).collect::<Vec<_>>(), ["wall=5%"]);
        assert!(said[0].contains("the time of the load is limited instead, wall=5%"), "{said:?}");
        assert!(said[1].contains("the rows have no p99: the default limit p99=20% is left out"), "{said:?}");
        let mut goal = Goal::parse("memory", None, GoalSource::Workload, &Metrics::default()).unwrap();
        assert!(
            goal.keep_to(|name| ["resident", "throughput", "p99"].contains(&name)).unwrap().is_empty()
                && goal.guards.len() == 2
        );
        let mut typed =
            Goal::parse("memory", Some(&["p99=12.5%".into()]), GoalSource::Service, &Metrics::default()).unwrap();
        let error = typed.keep_to(|name| ["resident", "requested", "cpu"].contains(&name)).unwrap_err().to_string();
        assert!(error.contains("--tolerance p99=12.5%: the rows have no p99: they have resident, cpu"), "{error}");
        let mut p99 = Goal::parse("p99", Some(&[]), GoalSource::Program, &Metrics::default()).unwrap();
        assert!(
            p99.keep_to(|name| ["peak_resident"].contains(&name))
                .unwrap_err()
                .to_string()
                .contains("--objective: the rows have no p99")
        );
    }
}
