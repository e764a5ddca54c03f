//! The report of a node's agent: a row for each container, and what the agent itself costs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fleet::Parts;

/// The version of the format of reports. A reader refuses later versions.
pub const SCHEMA: u32 = 1;

/// The report of one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// The version of its format: [`SCHEMA`].
    pub schema: u32,
    /// The node's name.
    pub node: String,
    /// When the processes were last counted, in milliseconds since 1970.
    #[serde(rename = "taken_timestamp_seconds", with = "allocanary_text::seconds::millis")]
    pub taken: u64,
    /// The machine's boot ID, which changes at each boot; empty if it is not known.
    pub boot: String,
    /// The machine.
    pub host: Machine,
    /// The containers, and the control groups that are not containers.
    pub rows: Vec<ContainerState>,
    /// What the agent costs.
    pub own: Own,
    /// What could not be read, a sentence each.
    pub problems: Vec<String>,
}

/// The properties of a machine that decide how much memory an allocator keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Machine {
    /// Processors that are online.
    pub cores: u32,
    /// The kernel's setting of transparent huge pages.
    pub thp: String,
    /// The size of a page in bytes.
    #[serde(rename = "page_bytes")]
    pub page: u64,
    /// The machine's architecture: `x86_64`.
    pub arch: String,
}

/// What the number of arenas follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Follows {
    /// The processors of the host, although the container may use fewer.
    Host,
    /// The processors that the container may use, or a setting.
    Quota,
    /// Not known, or the allocator has no arenas.
    #[default]
    Unknown,
}

impl Follows {
    /// Its name as a label.
    pub fn key(self) -> &'static str {
        match self {
            Follows::Host => "host",
            Follows::Quota => "quota",
            Follows::Unknown => "unknown",
        }
    }
}

/// The most that a remedy can give.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The remedy: `give-back`, `arena_max`.
    pub remedy: String,
    /// Bytes. The remedies of a container overlap, so their bytes do not add up.
    #[serde(rename = "reclaimable_bytes")]
    pub bytes: u64,
    /// Whether the bytes were counted page by page. If not, they are an upper bound.
    #[serde(rename = "bound", with = "allocanary_text::bound::exact")]
    pub exact: bool,
}

/// A container, or a control group of the host that is not a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerState {
    /// Its namespace; empty if it belongs to no pod, or if the namespace is not known.
    pub namespace: String,
    /// Its pod's name; the pod's UID while the name is not known; empty if it belongs to no pod.
    pub pod: String,
    /// Its name in the pod; the beginning of its ID while the name is not known; for another control group, the group's name.
    pub container: String,
    /// What the pod is a replica of: `deployment/web`; empty if it is not known.
    pub workload: String,
    /// Its image.
    pub image: String,
    /// The allocators of its processes, joined by `+`; those that have less than a twentieth of its anonymous memory are left out.
    /// `unknown` if none is known yet.
    pub allocator: String,
    /// The version of the allocator.
    pub version: String,
    /// The settings that are in force: `MALLOC_ARENA_MAX=2`.
    pub settings: Vec<String>,
    /// What its number of arenas follows.
    pub follows: Follows,
    /// Arenas in use, in the process that has the most of them.
    pub arenas: Option<u64>,
    /// The processors that it may use, in thousandths; `None` without a quota.
    #[serde(rename = "quota_cores", default, with = "allocanary_text::seconds::some_millis")]
    pub quota_milli: Option<u64>,
    /// Its processes.
    pub processes: u64,
    /// The number of its processes whose heap has not been read.
    pub unread: u64,
    /// Resident bytes by part, summed over its processes: memory that two processes share counts twice.
    #[serde(rename = "parts_bytes")]
    pub parts: Parts,
    /// Anonymous bytes that the kernel charges to its control group.
    #[serde(rename = "charged_bytes")]
    pub charged: Option<u64>,
    /// Bytes of addresses that its allocators have from the kernel, resident or not, by their own count. This field and the next two are
    /// `None` if an allocator did not answer at the last count.
    #[serde(rename = "allocator_mapped_bytes")]
    pub mapped: Option<u64>,
    /// Bytes of blocks that have their own pages, by the allocators' own count.
    #[serde(rename = "allocator_mmapped_bytes")]
    pub mmapped: Option<u64>,
    /// Bytes of pages in use, by the allocators' own count.
    #[serde(rename = "allocator_active_bytes")]
    pub active: Option<u64>,
    /// When the oldest of its readings was made, in milliseconds since 1970. Only processes with at least a twentieth of its anonymous
    /// memory count. `None` if one of these was never read.
    #[serde(rename = "read_timestamp_seconds", default, with = "allocanary_text::seconds::some_millis")]
    pub read: Option<u64>,
    /// The most that each remedy would give back. Those with the most bytes come first.
    #[serde(rename = "reclaimable")]
    pub bounds: Vec<Bound>,
    /// When the oldest of its processes was started, in milliseconds since 1970; `None` if the agent does not report it.
    #[serde(rename = "started_timestamp_seconds", default, with = "allocanary_text::seconds::some_millis")]
    pub started: Option<u64>,
    /// CPU time that its processes and their ended children have used, in milliseconds; `None` if the agent does not report it.
    #[serde(rename = "cpu_seconds", default, with = "allocanary_text::seconds::some_millis")]
    pub cpu: Option<u64>,
    /// The process with the most memory, by its ID on the node; `None` if the agent does not report it.
    pub pid: Option<u32>,
    /// Whether one of its processes had a profile when it was last read. `None` if the agent does not serve profiles, or has not looked
    /// yet.
    pub profile: Option<bool>,
    /// The processes that have a profile, by their IDs on the node.
    pub profiled: Vec<u32>,
}

/// The result of the points that an agent has sent by OTLP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtlpDelivery {
    /// Points that the receiver accepted.
    pub accepted: u64,
    /// Points that the receiver refused, although it accepted others of the same request.
    pub rejected: u64,
    /// Points that did not reach the receiver, or whose request it refused as a whole.
    pub failed: u64,
    /// What the receiver said last about a refusal, or why it was not reached. Empty if neither happened in the last report.
    pub problem: String,
}

/// What an agent costs and what it could not read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// CPU time in seconds that the agent and its child have used since the start.
    #[serde(rename = "cpu_seconds")]
    pub cpu: f64,
    /// The part of this CPU time that was used for counting all processes, once a minute.
    #[serde(rename = "cpu_counts_seconds")]
    pub cpu_counts: f64,
    /// The part of this CPU time that was used for walking heaps.
    #[serde(rename = "cpu_walks_seconds")]
    pub cpu_walks: f64,
    /// Seconds since its start.
    #[serde(rename = "up_seconds")]
    pub up: f64,
    /// Resident bytes of the agent and its child.
    #[serde(rename = "resident_bytes")]
    pub resident: u64,
    /// What was sent by OTLP; `None` if nothing is to be sent.
    pub sent: Option<OtlpDelivery>,
    /// Processes that it sees.
    pub processes: u64,
    /// The number of these processes that it may not read.
    pub denied: u64,
    /// The option by which the kernel hides processes of other users from the agent, such as `hidepid=invisible`. Then the agent does not
    /// know how many there are. `None` if none is hidden.
    #[serde(default)]
    pub hides_by: Option<String>,
    /// Walks that succeeded.
    pub walks: u64,
    /// Walks that failed.
    pub failed: u64,
    /// When the agent last got the names of pods, in milliseconds since 1970; `None` if it never did.
    #[serde(rename = "names_timestamp_seconds", default, with = "allocanary_text::seconds::some_millis")]
    pub names: Option<u64>,
    /// The number of pods on this node whose names are not known.
    pub nameless: u64,
}

impl ContainerState {
    /// Resident bytes.
    pub fn resident(&self) -> u64 {
        self.parts.sum()
    }
}

/// A report with a count older than this has a warning.
const OLD: Duration = Duration::from_secs(300);

impl NodeReport {
    /// A sentence about the age of its count at `now`, in milliseconds since 1970, if the count is old.
    pub fn old(&self, now: u64) -> Option<String> {
        let age = Duration::from_millis(now.saturating_sub(self.taken));
        let node = &self.node;
        (age > OLD).then(|| format!("{node}: its processes were last counted {} minutes ago", age.as_secs() / 60))
    }

    /// Parses a report. The error says what was wanted.
    pub fn parse(text: &str) -> Result<NodeReport, String> {
        let report: NodeReport = serde_json::from_str(text)
            .map_err(|error| format!("wanted the report of a node, as /report.json: {error}"))?;
        match report.schema {
            SCHEMA => Ok(report),
            other => {
                Err(format!("wanted a report of schema {SCHEMA}, found {other}: use the `allocanary` of that release"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_back_and_a_later_schema_is_refused() {
        let report = NodeReport {
            schema: SCHEMA,
            node: "n1".into(),
            rows: vec![ContainerState { pod: "a\"\n".into(), quota_milli: Some(500), ..ContainerState::default() }],
            ..NodeReport::default()
        };
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(NodeReport::parse(&text).unwrap(), report);
        let later = text.replacen("\"schema\":1", "\"schema\":2", 1);
        assert!(NodeReport::parse(&later).unwrap_err().contains("found 2"));
        assert!(NodeReport::parse("{}").unwrap_err().contains("/report.json"));
    }

    #[test]
    fn a_count_that_is_old_is_told() {
        let report = NodeReport { node: "n1".into(), taken: 1_000_000, ..NodeReport::default() };
        assert_eq!(report.old(1_000_000 + 300_000), None);
        assert_eq!(report.old(0), None, "a clock of another machine");
        let told = report.old(1_000_000 + 12 * 60_000).unwrap();
        assert_eq!(told, "n1: its processes were last counted 12 minutes ago");
    }
}
