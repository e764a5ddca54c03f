//! The reports of many nodes as one table. In: reports. Out: a row for the replicas of a workload on nodes of one kind.
//!
//! Replicas on nodes of different kinds have separate rows, each with its kind of node. How much memory an allocator keeps depends on the
//! processors and the page sizes of the machine.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::fleet::{Bound, ContainerState, Follows, Machine, NodeReport, Parts};

/// The replicas of a workload's container on nodes of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaSet {
    /// Its namespace.
    pub namespace: String,
    /// What the pods are replicas of: `deployment/web`; the pod's name if it is not a replica; empty for control groups of hosts.
    pub workload: String,
    /// The container.
    pub container: String,
    /// The allocator.
    pub allocator: String,
    /// The kind of node.
    pub host: Machine,
    /// The settings that are in force, if all replicas have the same.
    pub settings: Option<Vec<String>>,
    /// The number of replicas: pods, or hosts.
    pub replicas: u64,
    /// The number of these replicas that have a process whose heap was not read.
    pub unread: u64,
    /// The number of these replicas without a reading. `bound` does not include them.
    pub unbounded: u64,
    /// Replicas whose arenas follow the host and not the quota.
    pub by_host: u64,
    /// Resident bytes by part, of all replicas.
    #[serde(rename = "parts_bytes")]
    pub parts: Parts,
    /// The remedy that would give the most over all replicas, with its bytes.
    #[serde(rename = "reclaimable")]
    pub bound: Option<Bound>,
    /// When the oldest of its readings was made, in milliseconds since 1970.
    #[serde(rename = "read_timestamp_seconds", default, with = "allocanary_text::seconds::some_millis")]
    pub read: Option<u64>,
}

/// Many nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    /// The version of this value's format.
    pub schema: u32,
    /// The number of nodes.
    pub nodes: u64,
    /// The kinds of nodes, with the number of nodes of each kind.
    pub hosts: Vec<(Machine, u64)>,
    /// The workloads. Those with the most bytes that are not live come first.
    pub workloads: Vec<ReplicaSet>,
    /// What agents could not read, each with the name of the node.
    pub problems: Vec<String>,
}

type Key = (String, String, String, String, Machine);

impl Fleet {
    /// Adds reports up. If there are several reports of a node, the latest one counts.
    pub fn of(reports: Vec<NodeReport>) -> Fleet {
        let mut latest: BTreeMap<String, NodeReport> = BTreeMap::new();
        let mut machines: BTreeMap<String, BTreeSet<(Machine, String)>> = BTreeMap::new();
        for report in reports {
            machines.entry(report.node.clone()).or_default().insert((report.host.clone(), report.boot.clone()));
            let known = latest.get(&report.node).map(|known| known.taken);
            if known.is_none_or(|known| known <= report.taken) {
                latest.insert(report.node.clone(), report);
            }
        }
        let mut hosts: BTreeMap<Machine, u64> = BTreeMap::new();
        let mut all: BTreeMap<Key, Sum> = BTreeMap::new();
        let mut problems: Vec<String> = { machines.iter().filter(|(_, all)| all.len() > 1) }
            .map(|(node, all)| {
                format!(
                    "{node}: {} machines have this name, or one that was started again. Only the latest report is in the figures: give \
                     each agent a --name of its own",
                    all.len()
                )
            })
            .collect();
        for (node, report) in &latest {
            *hosts.entry(report.host.clone()).or_default() += 1;
            problems.extend(report.problems.iter().map(|problem| format!("{node}: {problem}")));
            for row in &report.rows {
                let name = if row.workload.is_empty() { &row.pod } else { &row.workload };
                let key = (
                    row.namespace.clone(),
                    name.clone(),
                    row.container.clone(),
                    row.allocator.clone(),
                    report.host.clone(),
                );
                all.entry(key).or_default().add(node, row);
            }
        }
        let mut workloads: Vec<ReplicaSet> = all.into_iter().map(|(key, sum)| sum.workload(key)).collect();
        workloads.sort_by_key(|one| (std::cmp::Reverse(one.parts.overhead()), std::cmp::Reverse(one.parts.sum())));
        Fleet {
            schema: crate::fleet::SCHEMA,
            nodes: latest.len() as u64,
            hosts: hosts.into_iter().collect(),
            workloads,
            problems,
        }
    }
}

impl ReplicaSet {
    /// Its name in a table.
    pub fn name(&self) -> String {
        let parts = [&self.namespace, &self.workload, &self.container];
        parts.into_iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join("/")
    }
}

/// The sum over replicas.
#[derive(Default)]
struct Sum {
    replicas: BTreeSet<(String, String)>,
    unread: BTreeSet<(String, String)>,
    unbounded: BTreeSet<(String, String)>,
    by_host: BTreeSet<(String, String)>,
    settings: BTreeSet<Vec<String>>,
    parts: Parts,
    bounds: BTreeMap<String, (u64, bool)>,
    read: Option<u64>,
    never: bool,
}

impl Sum {
    fn add(&mut self, node: &str, row: &ContainerState) {
        let replica = (node.to_string(), row.pod.clone());
        if row.unread > 0 {
            self.unread.insert(replica.clone());
        }
        if row.read.is_none() {
            self.unbounded.insert(replica.clone());
        }
        if row.follows == Follows::Host {
            self.by_host.insert(replica.clone());
        }
        self.replicas.insert(replica);
        self.settings.insert(row.settings.clone());
        self.parts += row.parts;
        for bound in &row.bounds {
            let sum = self.bounds.entry(bound.remedy.clone()).or_insert((0, true));
            *sum = (sum.0.saturating_add(bound.bytes), sum.1 && bound.exact);
        }
        self.never |= row.read.is_none();
        self.read = [self.read, row.read].into_iter().flatten().min();
    }

    fn workload(self, (namespace, workload, container, allocator, host): Key) -> ReplicaSet {
        let most = self.bounds.into_iter().max_by_key(|(_, (bytes, _))| *bytes);
        ReplicaSet {
            namespace,
            workload,
            container,
            allocator,
            host,
            settings: self.settings.iter().next().filter(|_| self.settings.len() == 1).cloned(),
            replicas: self.replicas.len() as u64,
            unread: self.unread.len() as u64,
            unbounded: self.unbounded.len() as u64,
            by_host: self.by_host.len() as u64,
            parts: self.parts,
            bound: most.map(|(remedy, (bytes, exact))| Bound { remedy, bytes, exact }),
            read: self.read.filter(|_| !self.never),
        }
    }
}

/// What a pod is a replica of, from the owner that it names and its label `pod-template-hash`. A ReplicaSet's name is its Deployment's
/// name followed by this hash. A Job's name may be its CronJob's name followed by the minute.
pub fn of_replica(kind: &str, name: &str, template: Option<&str>) -> String {
    let without = |rest: &str| name.strip_suffix(rest).and_then(|name| name.strip_suffix('-')).map(str::to_string);
    match (kind, template.and_then(without)) {
        ("ReplicaSet", Some(deployment)) => format!("deployment/{deployment}"),
        ("Job", _) => match name.rsplit_once('-') {
            Some((cron, minute)) if minute.len() == 8 && minute.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("cronjob/{cron}")
            }
            _ => format!("job/{name}"),
        },
        _ => format!("{}/{name}", kind.to_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Part;

    fn row(pod: &str, kept: u64) -> ContainerState {
        let mut parts = Parts::default();
        parts.add(Part::FreePages, kept);
        parts.add(Part::Live, 100);
        ContainerState {
            namespace: "shop".into(),
            pod: pod.into(),
            container: "web".into(),
            workload: "deployment/web".into(),
            allocator: "glibc".into(),
            parts,
            read: Some(5),
            bounds: vec![Bound { remedy: "give-back".into(), bytes: kept, exact: true }],
            ..ContainerState::default()
        }
    }

    fn report(node: &str, cores: u32, taken: u64, rows: Vec<ContainerState>) -> NodeReport {
        let host = Machine { cores, ..Machine::default() };
        NodeReport { schema: crate::fleet::SCHEMA, node: node.into(), taken, host, rows, ..NodeReport::default() }
    }

    #[test]
    fn replicas_on_alike_nodes_add_up_and_those_on_unlike_nodes_do_not() {
        let fleet = Fleet::of(vec![
            report("a", 8, 1, vec![row("web-1", 10), row("web-2", 20)]),
            report("b", 8, 1, vec![row("web-3", 30)]),
            report("c", 64, 1, vec![row("web-4", 400)]),
        ]);
        let told: Vec<_> = fleet
            .workloads
            .iter()
            .map(|one| (one.host.cores, one.replicas, one.parts.of(Part::FreePages), one.bound.as_ref().unwrap().bytes))
            .collect();
        assert_eq!(told, [(64, 1, 400, 400), (8, 3, 60, 60)]);
        assert_eq!((fleet.nodes, fleet.hosts.len()), (3, 2));
        assert_eq!(fleet.workloads[0].name(), "shop/deployment/web/web");
    }

    #[test]
    fn of_two_reports_of_a_node_the_later_counts() {
        let (old, new) = (report("a", 8, 1, vec![row("web-1", 10)]), report("a", 8, 2, vec![row("web-1", 70)]));
        for both in [vec![old.clone(), new.clone()], vec![new, old]] {
            let fleet = Fleet::of(both);
            assert_eq!((fleet.nodes, fleet.workloads.len(), fleet.workloads[0].parts.of(Part::FreePages)), (1, 1, 70));
        }
    }

    #[test]
    fn a_replica_that_was_never_read_leaves_the_age_unknown_and_is_counted() {
        let unread = ContainerState { read: None, unread: 1, ..row("web-2", 0) };
        let fleet = Fleet::of(vec![report("a", 8, 1, vec![row("web-1", 10), unread])]);
        let one = &fleet.workloads[0];
        assert_eq!((one.replicas, one.unread, one.unbounded, one.read), (2, 1, 1, None));
    }

    #[test]
    fn a_remedy_that_is_not_among_the_best_of_one_replica_counts_all_the_same() {
        let bound = |remedy: &str, bytes| Bound { remedy: remedy.into(), bytes, exact: false };
        let with = |pod: &str, best: &str| ContainerState {
            bounds: vec![bound(best, 100), bound("b", 90), bound("give-back", 80)],
            ..row(pod, 10)
        };
        let fleet =
            Fleet::of(vec![report("a", 8, 1, vec![with("web-1", "x"), with("web-2", "y"), with("web-3", "z")])]);
        assert_eq!(fleet.workloads[0].bound, Some(bound("b", 270)));
    }

    #[test]
    fn two_machines_with_one_name_are_told_and_no_figure_of_a_file_is_too_large() {
        let on = |boot: &str, taken| NodeReport {
            boot: boot.into(),
            ..report("a", 8, taken, vec![row("web-1", u64::MAX - 50)])
        };
        let fleet = Fleet::of(vec![on("one", 1), on("two", 2)]);
        assert!(fleet.problems[0].starts_with("a: 2 machines have this name"), "{:?}", fleet.problems);
        assert_eq!(fleet.nodes, 1);
        assert!(Fleet::of(vec![on("one", 1), on("one", 2)]).problems.is_empty());
        let mut row = row("web-1", u64::MAX);
        row.parts.add(Part::Fragmentation, u64::MAX);
        let fleet = Fleet::of(vec![report("a", 8, 1, vec![row.clone(), row])]);
        assert_eq!(fleet.workloads[0].parts.overhead(), u64::MAX);
    }

    #[test]
    fn the_settings_are_told_only_if_all_replicas_have_the_same() {
        let with = |value: &str| ContainerState { settings: vec![value.into()], ..row("web-1", 1) };
        let same = Fleet::of(vec![report("a", 8, 1, vec![with("x")]), report("b", 8, 1, vec![with("x")])]);
        assert_eq!(same.workloads[0].settings, Some(vec!["x".to_string()]));
        let other = Fleet::of(vec![report("a", 8, 1, vec![with("x")]), report("b", 8, 1, vec![with("y")])]);
        assert_eq!(other.workloads[0].settings, None);
    }

    #[test]
    fn what_a_pod_is_a_replica_of() {
        assert_eq!(of_replica("ReplicaSet", "web-5d8f9c7b6", Some("5d8f9c7b6")), "deployment/web");
        assert_eq!(of_replica("ReplicaSet", "web", None), "replicaset/web");
        assert_eq!(of_replica("ReplicaSet", "web-1", Some("2")), "replicaset/web-1");
        assert_eq!(of_replica("Job", "report-28401120", None), "cronjob/report");
        assert_eq!(of_replica("Job", "report-now", None), "job/report-now");
        assert_eq!(of_replica("StatefulSet", "db", None), "statefulset/db");
    }
}
