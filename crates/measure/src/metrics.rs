//! The metrics: each is one number of a sample, with its unit and its better direction. In: a row. Out: the number.
//!
//! Derived numbers are computed from rows when they are needed, and never stored.

use std::borrow::Cow;

use allocanary_rows::Moment;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::perhaps;
use allocanary_rows::sample::HEAP_PEAK;
use allocanary_rows::sample::{Measured, Sample};
use allocanary_text::units::Unit;

/// One number of a sample.
#[derive(Clone)]
pub struct Metric {
    /// Its name for `--gate`.
    pub name: MetricName,
    /// Its unit.
    pub unit: Unit,
    /// The better direction.
    pub better: Better,
    /// Its meaning, in one line.
    pub about: &'static str,
    of: Source,
}

/// The name of a metric: one of ours, or the user's.
pub type MetricName = Cow<'static, str>;

/// Where the number comes from.
#[derive(Clone, Copy)]
enum Source {
    /// Computed from a row.
    Row(fn(&Sample, &Measured) -> Option<f64>),
    /// Read from the output of the user's program, under the metric's name.
    Named,
}

/// The better direction of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither direction is better.
    Neither,
}

impl Better {
    /// The direction as rows spell it.
    pub const fn text(self) -> &'static str {
        match self {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Neither => "neither",
        }
    }
}

impl Metric {
    /// The number in a sample; `None` if the sample does not have it, or has an error.
    pub fn of(&self, sample: &Sample) -> Option<f64> {
        let answer = sample.measured.as_ref().filter(|_| sample.error.is_none())?;
        match self.of {
            // A figure of the user's program overrides a computed one of the same name.
            _ if sample.cell.job.program().is_some() && answer.figures.contains_key(&*self.name) => {
                Some(answer.figures[&*self.name].value)
            }
            Source::Row(of) => of(sample, answer),
            Source::Named => None,
        }
    }
}

const fn metric(
    name: &'static str,
    unit: Unit,
    better: Better,
    about: &'static str,
    of: fn(&Sample, &Measured) -> Option<f64>,
) -> Metric {
    Metric { name: Cow::Borrowed(name), unit, better, about, of: Source::Row(of) }
}

/// A reading at a moment.
fn at(answer: &Measured, name: &str, moment: Moment) -> Option<f64> {
    answer.reading(name, moment).map(|value| value as f64)
}

/// The mark at which the work was over: idle, or the peak for a program that ended.
fn over(answer: &Measured) -> Moment {
    if answer.moments.contains(&Idle) { Idle } else { Peak }
}

/// The value of a counter that only grows, when the work was over.
fn until_idle(answer: &Measured, name: &str) -> Option<f64> {
    Some(at(answer, name, over(answer))? - at(answer, name, Moment::Start)?)
}

/// A highest value, read when the work was over.
fn most(answer: &Measured, name: &str) -> Option<f64> {
    at(answer, name, over(answer))
}

/// The most resident memory until idle. `None` for a replay: its process also has the operations and the tables of the replay.
fn peak_resident(answer: &Measured) -> Option<f64> {
    let replayed = answer.notes.contains_key(HEAP_PEAK);
    most(answer, "peak_resident_bytes").filter(|_| !replayed)
}

/// The most resident memory of a replay without files, until it is idle.
fn peak_anonymous(answer: &Measured) -> Option<f64> {
    answer.notes.get(HEAP_PEAK).map(|bytes| *bytes as f64)
}

/// A note of the workload, divided by its operations.
fn per_op(answer: &Measured, note: &str) -> Option<f64> {
    (answer.operations > 0).then_some(*answer.notes.get(note)? as f64 / answer.operations as f64)
}

/// The worst idle reading of a workload: the resident memory that it added, divided by its requested bytes at that time. The
/// memory at start is subtracted, because it would dominate requested bytes of a few MiB. `None` if there was only one idle
/// reading: `resident_per_requested` is then enough.
fn worst_idle(answer: &Measured) -> Option<f64> {
    let start = answer.reading("resident_bytes", Start)?;
    let rests = answer.each("resident_bytes", Idle);
    let ratios =
        rests.iter().filter(|(_, live)| *live > 0).map(|(rss, live)| rss.saturating_sub(start) as f64 / *live as f64);
    ratios.max_by(f64::total_cmp).filter(|_| rests.len() > 1)
}

use Better::{Higher, Lower, Neither};
use Moment::{Filled, Idle, Peak, Purged, Ready, Released, Start};
use Unit::{Bytes, Count, Microseconds, Nanoseconds, PerSecond, Ratio};

/// Every metric except those that users name, in the order of the reports.
#[rustfmt::skip] // one line a metric
pub const ALL: &[Metric] = &[
    metric("resident", Bytes, Lower, "resident memory when idle", |_, a| at(a, "resident_bytes", Idle)),
    metric("resident_per_requested", Ratio, Lower, "resident memory over requested bytes when idle", |_, a| {
        let requested = a.requested(Idle).filter(|bytes| *bytes > 0)?;
        Some(at(a, "resident_bytes", Idle)? / requested as f64)
    }),
    metric("worst_idle", Ratio, Lower, "growth of resident memory since start over requested bytes, at the worst of several rests", |_, a| worst_idle(a)),
    metric("peak_resident", Bytes, Lower, "most resident memory at any time until idle", |_, a| peak_resident(a)),
    metric("peak_anonymous", Bytes, Lower, "a replay: most resident memory without files until idle", |_, a| peak_anonymous(a)),
    metric("throughput", PerSecond, Higher, "operations in a second", |_, a| {
        (a.active_ns > 0 && a.operations > 0).then(|| a.operations as f64 / (a.active_ns as f64 / 1e9))
    }),
    metric("p50", Nanoseconds, Lower, "median duration of an operation", |_, a| Some(a.latency?.p50_ns as f64)),
    metric("p99", Nanoseconds, Lower, "99 % of operations take at most this", |_, a| Some(a.latency?.p99_ns as f64)),
    metric("p999", Nanoseconds, Lower, "99.9 % of operations take at most this", |_, a| Some(a.latency?.p999_ns as f64)),
    metric("max", Nanoseconds, Lower, "the longest timed operation", |_, a| Some(a.latency?.max_ns as f64)),
    metric("cpu", Microseconds, Lower, "processor time until idle", |_, a| {
        Some(until_idle(a, "user_us")? + until_idle(a, "system_us")?)
    }),
    metric("faults", Count, Lower, "minor page faults until idle", |_, a| until_idle(a, "minor_faults")),
    metric("requested", Bytes, Neither, "bytes that the workload has asked for and not freed when idle", |_, a| a.requested(Idle).map(|bytes| bytes as f64)),
    metric("resident_start", Bytes, Lower, "resident memory at start", |_, a| at(a, "resident_bytes", Start)),
    metric("resident_filled", Bytes, Lower, "resident memory with the live set built", |_, a| at(a, "resident_bytes", Filled)),
    metric("resident_peak", Bytes, Lower, "resident memory at the peak mark", |_, a| at(a, "resident_bytes", Peak)),
    metric("resident_released", Bytes, Lower, "resident memory with all freed", |_, a| at(a, "resident_bytes", Released)),
    metric("resident_purged", Bytes, Lower, "resident memory with all freed and purged", |_, a| at(a, "resident_bytes", Purged)),
    metric("anonymous", Bytes, Lower, "resident memory without files when idle", |_, a| at(a, "anonymous_bytes", Idle)),
    metric("pss", Bytes, Lower, "proportional resident memory when idle", |_, a| at(a, "pss_bytes", Idle)),
    metric("lazy_free", Bytes, Neither, "lazily freed and still resident when idle", |_, a| at(a, "lazy_free_bytes", Idle)),
    metric("anonymous_huge", Bytes, Neither, "in transparent huge pages when idle", |_, a| at(a, "anonymous_huge_bytes", Idle)),
    metric("vsz", Bytes, Neither, "address space when idle", |_, a| at(a, "vsz_bytes", Idle)),
    metric("allocator_allocated", Bytes, Neither, "allocator: in blocks when idle, thread caches included in some", |_, a| at(a, "allocator_allocated_bytes", Idle)),
    metric("allocator_active", Bytes, Neither, "allocator: in pages with blocks when idle", |_, a| at(a, "allocator_active_bytes", Idle)),
    metric("allocator_resident", Bytes, Neither, "allocator: in pages not given back when idle", |_, a| at(a, "allocator_resident_bytes", Idle)),
    metric("allocator_metadata", Bytes, Neither, "allocator: in its own structures when idle", |_, a| at(a, "allocator_metadata_bytes", Idle)),
    metric("allocator_arenas", Count, Neither, "allocator: arenas in use when idle", |_, a| at(a, "allocator_arenas", Idle)),
    metric("user", Microseconds, Lower, "processor time in the program until all is freed", |_, a| {
        Some(at(a, "user_us", Released)? - at(a, "user_us", Start)?)
    }),
    metric("time", Nanoseconds, Lower, "time in which the operations were done", |_, a| (a.active_ns > 0).then_some(a.active_ns as f64)),
    metric("per_op", Nanoseconds, Lower, "that time over the number of operations", |_, a| {
        (a.active_ns > 0 && a.operations > 0).then(|| a.active_ns as f64 / a.operations as f64)
    }),
    metric("allocs_per_op", Count, Lower, "allocations that the workload counted, for each operation", |_, a| per_op(a, "work_allocations")),
    metric("bytes_per_op", Bytes, Lower, "bytes that the workload asked for, for each operation", |_, a| per_op(a, "work_allocated_bytes")),
    metric("anonymous_peak", Bytes, Lower, "resident memory without files when the workload marks its most", |_, a| at(a, "anonymous_bytes", Peak)),
    metric("outside_worker", Microseconds, Lower, "a cell's wall time outside its worker", |s, a| {
        (a.worker_us > 0).then(|| s.wall_us.saturating_sub(a.worker_us) as f64)
    }),
    metric("wall", Nanoseconds, Lower, "a program's time from start to end, or that of a service's load", |s, a| {
        (s.cell.job.program().is_some() && a.active_ns > 0).then_some(a.active_ns as f64)
    }),
    metric("resident_ready", Bytes, Lower, "resident memory of a service that is ready", |_, a| at(a, "resident_bytes", Ready)),
    metric("threads", Count, Neither, "threads of a program at its most", |s, a| {
        s.cell.job.program().and_then(|_| at(a, "threads", Peak).or_else(|| most(a, "threads")))
    }),
    metric("processes", Count, Neither, "processes of a program at their most", |_, a| at(a, "processes", Peak).or_else(|| most(a, "processes"))),
    metric("switches", Count, Lower, "context switches of a program", |_, a| most(a, "context_switches")),
    metric("collections", Count, Lower, "cycles of a garbage collector until idle", |_, a| until_idle(a, "gc_cycles")),
];

/// The maximum number of metrics that users named. A report has a column for each, and each group of rows has room for the values of all.
/// With a hundred thousand names, a small file of rows would take all memory.
pub const MOST_NAMED: usize = 300;

/// The metrics of some rows: those that every row can have, and those that users named.
#[derive(Clone, Default)]
pub struct Metrics {
    named: Vec<Metric>,
}

impl Metrics {
    /// Adds a figure of the user's program. `unit` and `better` are spelled as in a row. Fails if the metric is known with another unit or
    /// direction, because two such figures cannot be compared. Fails also beyond [`MOST_NAMED`].
    pub fn add(&mut self, name: &str, unit: &str, better: &str) -> Result<()> {
        let units = [Bytes, Count, PerSecond, Nanoseconds, Microseconds, Ratio];
        let unit = units.into_iter().find(|known| known.name() == unit).unwrap_or(Count);
        let better = [Higher, Lower].into_iter().find(|known| known.text() == better).unwrap_or(Neither);
        if let Some(known) = self.find(name) {
            return match (known.unit, known.better) == (unit, better) {
                true => Ok(()),
                false => Err(Error::Input(format!(
                    "the figure `{name}` is in {}, {} is better, and that of earlier rows or of every program in {}, {} is \
                     better: report these rows apart, or measure again with another name",
                    unit.name(),
                    better.text(),
                    known.unit.name(),
                    known.better.text()
                ))),
            };
        }
        if self.named.len() == MOST_NAMED {
            return Err(Error::Input(format!(
                "the figure `{name}`: wanted at most {MOST_NAMED} names of figures in all rows together, found more: leave \
                 this row out, or read fewer files at once"
            )));
        }
        let name = Cow::Owned(name.to_string());
        self.named.push(Metric { name, unit, better, about: "read from the program's output", of: Source::Named });
        Ok(())
    }

    /// The metrics that users named, in the order in which they were found.
    pub fn named(&self) -> &[Metric] {
        &self.named
    }

    /// All metrics. Those that users named come last.
    pub fn all(&self) -> impl Iterator<Item = &Metric> + Clone {
        ALL.iter().chain(&self.named)
    }

    /// The metric of this name.
    pub fn find(&self, name: &str) -> Option<&Metric> {
        self.all().find(|metric| metric.name == name)
    }

    /// The metric of this name. The error has the nearest name.
    pub fn wanted(&self, name: &str) -> Result<&Metric> {
        let names = self.all().map(|metric| &*metric.name);
        self.find(name).ok_or_else(|| Error::Input(format!("no metric `{name}`{}", perhaps(name, names))))
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.named.iter().map(|metric| &metric.name)).finish()
    }
}

/// The built-in metric of this name, for a name in this code. Panics if there is none.
pub fn metric_of_all(name: &str) -> &'static Metric {
    ALL.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no metric `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_rows::job::Job;

    #[test]
    fn names_are_unique_and_every_reading_asked_for_exists() {
        let mut names: Vec<&str> = ALL.iter().map(|metric| &*metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        let known: Vec<&str> =
            allocanary_cell::meters::ALL.iter().flat_map(|meter| meter.columns).map(|reading| reading.name).collect();
        // The text of this test is excluded, because it names no reading.
        let table = include_str!("metrics.rs").split("#[cfg(test)]").next().unwrap();
        let asked = table.split('"').filter(|word| word.ends_with("_bytes") && !word.starts_with("work_"));
        let asked: Vec<&str> = asked.collect();
        assert!(asked.len() > 10 && asked.iter().all(|name| known.contains(name)), "{asked:?} of {known:?}");
    }

    #[test]
    fn a_figure_of_the_user_is_known_once_and_with_one_unit_and_direction() {
        let mut metrics = Metrics::default();
        metrics.add("late", "us", "lower").unwrap();
        metrics.add("late", "us", "lower").unwrap();
        metrics.add("peak_resident", "bytes", "lower").unwrap();
        assert_eq!(metrics.named().iter().map(|metric| &*metric.name).collect::<Vec<_>>(), ["late"]);
        let refused = [("late", "ns", "lower"), ("late", "us", "higher"), ("peak_resident", "count", "lower")];
        for (name, unit, better) in refused {
            let said = metrics.add(name, unit, better).unwrap_err().to_string();
            assert!(said.contains(&format!("the figure `{name}` is in {unit}, {better} is better, and")), "{said}");
        }
        assert!(metrics.wanted("lat").err().unwrap().to_string().contains("no metric `lat`; perhaps late"));
        // Another table does not know it.
        assert!(Metrics::default().find("late").is_none() && metrics.find("late").is_some());
        (1..MOST_NAMED).for_each(|at| metrics.add(&format!("m{at}"), "count", "neither").unwrap());
        let said = metrics.add("one_more", "count", "neither").unwrap_err().to_string();
        assert!(said.contains("wanted at most 300 names"), "{said}");
    }

    #[test]
    fn threads_and_processes_of_a_service_are_those_at_its_most() {
        let row = include_str!("../../../tests/golden/sample.jsonl").lines().next().unwrap();
        let mut row: Sample = serde_json::from_str(row).unwrap();
        row.cell.job = Job::of_program(Default::default());
        row.error = None;
        let mut of = |moments: &[(Moment, u64)]| {
            let values: Vec<Option<u64>> = moments.iter().map(|(_, value)| Some(*value)).collect();
            let readings = ["threads", "processes"].map(|name| (name.to_string(), values.clone()));
            let moments = moments.iter().map(|(moment, _)| *moment).collect();
            row.measured = Some(Measured { moments, readings: readings.into_iter().collect(), ..Measured::default() });
            ["threads", "processes"].map(|name| metric_of_all(name).of(&row))
        };
        assert_eq!(of(&[(Start, 1), (Ready, 4), (Peak, 32), (Idle, 4)]), [Some(32.0); 2]);
        assert_eq!(of(&[(Start, 1), (Idle, 4)]), [Some(4.0); 2], "without a mark of its most");
    }

    #[test]
    fn the_peak_of_a_replay_is_its_heap_and_has_another_name() {
        let row = include_str!("../../../tests/golden/sample.jsonl").lines().next().unwrap();
        let mut row: Sample = serde_json::from_str(row).unwrap();
        row.error = None;
        let readings = [("peak_resident_bytes".to_string(), vec![Some(900)])].into_iter().collect();
        row.measured = Some(Measured { moments: vec![Idle], readings, ..Measured::default() });
        let peaks = |row: &Sample| ["peak_resident", "peak_anonymous"].map(|name| metric_of_all(name).of(row));
        assert_eq!(peaks(&row), [Some(900.0), None]);
        row.measured.as_mut().unwrap().notes.insert(HEAP_PEAK.into(), 700);
        assert_eq!(peaks(&row), [None, Some(700.0)]);
    }

    #[test]
    fn the_worst_of_several_rests_counts_and_other_metrics_take_the_last() {
        let rests = |rests: &[(u64, u64)]| Measured {
            moments: std::iter::once(Start).chain(rests.iter().map(|_| Idle)).collect(),
            requested_bytes: std::iter::once(0).chain(rests.iter().map(|(_, live)| *live)).collect(),
            readings: std::iter::once((
                "resident_bytes".to_string(),
                std::iter::once(Some(10)).chain(rests.iter().map(|(rss, _)| Some(*rss))).collect(),
            ))
            .collect(),
            ..Measured::default()
        };
        let several = rests(&[(110, 100), (130, 50), (60, 50)]);
        assert_eq!(worst_idle(&several), Some(2.4));
        assert_eq!((several.reading("resident_bytes", Idle), several.requested(Idle)), (Some(60), Some(50)));
        assert_eq!(worst_idle(&rests(&[(110, 100)])), None, "one rest is what `resident_per_requested` is for");
    }
}
