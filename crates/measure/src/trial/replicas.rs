//! The replicas of a workload in the reports of agents. In: reports, of any times and in any order. Out: the memory of each replica
//! before the change and now.
//!
//! A restarted replica counts as another replica: a replica is identified by its pod and the start of its first process. The time of the
//! change is the start of the changed replica. The later half of the time since then is compared, and the later half of the readings
//! before: soon after a start, each replica still differs by its start.

use std::collections::{BTreeMap, BTreeSet};

use allocanary_rows::fleet::{ContainerState, Machine, NodeReport};
use serde::Serialize;

use crate::trial::estimate::mean;
use crate::trial::target::{TrialTarget, TrialVariable};

/// A replica, from one start to its end.
#[derive(Clone, Debug, Serialize)]
pub struct Replica {
    /// Its pod.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// The workload.
    #[serde(skip)]
    pub workload: String,
    /// The kind of its node.
    #[serde(skip)]
    pub host: Machine,
    /// Its image, by its last reading.
    #[serde(skip)]
    pub image: String,
    /// The processors that it may use, in thousandths, by its last reading; `None` without a quota.
    #[serde(skip)]
    pub quota_milli: Option<u64>,
    /// When its first process was started, in milliseconds since 1970; 0 if no agent reported it.
    #[serde(rename = "started_timestamp_seconds", with = "allocanary_text::seconds::millis")]
    pub started: u64,
    /// The settings in force, by its last reading.
    pub settings: Vec<String>,
    /// Whether the variables are in force in it.
    pub changed: bool,
    /// Its readings in order of time.
    #[serde(skip)]
    pub readings: Vec<ReplicaSample>,
}

/// A reading of a replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplicaSample {
    /// When, in milliseconds since 1970.
    pub taken: u64,
    /// Resident bytes.
    pub resident: u64,
    /// CPU time that it has used since its start, in milliseconds; `None` if no agent reported it.
    pub cpu: Option<u64>,
}

/// The memory of a replica during a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReplicaMemory {
    /// The mean of the logarithms of resident bytes.
    #[serde(skip)]
    pub log: f64,
    /// The geometric mean of resident bytes.
    #[serde(rename = "resident_bytes")]
    pub resident: f64,
    /// The number of readings.
    pub readings: usize,
    /// Processors that it has used; `None` if this is not known.
    pub cores: Option<f64>,
    /// How much the last reading is above the first, as a share.
    #[serde(rename = "growth_ratio")]
    pub growth: f64,
}

/// Among the settings, this word means that there may be others.
const UNKNOWN: &str = "unknown";
/// Two reported starts that are less than this apart, in milliseconds, are the same start: the host's clock may have been set in between.
const ONE_START: u64 = 3_000;

/// All replicas of a target.
#[derive(Clone, Debug)]
pub struct Replicas {
    /// The namespace that they are in.
    pub namespace: String,
    /// The container that was chosen.
    pub container: String,
    /// The replicas.
    pub replicas: Vec<Replica>,
}

/// All replicas of the target, and the chosen container. `changed` are the pods that a person names. Without them, the changed replicas are
/// those of the canary. Without a canary, they are those in which all variables are in force.
pub fn find(
    reports: &[NodeReport],
    target: &TrialTarget,
    lines: &[TrialVariable],
    changed: &[String],
) -> Result<Replicas, String> {
    let [own, canary] = [target.workload(), target.canary()];
    let of = |row: &&ContainerState| {
        (row.workload == own || row.workload == canary)
            && target.namespace.as_ref().is_none_or(|namespace| *namespace == row.namespace)
    };
    let all: Vec<(&NodeReport, &ContainerState)> =
        reports.iter().flat_map(|report| report.rows.iter().filter(of).map(move |row| (report, row))).collect();
    let namespaces: BTreeSet<&str> = all.iter().map(|(_, row)| row.namespace.as_str()).collect();
    if namespaces.len() > 1 {
        let list = namespaces.into_iter().collect::<Vec<_>>().join(", ");
        return Err(format!("{own} is in the namespaces {list}: wanted NAMESPACE/{own}"));
    }
    let namespace = namespaces.into_iter().next().unwrap_or_default().to_string();
    let container = container(&all, target)?;
    let mut replicas: BTreeMap<(&str, u64), Replica> = BTreeMap::new();
    let mut ordered = all;
    ordered.sort_by_key(|(report, _)| report.taken);
    for (report, row) in ordered.into_iter().filter(|(_, row)| row.container == container) {
        let started = row.started.unwrap_or(0);
        let near = replicas.range(
            (row.pod.as_str(), started.saturating_sub(ONE_START))
                ..=(row.pod.as_str(), started.saturating_add(ONE_START)),
        );
        let key = near.map(|(key, _)| *key).next().unwrap_or((row.pod.as_str(), started));
        let one = replicas.entry(key).or_insert_with(|| Replica {
            pod: row.pod.clone(),
            node: report.node.clone(),
            workload: row.workload.clone(),
            host: report.host.clone(),
            image: String::new(),
            quota_milli: None,
            started,
            settings: Vec::new(),
            changed: false,
            readings: Vec::new(),
        });
        one.settings.clone_from(&row.settings);
        (one.image, one.quota_milli) = (row.image.clone(), row.quota_milli);
        // The heap was not read yet. No settings are reported, but there may be some.
        if row.settings.is_empty() && row.allocator == "unknown" {
            one.settings.push(UNKNOWN.into());
        }
        let reading = ReplicaSample { taken: report.taken, resident: row.resident(), cpu: row.cpu };
        // The user may give the same report twice.
        if one.readings.last().is_none_or(|last| last.taken < reading.taken) {
            one.readings.push(reading);
        }
    }
    let mut replicas: Vec<Replica> = replicas.into_values().collect();
    mark(&mut replicas, &canary, lines, changed)?;
    Ok(Replicas { namespace, container, replicas })
}

/// The container: the one that the target names, or the one with the most memory.
fn container(all: &[(&NodeReport, &ContainerState)], target: &TrialTarget) -> Result<String, String> {
    let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
    all.iter().for_each(|(_, row)| *bytes.entry(&row.container).or_default() += row.resident());
    let named = target.container.as_deref();
    let most = bytes.iter().max_by_key(|(_, bytes)| **bytes).map(|(name, _)| *name);
    match (most, named) {
        (None, _) => Err(format!(
            "no replica of {} is in these reports: wanted a workload as `allocanary fleet` lists it, and agents that know the names of pods \
             (node --kubelet)",
            target.workload()
        )),
        (Some(_), Some(named)) if !bytes.contains_key(named) => {
            let list = bytes.into_keys().collect::<Vec<_>>().join(", ");
            Err(format!("{} has no container `{named}`: wanted one of {list}", target.workload()))
        }
        (Some(most), named) => Ok(named.unwrap_or(most).to_string()),
    }
}

fn mark(replicas: &mut [Replica], canary: &str, lines: &[TrialVariable], changed: &[String]) -> Result<(), String> {
    if let Some(pod) = changed.iter().find(|pod| !replicas.iter().any(|one| one.pod == **pod)) {
        let known: BTreeSet<&str> = replicas.iter().map(|one| one.pod.as_str()).collect();
        return Err(format!(
            "--changed {pod}: no report has it. Wanted one of {}; agents see a new pod at their next count",
            known.into_iter().collect::<Vec<_>>().join(", ")
        ));
    }
    let has_canary = replicas.iter().any(|one| one.workload == canary);
    // A pod may have been restarted with the variables. Its earlier start did not have them.
    let last: BTreeMap<String, u64> = replicas.iter().map(|one| (one.pod.clone(), one.started)).collect();
    for one in replicas.iter_mut() {
        one.changed = match (changed.is_empty(), has_canary) {
            (false, _) if !changed.contains(&one.pod) => false,
            (false, _) => last.get(&one.pod) == Some(&one.started) || one.in_force(lines) == Some(true),
            (true, true) => one.workload == canary,
            (true, false) => one.in_force(lines) == Some(true),
        };
    }
    if replicas.iter().all(|one| one.changed) {
        return Err(
            "no unchanged replica is in these reports: the lines are in force in all. Wanted the other nodes as well"
                .into(),
        );
    }
    Ok(())
}

/// Whether an allocator reads this variable. Agents report no other variables, so they cannot tell whether another one is in force.
fn is_read(name: &str) -> bool {
    let starts = ["MALLOC_", "GLIBC_TUNABLES", "MIMALLOC_", "TCMALLOC_"];
    starts.iter().any(|start| name.starts_with(start)) || name.ends_with("MALLOC_CONF")
}

impl Replica {
    /// Whether all variables are in force. `None` if the agent cannot tell: the settings are not known, or no allocator reads such a
    /// variable.
    pub fn in_force(&self, lines: &[TrialVariable]) -> Option<bool> {
        let has = |line: &TrialVariable| {
            let prefix = format!("{}=", line.name);
            match self.settings.iter().find(|setting| setting.starts_with(&prefix)) {
                Some(setting) => Some(*setting == line.line()),
                None if !is_read(&line.name) || self.settings.iter().any(|setting| setting == UNKNOWN) => None,
                None => Some(false),
            }
        };
        lines.iter().map(has).try_fold(true, |all, one| one.map(|one| all && one))
    }

    /// The memory in a span of time, in milliseconds since 1970. The span includes both ends.
    pub fn level(&self, (from, to): (u64, u64)) -> Option<ReplicaMemory> {
        let there: Vec<&ReplicaSample> =
            self.readings.iter().filter(|one| (from..=to).contains(&one.taken) && one.resident > 0).collect();
        let (first, last) = (there.first()?, there.last()?);
        let logs: Vec<f64> = there.iter().map(|one| (one.resident as f64).ln()).collect();
        let log = mean(&logs)?;
        let used = last.cpu.zip(first.cpu).and_then(|(last, first)| last.checked_sub(first));
        let passed = last.taken - first.taken;
        let cores = used.filter(|_| passed > 0).map(|used| used as f64 / passed as f64);
        let growth = last.resident as f64 / first.resident as f64 - 1.0;
        Some(ReplicaMemory { log, resident: log.exp(), readings: there.len(), cores, growth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_rows::fleet::{Part, Parts, SCHEMA};

    pub fn row(pod: &str, started: u64, mib: u64, cpu: u64, settings: &[&str]) -> ContainerState {
        let mut parts = Parts::default();
        parts.add(Part::Live, mib << 20);
        ContainerState {
            namespace: "shop".into(),
            pod: pod.into(),
            container: "web".into(),
            workload: "deployment/web".into(),
            settings: settings.iter().map(|one| (*one).to_string()).collect(),
            parts,
            started: Some(started),
            cpu: Some(cpu),
            ..ContainerState::default()
        }
    }

    fn report(taken: u64, rows: Vec<ContainerState>) -> NodeReport {
        NodeReport { schema: SCHEMA, node: "n".into(), taken, rows, ..NodeReport::default() }
    }

    fn target() -> TrialTarget {
        TrialTarget::parse("deploy/web").unwrap()
    }

    fn told(replicas: &[Replica]) -> Vec<(&str, u64, usize, bool)> {
        replicas.iter().map(|one| (one.pod.as_str(), one.started, one.readings.len(), one.changed)).collect()
    }

    #[test]
    fn a_restart_makes_a_replica_another_one_and_clocks_do_not() {
        let reports = [
            report(9_000_000, vec![row("a", 8_000_000, 10, 0, &["MALLOC_X=1"]), row("b", 1_001_000, 10, 0, &[])]),
            report(5_000_000, vec![row("a", 1_000_000, 10, 0, &[]), row("b", 1_000_000, 10, 0, &[])]),
            report(5_000_000, vec![row("a", 1_000_000, 10, 0, &[])]),
        ];
        let lines = TrialVariable::parse_all("MALLOC_X=1").unwrap();
        let found = find(&reports, &target(), &lines, &[]).unwrap().replicas;
        assert_eq!(told(&found), [("a", 1_000_000, 1, false), ("a", 8_000_000, 1, true), ("b", 1_000_000, 2, false)]);
        // A person names a pod: its last start is the changed one.
        let named = find(&reports, &target(), &TrialVariable::parse_all("MALLOC_Y=1").unwrap(), &["a".into()])
            .unwrap()
            .replicas;
        assert_eq!(told(&named), told(&found));
    }

    #[test]
    fn a_canary_is_a_replica_and_the_changed_one() {
        let mut canary = row("web-allocanary-x", 5, 10, 0, &["unknown"]);
        canary.workload = "deployment/web-allocanary".into();
        let reports = [report(9_000_000, vec![row("a", 5, 10, 0, &[]), canary])];
        let found = find(&reports, &target(), &TrialVariable::parse_all("MALLOC_X=1").unwrap(), &[]).unwrap();
        assert_eq!((found.namespace.as_str(), found.container.as_str()), ("shop", "web"));
        let found = found.replicas;
        assert_eq!(told(&found), [("a", 5, 1, false), ("web-allocanary-x", 5, 1, true)]);
        assert_eq!(
            found[1].in_force(&TrialVariable::parse_all("MALLOC_X=1").unwrap()),
            None,
            "its variables are not shown"
        );
    }

    #[test]
    fn what_cannot_be_found_is_said_with_what_there_is() {
        let reports = [report(1, vec![row("a", 5, 10, 0, &[])])];
        let lines = TrialVariable::parse_all("MALLOC_X=1").unwrap();
        let error = |target: &str, changed: &[String]| {
            find(&reports, &TrialTarget::parse(target).unwrap(), &lines, changed).map(|_| ()).unwrap_err()
        };
        assert!(error("deploy/api", &[]).contains("no replica of deployment/api"));
        assert!(error("deploy/web/side", &[]).contains("wanted one of web"));
        assert!(error("deploy/web", &["b".into()]).contains("Wanted one of a"));
        let mut elsewhere = row("a", 5, 10, 0, &[]);
        elsewhere.namespace = "test".into();
        let two = [report(1, vec![row("a", 5, 10, 0, &[]), elsewhere])];
        assert!(find(&two, &target(), &lines, &[]).unwrap_err().contains("namespaces shop, test"));
    }

    #[test]
    fn that_all_have_the_lines_is_no_trial_that_has_not_begun() {
        let all = [report(1, vec![row("a", 5, 10, 0, &["MALLOC_X=1"]), row("b", 5, 10, 0, &["MALLOC_X=1"])])];
        let error = find(&all, &target(), &TrialVariable::parse_all("MALLOC_X=1").unwrap(), &[]).unwrap_err();
        assert!(error.contains("Wanted the other nodes"), "{error}");
    }

    #[test]
    fn a_variable_that_no_allocator_reads_cannot_be_seen() {
        let reports = [report(1, vec![row("a", 5, 10, 0, &["MALLOC_X=1"])])];
        let found = find(&reports, &target(), &TrialVariable::parse_all("PYTHONMALLOC=malloc").unwrap(), &[]).unwrap();
        let of = |lines: &str| found.replicas[0].in_force(&TrialVariable::parse_all(lines).unwrap());
        assert_eq!((of("PYTHONMALLOC=malloc"), of("_RJEM_MALLOC_CONF=a:1")), (None, Some(false)));
        assert_eq!((of("MALLOC_X=1 PYTHONMALLOC=malloc"), of("MALLOC_X=1")), (None, Some(true)));
    }

    #[test]
    fn a_level_is_of_a_span_and_knows_the_processors_used() {
        let rows = (0..5).map(|at| report(at * 60_000, vec![row("a", 0, 10 << at, at * 30_000, &[])]));
        let found = find(&rows.collect::<Vec<_>>(), &target(), &TrialVariable::parse_all("MALLOC_X=1").unwrap(), &[])
            .unwrap()
            .replicas;
        let level = found[0].level((60_000, 180_000)).unwrap();
        assert_eq!((level.readings, level.cores, level.growth), (3, Some(0.5), 3.0));
        assert!((level.resident / f64::from(40 << 20) - 1.0).abs() < 1e-9);
        assert_eq!(found[0].level((1, 2)), None);
    }
}
