//! What the user wants less of, and what may get worse for it. In: texts such as `memory` and `p99=20%`. Out: metrics.

use allocanary_cell::description::perhaps;
use allocanary_study::error::{Error, Result};
use allocanary_study::summary::{Better, METRICS, Metric, metric_index};

/// The names of objectives, each with its metric.
pub const OBJECTIVES: [(&str, &str); 3] = [("memory", "rss"), ("cpu", "cpu"), ("p99", "p99")];

/// What may get worse by default.
pub const WITHIN: [&str; 2] = ["throughput=5%", "p99=20%"];

/// An objective and its guards.
#[derive(Clone)]
pub struct Goal {
    /// The metric that shall be less.
    pub objective: &'static Metric,
    /// Metrics that may get worse by at most this share.
    pub guards: Vec<Guard>,
}

/// A metric that may get worse by at most a share.
#[derive(Clone, Copy)]
pub struct Guard {
    /// The metric.
    pub metric: &'static Metric,
    /// The share: 0.05 is 5 %.
    pub share: f64,
}

impl Goal {
    /// Reads the flags. Without `within` the guards are [`WITHIN`], except one on the objective itself.
    pub fn parse(objective: &str, within: Option<&[String]>) -> Result<Goal> {
        let names = OBJECTIVES.iter().map(|(name, _)| *name);
        let Some((_, metric)) = OBJECTIVES.iter().find(|(name, _)| *name == objective) else {
            let hint = perhaps(objective, names);
            return Err(Error::Input(format!("--objective: no objective `{objective}`{hint}")));
        };
        let objective = &METRICS[metric_index(metric)];
        let mut guards: Vec<Guard> = Vec::new();
        match within {
            None => {
                let guards_of = WITHIN.iter().map(|text| Guard::parse(text)).collect::<Result<Vec<_>>>()?;
                guards.extend(guards_of.into_iter().filter(|guard| guard.metric.name != objective.name));
            }
            Some(texts) => {
                for text in texts {
                    let guard = Guard::parse(text)?;
                    if guard.metric.name == objective.name {
                        let name = objective.name;
                        let text = format!(
                            "--within {text}: {name} is the objective itself, so that it cannot get worse: leave this guard out"
                        );
                        return Err(Error::Input(text));
                    }
                    if guards.iter().any(|known| known.metric.name == guard.metric.name) {
                        return Err(Error::Input(format!("--within {text}: `{}` stands twice", guard.metric.name)));
                    }
                    guards.push(guard);
                }
            }
        }
        Ok(Goal { objective, guards })
    }

    /// The metrics that a row must have: the objective first.
    pub fn metrics(&self) -> impl Iterator<Item = &'static Metric> + '_ {
        std::iter::once(self.objective).chain(self.guards.iter().map(|guard| guard.metric))
    }
}

impl Guard {
    /// Reads `p99=20%`.
    fn parse(text: &str) -> Result<Guard> {
        let wrong = |why: String| Err(Error::Input(format!("--within {text}: {why}")));
        let Some((name, share)) = text.split_once('=') else {
            return wrong("wanted METRIC=PERCENT, such as throughput=5%".into());
        };
        let Some(metric) = METRICS.iter().find(|metric| metric.name == name.trim()) else {
            let hint = perhaps(name, METRICS.iter().map(|metric| metric.name));
            return wrong(format!("no metric `{name}`{hint}"));
        };
        if metric.better == Better::Neither {
            return wrong(format!("`{name}` has no better direction, so that it cannot get worse"));
        }
        match share.trim().trim_end_matches('%').trim().parse::<f64>() {
            Ok(percent) if percent.is_finite() && (0.0..=1000.0).contains(&percent) => {
                Ok(Guard { metric, share: percent / 100.0 })
            }
            _ => wrong(format!("wanted a share from 0% to 1000%, found `{share}`")),
        }
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
        let goal = Goal::parse("memory", None).unwrap();
        let names: Vec<&str> = goal.metrics().map(|metric| metric.name).collect();
        assert_eq!(names, ["rss", "throughput", "p99"]);
        let p99 = Goal::parse("p99", None).unwrap();
        assert_eq!(p99.metrics().map(|metric| metric.name).collect::<Vec<_>>(), ["p99", "throughput"]);
        let own = Goal::parse("cpu", Some(&["rss=10%".into()])).unwrap();
        assert!((own.guards[0].worsening(10.0, 11.0) - 0.1).abs() < 1e-9 && own.guards[0].share == 0.1);
        assert!((goal.guards[0].worsening(100.0, 95.0) - 0.05).abs() < 1e-9, "less throughput is worse");
        let said = |objective: &str, within: &[&str]| {
            let within: Vec<String> = within.iter().map(|text| text.to_string()).collect();
            Goal::parse(objective, Some(&within)).err().expect("an error").to_string()
        };
        assert!(said("memroy", &[]).contains("no objective `memroy`; perhaps memory"));
        assert!(said("memory", &["rss=5%"]).contains("rss is the objective itself"));
        assert!(said("memory", &["p99=5%", "p99=9%"]).contains("stands twice"));
        assert!(said("memory", &["p99"]).contains("wanted METRIC=PERCENT"));
        assert!(said("memory", &["p98=5%"]).contains("no metric `p98`"));
        assert!(said("memory", &["live=5%"]).contains("no better direction"));
        assert!(said("memory", &["p99=-1%"]).contains("wanted a share from 0%"));
    }
}
