//! The installed allocator and its process as Prometheus metrics. In: the allocator's counters, /proc and getrusage, at
//! each scrape. Out: gauges and counters in a registry of the [`prometheus_client`] crate.
//!
//! ```
//! use allocanary::metrics::AllocatorCollector;
//! use prometheus_client::{encoding::text::encode, registry::Registry};
//!
//! allocanary::install!();
//!
//! fn main() -> std::fmt::Result {
//!     let mut registry = Registry::default();
//!     registry.register_collector(Box::new(AllocatorCollector::new()));
//!
//!     let mut page = String::new(); // what the service answers at /metrics
//!     encode(&mut page, &registry)?;
//!     assert!(page.contains("allocanary_resident_bytes"));
//!     Ok(())
//! }
//! ```
//!
//! A scrape costs less than 200 microseconds; with many arenas this is true from the third scrape on
//! (`cargo bench --bench scrape --features prometheus`). jemalloc adds up the statistics of each arena, which takes 2.5 milliseconds with
//! 256 arenas. If this took too much processor time twice in a row, a scrape shows the previous sum and starts a thread that adds up the
//! next. A scrape can still wait for locks of other threads. `allocanary_allocator_statistics_age_seconds` is the age of the counters.
//! [`with_refresh`](AllocatorCollector::with_refresh) sets a fixed maximum age instead.
//!
//! `allocanary_resident_bytes` is the resident memory of the process, one series for each part. The sum of the parts is what the kernel
//! counts. The parts are `files`, `shared` (shared memory) and `unknown` (anonymous memory: the heap and the stacks).
//! [`with_parts`](AllocatorCollector::with_parts) adds the part `stacks`, which is then not in `unknown`. `allocanary node` shows the same
//! metric, and also divides the heap.
//!
//! `allocanary_allocator_KEY_bytes` are the allocator's own counters, in jemalloc's meaning: `allocated`, `active`, `resident`, `mapped`,
//! `metadata`, `retained`, `cached` (in free blocks of thread caches, a part of allocated), `dirty` and `muzzy` (in freed pages). They
//! overlap, so each is a metric. An allocator counts addresses: pages that were never touched are in its counters and not in
//! resident memory. glibc counts `allocated` (with thread caches) and `mapped`, so that it has no fragmentation ratio; mimalloc
//! counts `resident` and `retained`.
//!
//! Every metric has the label `allocator`. A value that the allocator does not report is absent, not 0: mimalloc does
//! not count its blocks, glibc does not know which of its pages are in memory. Without an
//! [`install!`](macro@crate::install) there are only the metrics of the process, without the label.

mod cached;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::allocator::Counters;
use crate::budget;
use crate::install::installed;
use crate::tuning;
use allocanary_sys::proc::ProcStatus;
use allocanary_sys::proc::kinds::Mappings;
use allocanary_sys::proc::smaps::MappingBytes;
use allocanary_sys::sys::usage;
use allocanary_text::parts::{Part, Parts};

use cached::CachedCounters;

/// A collector that reads allocator and process at each scrape. Between scrapes it costs nothing.
#[derive(Clone, Debug)]
pub struct AllocatorCollector {
    allocator: Option<&'static str>,
    /// The maximum number of arenas, which is fixed at the allocator's start. It is read only once, because reading it is expensive with
    /// glibc.
    most_arenas: Option<u32>,
    pss: bool,
    parts: bool,
    reading: CachedCounters,
}

/// A gauge of the allocator: name without unit, help, unit, and the counter that it shows.
type Row = (&'static str, &'static str, Option<Unit>, fn(&Counters) -> Option<u64>);

const ROWS: &[Row] = &[
    ("allocated", "Bytes in blocks that the program holds", Some(Unit::Bytes), |counters| counters.allocated),
    ("active", "Bytes in pages with at least one block in use", Some(Unit::Bytes), |counters| counters.active),
    ("resident", "Bytes in pages that were not given back to the system", Some(Unit::Bytes), |counters| {
        counters.resident
    }),
    ("mapped", "Bytes in mappings of the allocator, touched or not", Some(Unit::Bytes), |counters| counters.mapped),
    ("metadata", "Bytes in the allocator's own structures", Some(Unit::Bytes), |counters| counters.metadata),
    ("retained", "Bytes of addresses kept with no memory behind them", Some(Unit::Bytes), |counters| counters.retained),
    ("cached", "Bytes in free blocks that thread caches keep", Some(Unit::Bytes), |counters| counters.cached),
    ("dirty", "Bytes in freed pages that were not given back", Some(Unit::Bytes), |counters| counters.dirty),
    ("muzzy", "Bytes in freed pages that the kernel may take", Some(Unit::Bytes), |counters| counters.muzzy),
    ("arenas", "Arenas that have been used", None, |counters| counters.arenas),
];

impl AllocatorCollector {
    /// A collector for this process. With glibc it starts glibc's loader once as a child process, to read the limit of
    /// arenas.
    pub fn new() -> Self {
        let most_arenas = tuning::most_arenas().ok().flatten();
        let reading = CachedCounters::default();
        AllocatorCollector { allocator: tuning::allocator().ok(), most_arenas, pss: false, parts: false, reading }
    }

    /// Sets how old the allocator's counters may be before a scrape reads them again and waits for them. Zero: every
    /// scrape reads them.
    ///
    /// Default: every scrape reads them, until reading has taken over 100 microseconds of processor time twice in a
    /// row. After that a scrape starts a thread that reads them, does not wait for it, and shows the previous counters.
    /// The metrics of the process are always fresh.
    #[must_use]
    pub fn with_refresh(mut self, after: Duration) -> Self {
        self.reading.stand = Some(after);
        self
    }

    /// Sets whether each scrape reads the proportional set size too. Default: off, because the kernel walks every page
    /// table of the process for it, which takes milliseconds in a large process.
    #[must_use]
    pub fn with_pss(mut self, on: bool) -> Self {
        self.pss = on;
        self
    }

    /// Sets whether each scrape reads `allocanary_resident_bytes` mapping by mapping. The metric then has the part `stacks` too, and the
    /// data of the program and its libraries are in `files`. Default: off, because the kernel writes half a page of text for each mapping
    /// and walks its pages, which takes milliseconds in a large process.
    #[must_use]
    pub fn with_parts(mut self, on: bool) -> Self {
        self.parts = on;
        self
    }

    fn labels(&self) -> Vec<(&'static str, &'static str)> {
        self.allocator.map(|name| ("allocator", name)).into_iter().collect()
    }

    fn gauge(
        &self,
        encoder: &mut DescriptorEncoder,
        (name, help, unit): (&str, &str, Option<&Unit>),
        value: Option<impl Into<Number>>,
    ) -> fmt::Result {
        let Some(value) = value else { return Ok(()) };
        let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        let labels = self.labels();
        let labelled = metric.encode_family(&labels)?;
        match value.into() {
            Number::Whole(value) => ConstGauge::new(value).encode(labelled),
            Number::Ratio(value) => ConstGauge::new(value).encode(labelled),
        }
    }

    /// The resident memory of the process, with a series for each part that has bytes.
    fn resident(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let parts = if self.parts { by_mapping() } else { by_status() };
        let Some(parts) = parts else { return Ok(()) };
        let help = "Resident memory of the process by what it is";
        let mut metric =
            encoder.encode_descriptor("allocanary_resident", help, Some(&Unit::Bytes), MetricType::Gauge)?;
        for (part, bytes) in parts.iter().filter(|(_, bytes)| *bytes > 0) {
            let labels = [self.labels(), vec![("part", part.key())]].concat();
            ConstGauge::new(bytes).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn allocator_gauges(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let Some(allocator) = installed() else { return Ok(()) };
        let (age, counters) = self.reading.counters(|| allocator.counters());
        for (name, help, unit, value) in ROWS {
            let name = format!("allocanary_allocator_{name}");
            self.gauge(encoder, (&name, help, unit.as_ref()), value(&counters))?;
        }
        let limit = ("allocanary_allocator_arenas_limit", "Most arenas that threads are spread over", None);
        self.gauge(encoder, limit, self.most_arenas.map(u64::from))?;
        let help = "Seconds since the allocator's counters were read";
        self.gauge(
            encoder,
            ("allocanary_allocator_statistics_age", help, Some(&Unit::Seconds)),
            Some(age.as_secs_f64()),
        )?;
        let help = "Bytes in pages in use over bytes in blocks, 1 without fragmentation";
        self.gauge(encoder, ("allocanary_allocator_fragmentation_ratio", help, None), counters.fragmentation())
    }

    /// Writes nothing in a program without a budget.
    fn budget_metrics(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let Some(counts) = budget::counts() else { return Ok(()) };
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let limit = Some(read(&counts.limit)).filter(|limit| *limit > 0);
        let help = "The memory limit that the budget is for";
        self.gauge(encoder, ("allocanary_budget_limit", help, Some(&Unit::Bytes)), limit)?;
        let help = "How near to the limit after all was given back: 0 calm, 1 from 80 %, 2 from 90 %, 3 from 95 %";
        self.gauge(encoder, ("allocanary_budget_level", help, None), Some(counts.level() as u64))?;
        let rows = [
            ("looks", "Readings of limit and use", &counts.looks),
            ("unread", "Readings that failed", &counts.unread),
            ("level_changes", "Changes of the level", &counts.levels),
            ("purges", "Times that kept pages were given back", &counts.purges),
            ("threads", "Times that a thread gave back what it kept", &counts.threads),
        ];
        let labels = self.labels();
        for (name, help, count) in rows {
            let name = format!("allocanary_budget_{name}");
            let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
            ConstCounter::new(read(count)).encode(metric.encode_family(&labels)?)?;
        }
        let help = "Time that purges of the budget took";
        let seconds = read(&counts.nanos) as f64 / 1e9;
        let mut metric =
            encoder.encode_descriptor("allocanary_budget_purge", help, Some(&Unit::Seconds), MetricType::Counter)?;
        ConstCounter::new(seconds).encode(metric.encode_family(&labels)?)
    }

    fn process_metrics(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        self.resident(encoder)?;
        if self.pss {
            let help = "Resident memory of the process, shared pages divided among their users";
            let pss = MappingBytes::own().ok().and_then(|counts| counts.share);
            self.gauge(encoder, ("allocanary_pss", help, Some(&Unit::Bytes)), pss)?;
        }
        let usage = usage();
        let help = "Page faults of the process: major ones read a disk";
        let mut faults =
            encoder.encode_descriptor("allocanary_process_page_faults", help, None, MetricType::Counter)?;
        let count = |kind, value: u64, faults: &mut MetricEncoder| {
            let labels = [self.labels(), vec![("kind", kind)]].concat();
            ConstCounter::new(value).encode(faults.encode_family(&labels)?)
        };
        count("minor", usage.minor_faults, &mut faults)?;
        count("major", usage.major_faults, &mut faults)
    }
}

impl Default for AllocatorCollector {
    fn default() -> Self {
        AllocatorCollector::new()
    }
}

impl Collector for AllocatorCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.allocator_gauges(&mut encoder)?;
        self.budget_metrics(&mut encoder)?;
        self.process_metrics(&mut encoder)
    }
}

/// The parts of this process's resident memory that the kernel counts without a walk over the mappings.
fn by_status() -> Option<Parts> {
    let status = ProcStatus::own().ok()?;
    let parts = [(Part::Files, status.files?), (Part::Shared, status.shared?), (Part::Unknown, status.anonymous?)];
    Some(parts.into_iter().collect())
}

fn by_mapping() -> Option<Parts> {
    let found = Mappings::own().ok()?;
    let parts = [(Part::Files, found.program), (Part::Stacks, found.stacks), (Part::Shared, found.other)];
    Some(parts.into_iter().chain([(Part::Unknown, found.heap)]).collect())
}

/// The value of a gauge. The encoder writes whole numbers and fractions differently.
enum Number {
    Whole(u64),
    Ratio(f64),
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Number::Whole(value)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Number::Ratio(value)
    }
}
