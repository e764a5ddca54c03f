//! The report as metrics. In: a report. Out: metrics, at most [`MOST_SERIES`] series for each container, and their page in Prometheus' text
//! format.
//!
//! A value that is not known has no series, or is counted as the part `unknown`. It is never shown as 0.

use std::fmt;
use std::sync::Arc;

use allocanary_rows::fleet::{ContainerState, NodeReport};
use allocanary_text::outside::harmless;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// The most series of one container.
pub const MOST_SERIES: usize = 23;
/// The most remedies of a container that have a series.
const REMEDIES: usize = 2;
/// The longest label value, in characters, if a process or the kubelet decides it.
pub const LONGEST: usize = 200;

/// A metric and its series.
pub struct MetricSeries {
    /// Its name without its unit.
    pub name: &'static str,
    /// Its help text.
    pub help: &'static str,
    /// The unit of its values.
    pub unit: Option<Unit>,
    /// Whether it only grows while the agent runs.
    pub is_counter: bool,
    /// Its series.
    pub series: Series,
}

/// Label names and their values.
pub type Labels = Vec<(&'static str, String)>;

/// The series of a metric: labels and value.
pub type Series = Vec<(Labels, f64)>;

/// Calls `tell` with each metric that has a series, one after the other. All at once would need as much memory as the report.
pub fn each(report: &NodeReport, tell: &mut dyn FnMut(MetricSeries) -> fmt::Result) -> fmt::Result {
    let mut told = |metric: MetricSeries| if metric.series.is_empty() { Ok(()) } else { tell(metric) };
    of_containers(&report.rows, &mut told)?;
    of_agent(report).into_iter().try_for_each(told)
}

/// The page of metrics.
pub fn page(report: Arc<NodeReport>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshot(report)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(of_prometheus(&text))
}

/// Rewrites OpenMetrics as Prometheus' own text, which all tools read. In it, the help of a counter has the name of its series.
fn of_prometheus(text: &str) -> String {
    let counters: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let line = |line: &str| {
        let rest = line.strip_prefix("# HELP ").or(line.strip_prefix("# TYPE "));
        match rest.and_then(|rest| rest.split_once(' ')) {
            Some((name, rest)) if counters.contains(&name) => format!("{} {name}_total {rest}\n", &line[..6]),
            _ if line.starts_with("# UNIT ") => String::new(),
            _ => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

#[derive(Debug)]
struct Snapshot(Arc<NodeReport>);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        each(&self.0, &mut |MetricSeries { name, help, unit, is_counter, series }| {
            let kind = if is_counter { MetricType::Counter } else { MetricType::Gauge };
            let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            for (labels, value) in series {
                let one = metric.encode_family(&labels)?;
                match is_counter {
                    true => ConstCounter::new(value).encode(one)?,
                    false => ConstGauge::new(value).encode(one)?,
                }
            }
            Ok(())
        })
    }
}

/// The labels of a container.
fn labels(row: &ContainerState) -> Labels {
    vec![
        ("namespace", plain(&row.namespace)),
        ("pod", plain(&row.pod)),
        ("container", plain(&row.container)),
        ("allocator", plain(&row.allocator)),
    ]
}

fn with(row: &ContainerState, more: &[(&'static str, &str)]) -> Labels {
    let mut all = labels(row);
    all.extend(more.iter().map(|(name, value)| (*name, plain(value))));
    all
}

/// A text from outside, made harmless and cut to `LONGEST` characters. The encoder escapes quotes.
pub fn plain(text: &str) -> String {
    harmless(text).chars().take(LONGEST).collect()
}

fn gauge(name: &'static str, help: &'static str, unit: Option<Unit>, series: Series) -> MetricSeries {
    MetricSeries { name, help, unit, is_counter: false, series }
}

fn counter(name: &'static str, help: &'static str, unit: Option<Unit>, series: Series) -> MetricSeries {
    MetricSeries { name, help, unit, is_counter: true, series }
}

fn of_containers(rows: &[ContainerState], tell: &mut dyn FnMut(MetricSeries) -> fmt::Result) -> fmt::Result {
    let bytes = || Some(Unit::Bytes);
    let each = |of: &dyn Fn(&ContainerState) -> Series| rows.iter().flat_map(of).collect::<Series>();
    let parts = each(&|row| {
        // A part of 0 bytes has no series, so that a shell has two of them and not ten. `unknown` always has one.
        let told = row.parts.iter().filter(|(part, bytes)| *bytes > 0 || part.key() == "unknown");
        told.map(|(part, bytes)| (with(row, &[("part", part.key())]), bytes as f64)).collect()
    });
    let help = "Resident bytes of the processes of a container by what they are: the parts add up to what is resident";
    tell(gauge("allocanary_resident", help, bytes(), parts))?;
    let info = each(&|row| {
        let settings = row.settings.join(" ");
        let more = [
            ("version", row.version.as_str()),
            ("settings", &settings),
            ("arenas", row.follows.key()),
            ("workload", &row.workload),
        ];
        vec![(with(row, &more), 1.0)]
    });
    let help =
        "The allocator of a container, its settings in force, and whether its arenas follow the host or the quota";
    tell(gauge("allocanary_allocator_info", help, None, info))?;
    let one = |row: &ContainerState, value: Option<f64>| -> Series {
        value.map(|value| (labels(row), value)).into_iter().collect()
    };
    let arenas = each(&|row| one(row, row.arenas.map(|count| count as f64)));
    let help = "Arenas in use, of the process of the container that has the most";
    tell(gauge("allocanary_allocator_arenas", help, None, arenas))?;
    let quota = each(&|row| one(row, row.quota_milli.map(|milli| milli as f64 / 1000.0)));
    let help = "Processors that a container may use by its quota";
    tell(gauge("allocanary_cpu_quota", help, Some(Unit::Other("cores".into())), quota))?;
    // Each of these is a metric of its own, because the address ranges that they count overlap.
    let counted = |of: fn(&ContainerState) -> Option<u64>| each(&|row| one(row, of(row).map(|bytes| bytes as f64)));
    let help = "Bytes of addresses that the allocator has from the kernel, by its own count of each minute";
    tell(gauge("allocanary_allocator_mapped", help, bytes(), counted(|row| row.mapped)))?;
    let help = "Bytes of blocks that have their own mapping, by the allocator's own count of each minute";
    tell(gauge("allocanary_allocator_mmapped", help, bytes(), counted(|row| row.mmapped)))?;
    let help = "Bytes of pages that have blocks, by the allocator's own count of each minute";
    tell(gauge("allocanary_allocator_active", help, bytes(), counted(|row| row.active)))?;
    let bounds = each(&|row| {
        let labels = |exact| if exact { "exact" } else { "at_most" };
        let one = |bound: &allocanary_rows::fleet::Bound| {
            (with(row, &[("remedy", &bound.remedy), ("bound", labels(bound.exact))]), bound.bytes as f64)
        };
        row.bounds.iter().take(REMEDIES).map(one).collect()
    });
    let help = "Resident bytes that a remedy would give back: exactly, or at most. Remedies overlap and do not add up";
    tell(gauge("allocanary_reclaimable", help, bytes(), bounds))?;
    let read = each(&|row| one(row, row.read.map(|read| read as f64 / 1000.0)));
    let help =
        "When the oldest reading of a container's larger processes was made; absent while one of them was never read";
    tell(gauge("allocanary_reading_timestamp", help, Some(Unit::Seconds), read))?;
    let charged = each(&|row| one(row, row.charged.map(|bytes| bytes as f64)));
    let help = "Anonymous bytes that the kernel charges to the control group";
    tell(gauge("allocanary_charged", help, bytes(), charged))
}

fn of_agent(report: &NodeReport) -> Vec<MetricSeries> {
    let own = &report.own;
    let of = |label: &'static str, all: &[(&str, f64)]| -> Series {
        all.iter().map(|(name, value)| (vec![(label, name.to_string())], *value)).collect()
    };
    let single = |value: f64| -> Series { vec![(Vec::new(), value)] };
    let seconds = || Some(Unit::Seconds);
    // The difference of these counters must not be negative.
    let rest = (own.cpu - own.cpu_counts - own.cpu_walks).max(0.0);
    let cpu = of("work", &[("counts", own.cpu_counts), ("walks", own.cpu_walks), ("rest", rest)]);
    let walks = of("result", &[("read", own.walks as f64), ("failed", own.failed as f64)]);
    let readable = own.processes - own.denied.min(own.processes);
    let mut processes = of("state", &[("readable", readable as f64), ("denied", own.denied as f64)]);
    // The number of hidden processes is not known.
    processes.retain(|(labels, _)| own.hides_by.is_none() || labels[0].1 != "denied");
    let hidden = own.hides_by.iter().map(|by| (vec![("by", plain(by))], 1.0)).collect();
    let time = |millis: Option<u64>| millis.map_or_else(Vec::new, |millis| single(millis as f64 / 1000.0));
    let sent = own.sent.as_ref().map_or_else(Vec::new, |sent| {
        of(
            "result",
            &[("accepted", sent.accepted as f64), ("rejected", sent.rejected as f64), ("failed", sent.failed as f64)],
        )
    });
    let counted = "When all processes were last counted: what this page tells is of that time";
    let named = "When the kubelet last told the names of pods; absent if it never did";
    vec![
        counter("allocanary_node_cpu", "CPU time of the agent and its child by kind of work", seconds(), cpu),
        counter("allocanary_node_walks", "Walks of heaps", None, walks),
        counter(
            "allocanary_node_sent_points",
            "Points sent to the receiver of OTLP, by what became of them",
            None,
            sent,
        ),
        gauge(
            "allocanary_node_resident",
            "Resident bytes of the agent and its child",
            Some(Unit::Bytes),
            single(own.resident as f64),
        ),
        gauge("allocanary_node_processes", "Processes that have memory", None, processes),
        gauge(
            "allocanary_node_hidden",
            "1 while the kernel hides the processes of other users from the agent, which then does not know how many there are",
            None,
            hidden,
        ),
        gauge(
            "allocanary_node_nameless_pods",
            "Pods on this node that have processes and no name",
            None,
            single(own.nameless as f64),
        ),
        gauge(
            "allocanary_node_count_timestamp",
            counted,
            seconds(),
            time(Some(report.taken).filter(|taken| *taken > 0)),
        ),
        gauge("allocanary_node_names_timestamp", named, seconds(), time(own.names)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_rows::fleet::{Bound, Follows, Own, PARTS, Parts};
    use std::collections::BTreeMap;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn a_label_is_short_and_steers_nothing() {
        assert_eq!(plain("a\n\u{1b}[2J\u{202e}b"), "a\u{fffd}\u{fffd}[2J\u{fffd}b");
        assert_eq!(plain(&"é".repeat(300)).chars().count(), LONGEST);
    }

    /// A container that has everything.
    fn full() -> ContainerState {
        let mut parts = Parts::default();
        PARTS.iter().for_each(|part| parts.add(*part, 4096 + *part as u64));
        let bound = |remedy: &str| Bound { remedy: remedy.into(), bytes: 7, exact: remedy == "give-back" };
        ContainerState {
            namespace: "shop".into(),
            pod: "web-1".into(),
            container: "web".into(),
            workload: "deployment/web".into(),
            allocator: "glibc+jemalloc".into(),
            version: "2.36".into(),
            settings: vec!["MALLOC_ARENA_MAX=2".into()],
            follows: Follows::Host,
            arenas: Some(8),
            quota_milli: Some(500),
            parts,
            charged: Some(1),
            mapped: Some(2),
            mmapped: Some(3),
            active: Some(4),
            read: Some(1_700_000_000_123),
            bounds: vec![bound("give-back"), bound("arena_max"), bound("idle")],
            ..ContainerState::default()
        }
    }

    fn text(rows: Vec<ContainerState>) -> String {
        let own = Own { cpu: 3.0, cpu_counts: 1.0, cpu_walks: 1.5, names: Some(5_000), ..Own::default() };
        page(Arc::new(NodeReport { rows, own, ..NodeReport::default() })).unwrap()
    }

    /// The series, with their values.
    fn series(text: &str) -> BTreeMap<String, f64> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| line.rsplit_once(' ').unwrap())
            .map(|(name, value)| (name.into(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn a_container_has_no_more_series_than_promised_and_its_parts_add_up() {
        let text = text(vec![full()]);
        let all = series(&text);
        let own = all.iter().filter(|(name, _)| name.contains("pod=\"web-1\""));
        assert_eq!(own.count(), MOST_SERIES, "{text}");
        let sum: f64 =
            all.iter().filter(|(name, _)| name.starts_with("allocanary_resident_bytes{")).map(|(_, bytes)| bytes).sum();
        assert_eq!(sum, full().resident() as f64);
        assert!(text.contains("part=\"unknown\"} 4108.0"), "{text}");
        assert!(text.contains("arenas=\"host\",workload=\"deployment/web\"} 1.0"), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn what_is_not_known_has_no_series() {
        let text =
            text(vec![ContainerState { allocator: "unknown".into(), pod: "p".into(), ..ContainerState::default() }]);
        let own: Vec<&str> = text.lines().filter(|line| line.contains("pod=\"p\"")).collect();
        assert_eq!(own.len(), 2, "{text}");
        assert!(own[0].contains("part=\"unknown\"} 0.0") && own[1].contains("allocanary_allocator_info"), "{text}");
    }

    #[test]
    fn an_agent_from_which_processes_are_hidden_does_not_say_that_none_is_denied() {
        let own = Own { processes: 2, hides_by: Some("hidepid=invisible".into()), ..Own::default() };
        let text = page(Arc::new(NodeReport { own, ..NodeReport::default() })).unwrap();
        assert!(text.contains("allocanary_node_hidden{by=\"hidepid=invisible\"} 1.0\n"), "{text}");
        assert!(text.contains("state=\"readable\"} 2.0\n") && !text.contains("denied"), "{text}");
    }

    #[test]
    fn a_label_with_quotes_and_newlines_is_one_label_and_promtool_takes_the_page() {
        let bad = ContainerState { container: "a\"} 1\nevil{x=\"\\".into(), settings: vec!["x".repeat(900)], ..full() };
        let text = text(vec![bad, full()]);
        assert!(text.contains("container=\"a\\\"} 1\u{fffd}evil{x=\\\"\\\\\""), "{text}");
        assert!(text.lines().all(|line| !line.starts_with("evil") && line.len() < 700), "{text}");
        let mut child = match Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
        {
            Ok(child) => child,
            Err(error) => {
                return allocanary_testing::skipped::skipped(format_args!("promtool is not installed ({error})"));
            }
        };
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let out = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && said.trim().is_empty(), "{said}");
    }
}
