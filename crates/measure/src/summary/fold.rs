//! Folds rows into groups and keeps only their numbers, so that a hundred thousand rows need little memory.
//! In: samples, one at a time. Out: the values of each metric, for each cell over all its repeats.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::anatomy::Anatomy;
use super::conditions::Conditions;
use super::digest::digest;
use super::noise::Noise;
use super::retries::Retries;
use crate::metrics::{ALL, MetricName, Metrics, metric_of_all};
use allocanary_rows::Candidate;
use allocanary_rows::Cell;
use allocanary_rows::error::Result;
use allocanary_rows::program::{CORES_SEEN, OverTime};
use allocanary_rows::provenance::Provenance;
use allocanary_rows::sample::Sample;
use allocanary_rows::version::Version;

/// What all repeats of a cell have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellKey {
    /// The study, if rows name it.
    pub study: Option<String>,
    /// The name of the job.
    pub workload: String,
    /// The candidate.
    pub candidate: Candidate,
    /// Worker threads; `None` for a program, which decides it.
    pub threads: Option<u32>,
    /// Emulated cores.
    pub cores: Option<u32>,
    /// The kind of host. Different kinds are never pooled.
    pub host: Arc<Conditions>,
    /// The version that ran. It is empty if no row of the group says it.
    pub version: Version,
}

impl CellKey {
    /// `jemalloc, server, 4 threads`.
    pub fn title(&self) -> String {
        let cores = self.cores.map_or(String::new(), |cores| format!(", {cores} cores"));
        let threads = self.threads.map_or(String::new(), |threads| format!(", {threads} threads"));
        format!("{}, {}{threads}{cores}", self.candidate, self.workload)
    }
}

/// The repeats of a cell.
#[derive(Debug, Default)]
pub struct CellRepeats {
    /// The values of each metric that a repeat has.
    pub values: BTreeMap<MetricName, Vec<f64>>,
    /// The resident memory over time of some repeats of a program.
    pub over_time: Vec<OverTime>,
    /// The variables that a program got.
    pub environment: BTreeMap<String, String>,
    /// When the first and the last successful repeat started, in milliseconds since 1970.
    pub started_ms: Option<(u64, u64)>,
    /// Repeats that failed.
    pub failed: usize,
    /// The builds of the command that measured, each with the number of its failed repeats.
    pub measured_by: BTreeMap<String, usize>,
    /// Successful repeats whose values are not here: those of a search's races.
    pub raced: usize,
    /// The lowest place of its cells in their studies.
    pub place: u32,
    /// Where the memory of each process was.
    pub anatomies: Vec<Anatomy>,
}

impl CellRepeats {
    /// The values of the metric of that name.
    pub fn values_of(&self, metric: &str) -> &[f64] {
        self.values.get(metric).map_or(&[], Vec::as_slice)
    }

    /// The number of its samples: that of the metric with the most.
    pub fn samples(&self) -> usize {
        self.values.values().map(Vec::len).max().unwrap_or(0)
    }

    /// All repeats, including those that failed.
    pub fn runs(&self) -> usize {
        self.failed + self.raced + self.samples()
    }

    /// Whether a larger share of its repeats failed.
    pub fn fails_more_than(&self, other: &CellRepeats) -> bool {
        fails_more((self.failed, self.runs()), (other.failed, other.runs()))
    }

    /// Whether every repeat of one group started before every repeat of the other, so that they did not alternate.
    pub fn is_apart_from(&self, other: &CellRepeats) -> bool {
        let spans = self.started_ms.zip(other.started_ms);
        spans.is_some_and(|(own, other)| own.1 < other.0 || other.1 < own.0)
    }
}

/// Whether the first of two pairs (failed, all) has the larger share of failures.
pub fn fails_more(one: (usize, usize), other: (usize, usize)) -> bool {
    one.0 * other.1.max(1) > other.0 * one.1.max(1)
}

/// The version that a build of the command measured. It is the only one of all, or the only one of that build.
fn version_of<'a>(versions: &'a Versions, build: &str) -> Option<&'a Version> {
    let of_build = || versions.iter().filter(|(_, builds)| builds.contains(build)).map(|(version, _)| version);
    match (versions.len(), of_build().count()) {
        (1, _) => versions.keys().next(),
        (_, 1) => of_build().next(),
        _ => None,
    }
}

/// The cores that a cell's process saw: the requested number, or another one that it reported.
fn cores(sample: &Sample) -> Option<u32> {
    let seen = sample.measured.as_ref().and_then(|answer| answer.notes.get(CORES_SEEN));
    sample.cell.cores.map(|cores| seen.map_or(cores, |seen| *seen as u32))
}

/// The worker threads of a cell. `None` for a program or a replay, which decides this itself.
fn threads(cell: &Cell) -> Option<u32> {
    cell.job.threads().filter(|_| !cell.job.is_replay())
}

/// The most runs of a group whose memory over time is kept.
const MOST_OVER_TIME: usize = 16;

/// All rows so far.
#[derive(Debug, Default)]
pub struct Fold {
    /// The groups, by the fields that their rows have in common.
    pub groups: BTreeMap<CellKey, CellRepeats>,
    /// The metrics that the rows can have.
    pub metrics: Metrics,
    /// Number of rows without duplicates.
    pub rows: usize,
    /// Number of exact duplicates.
    pub repeated: usize,
    /// The kinds of hosts.
    pub hosts: BTreeSet<Arc<Conditions>>,
    /// How busy the hosts were.
    pub noise: Noise,
    /// What failed, the reason, and how often.
    pub failures: BTreeMap<(String, String), usize>,
    /// Settings that were read, but whose effect could not be shown: the candidate, the setting and the reason.
    pub unproven: BTreeSet<(Candidate, String, String)>,
    /// Runs of a program whose highest resident memory is not known.
    pub peaks_unknown: usize,
    /// Every build and host, once.
    pub provenance: Vec<Provenance>,
    /// When the first and the last cell started, in milliseconds since 1970.
    pub started_ms: Option<(u64, u64)>,
    /// The commands that measured, each once.
    pub commands: BTreeSet<String>,
    /// The limits of a study's programs as they were typed. Each list is there once.
    pub limits: BTreeMap<Option<String>, BTreeSet<Vec<String>>>,
    seen: HashSet<u64>,
    /// Failures that were counted, until the row of their retry is read.
    retries: Retries<Failed>,
    progress: BTreeMap<(Option<String>, String), Completion>,
}

/// Where a failure was counted.
#[derive(Debug)]
struct Failed {
    key: CellKey,
    build: String,
    /// What failed, and the reason.
    failure: (String, String),
}

/// The versions of an allocator, each with the builds of the command that measured it.
type Versions = BTreeMap<Version, BTreeSet<String>>;

/// The progress of a study that began on a host.
#[derive(Debug, Default)]
struct Completion {
    planned: usize,
    cells: HashSet<u64>,
}

/// Extends a span of time to include a start. 0 means an unknown start.
fn widen(span: &mut Option<(u64, u64)>, started_ms: u64) {
    if started_ms > 0 {
        let (first, last) = span.unwrap_or((u64::MAX, 0));
        *span = Some((first.min(started_ms), last.max(started_ms)));
    }
}

impl Fold {
    /// An empty fold. The figures of its rows must agree with these metrics.
    pub fn knowing(metrics: &Metrics) -> Fold {
        Fold { metrics: metrics.clone(), ..Fold::default() }
    }

    /// Adds a row, once. A row that is equal in every figure and every time stamp is a duplicate: its file was named twice, or was joined
    /// from others. A failure whose cell was tried again does not count. Fails if a figure of the user's program has another unit or
    /// direction than its metric, or if there are too many names.
    pub fn add(&mut self, sample: &Sample) -> Result<()> {
        if !self.seen.insert(digest(sample)) {
            self.repeated += 1;
            return Ok(());
        }
        if let Some(failed) = self.retries.replaced_by(sample) {
            self.take_back(&failed);
        }
        if self.retries.is_replaced(sample) {
            return Ok(());
        }
        self.rows += 1;
        self.noise.add(sample);
        widen(&mut self.started_ms, sample.started_ms);
        if let Some(command) = sample.command.as_ref().filter(|command| !self.commands.contains(*command)) {
            self.commands.insert(command.clone());
        }
        if let Some(program) = sample.cell.job.program().filter(|program| !program.tolerance.is_empty()) {
            self.limits.entry(sample.cell.study.clone()).or_default().insert(program.tolerance.clone());
        }
        let progress = (sample.cell.study.clone(), sample.origin().to_string());
        let progress = self.progress.entry(progress).or_default();
        progress.planned = progress.planned.max(sample.planned.unwrap_or(0) as usize);
        // The place is left out, as in the identity that a resumed study uses: places shift when a candidate is added.
        progress.cells.insert(digest(&Cell { place: 0, ..sample.cell.clone() }));
        if !self.provenance.contains(&sample.provenance) {
            self.provenance.push(sample.provenance.clone());
        }
        let cell = &sample.cell;
        let key = CellKey {
            study: cell.study.clone(),
            workload: cell.job.name(),
            candidate: cell.candidate.clone(),
            threads: threads(cell),
            cores: cores(sample),
            host: self.host(sample),
            version: Version::of(sample),
        };
        let group = self
            .groups
            .entry(key.clone())
            .or_insert_with(|| CellRepeats { place: cell.place, ..CellRepeats::default() });
        group.place = group.place.min(cell.place);
        let build = &sample.provenance.build.id;
        *group.measured_by.entry(build.clone()).or_default() += usize::from(sample.error.is_some());
        if let Some(answer) = &sample.measured {
            let unproven = answer.unproven.iter();
            self.unproven.extend(unproven.map(|(name, why)| (key.candidate.clone(), name.clone(), why.clone())));
        }
        match &sample.error {
            Some(failure) => {
                group.failed += 1;
                let what = format!("{}, {}", cell.candidate, cell.job.title());
                let failure = (what, failure.text.clone());
                *self.failures.entry(failure.clone()).or_default() += 1;
                self.retries.keep(sample, Failed { key, build: build.clone(), failure });
            }
            None => {
                widen(&mut group.started_ms, sample.started_ms);
                let known = ALL.iter().filter_map(|metric| Some((&metric.name, metric.of(sample)?)));
                known.for_each(|(name, value)| group.values.entry(name.clone()).or_default().push(value));
                let answer = sample.measured.as_ref();
                group.anatomies.extend(answer.and_then(|answer| Anatomy::of(answer, cell.job.threads())));
                let Some(answer) = answer.filter(|_| cell.job.program().is_some()) else { return Ok(()) };
                self.peaks_unknown += usize::from(metric_of_all("peak_resident").of(sample).is_none());
                for (name, figure) in &answer.figures {
                    self.metrics.add(name, &figure.unit, &figure.better)?;
                    if ALL.iter().all(|metric| metric.name != *name) {
                        group.values.entry(name.clone().into()).or_default().push(figure.value);
                    }
                }
                group.environment.clone_from(&answer.environment);
                if group.over_time.len() < MOST_OVER_TIME {
                    group.over_time.extend(answer.over_time.clone());
                }
            }
        }
        Ok(())
    }

    fn take_back(&mut self, Failed { key, build, failure }: &Failed) {
        self.rows -= 1;
        if let Some(group) = self.groups.get_mut(key) {
            group.failed -= 1;
            group.measured_by.entry(build.clone()).and_modify(|failed| *failed -= 1);
            // A group that never ran has no version, and would stay as a candidate without a row.
            let has_run = group.started_ms.is_some() || !group.values.is_empty();
            if group.failed == 0 && !has_run {
                self.groups.remove(key);
            }
        }
        let Some(count) = self.failures.get_mut(failure) else { return };
        *count -= 1;
        if *count == 0 {
            self.failures.remove(failure);
        }
    }

    /// The row's kind of host, stored once.
    fn host(&mut self, sample: &Sample) -> Arc<Conditions> {
        let host = Conditions::of(&sample.provenance.host);
        if let Some(known) = self.hosts.get(&host) {
            return known.clone();
        }
        let host = Arc::new(host);
        self.hosts.insert(host.clone());
        host
    }

    /// Moves cells that failed before they reported their allocator's version. They join the group of the same candidate, with the same
    /// builds of the user's files, that has a version. If there are groups with several versions, they join the one that the same build of
    /// the command measured. If that build measured none or several, they stay separate. Call this when all rows are added.
    pub fn settle(&mut self) {
        let mut of_cell: BTreeMap<CellKey, Versions> = BTreeMap::new();
        let mut of_candidate: BTreeMap<(Candidate, Arc<Conditions>, Version), Versions> = BTreeMap::new();
        let mut unknown = Vec::new();
        for (key, group) in &self.groups {
            if group.values.is_empty() {
                unknown.push(key.clone());
                continue;
            }
            // A failed row has the builds of a program's files, but no version of the allocator.
            let failed = key.version.of_failed();
            let candidate = (key.candidate.clone(), key.host.clone(), failed.clone());
            let cell = CellKey { version: failed, ..key.clone() };
            for versions in [of_cell.entry(cell).or_default(), of_candidate.entry(candidate).or_default()] {
                versions.entry(key.version.clone()).or_default().extend(group.measured_by.keys().cloned());
            }
        }
        for key in unknown {
            let candidate = (key.candidate.clone(), key.host.clone(), key.version.clone());
            let Some(versions) = of_cell.get(&key).or_else(|| of_candidate.get(&candidate)) else { continue };
            let measured_by = self.groups[&key].measured_by.clone();
            for (build, failed) in measured_by {
                if let Some(version) = version_of(versions, &build).filter(|version| **version != key.version) {
                    self.charge(&key, version, &build, failed);
                }
            }
        }
    }

    /// Moves the failures of one build of the command into the group of a version.
    fn charge(&mut self, key: &CellKey, version: &Version, build: &str, failed: usize) {
        let Some(from) = self.groups.get_mut(key) else { return };
        from.failed -= failed;
        from.measured_by.remove(build);
        let place = from.place;
        if from.measured_by.is_empty() {
            self.groups.remove(key);
        }
        let key = CellKey { version: version.clone(), ..key.clone() };
        let known = self.groups.entry(key).or_insert_with(|| CellRepeats { place, ..CellRepeats::default() });
        known.failed += failed;
        *known.measured_by.entry(build.to_string()).or_default() += failed;
        known.place = known.place.min(place);
    }

    /// Hosts on which a study has fewer rows than planned cells: the host, the number of cells with rows, and the
    /// planned number.
    pub fn unfinished(&self, study: Option<&str>) -> Vec<(String, usize, usize)> {
        let of_study = self.progress.iter().filter(|((name, _), _)| name.as_deref() == study);
        let short = of_study.filter(|(_, progress)| progress.cells.len() < progress.planned);
        short.map(|((_, host), progress)| (host.clone(), progress.cells.len(), progress.planned)).collect()
    }

    /// The builds of each package that measured. Their rows are pooled, and a report says so.
    pub fn builds(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut builds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for provenance in &self.provenance {
            builds.entry(&provenance.build.package).or_default().insert(&provenance.build.id);
        }
        builds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_rows::job::Job;
    use allocanary_rows::sample::Measured;

    fn sample() -> Sample {
        let row = include_str!("../../../../tests/golden/sample.jsonl").lines().next().unwrap();
        serde_json::from_str(row).unwrap()
    }

    fn key(sample: &Sample) -> CellKey {
        let mut fold = Fold::default();
        fold.add(sample).unwrap();
        fold.groups.into_keys().next().unwrap()
    }

    #[test]
    fn a_replay_has_the_threads_of_its_trace_and_no_number_of_its_own() {
        let mut row = sample();
        row.cell.job = Job::workload("server:requests=5", 1);
        assert_eq!(key(&row).threads, Some(1));
        row.cell.job = Job::workload("replay:trace=/tmp/nine.trace,pace=1", 1);
        assert_eq!(key(&row).threads, None);
        assert!(!key(&row).title().contains("threads"), "{}", key(&row).title());
    }

    #[test]
    fn a_program_whose_peak_is_not_known_is_told() {
        let mut row = sample();
        (row.cell.job, row.measured) = (Job::of_program(Default::default()), Some(Measured::default()));
        let mut fold = Fold::default();
        fold.add(&row).unwrap();
        let notes = crate::summary::notes(&fold);
        assert!(notes.iter().any(|note| note.starts_with("the peak of 1 row is not known")), "{notes:?}");
    }

    #[test]
    fn a_row_is_of_the_cores_that_its_program_saw() {
        let mut row = sample();
        row.cell.cores = Some(64);
        row.measured = Some(Measured::default());
        assert_eq!(key(&row).cores, Some(64));
        row.measured.as_mut().unwrap().notes.insert(CORES_SEEN.into(), 2);
        assert_eq!(key(&row).cores, Some(2));
    }
}
