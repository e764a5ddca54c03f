//! The space of settings: the dimensions of each allocator and runtime, combined. In: descriptions of the available allocators. Out:
//! candidates.

mod of_runtimes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::program::runtimes;
use allocanary_facts::THREAD_IDLE;
use allocanary_facts::dimension::Dimension;
use allocanary_facts::dimension::DimensionStage;
use allocanary_facts::dimension::DimensionStage::Alone;
use allocanary_facts::dimension::DimensionStage::First;
use allocanary_facts::dimension::DimensionStage::Second;
use allocanary_facts::our_names;
use allocanary_facts::ours;
use allocanary_rows::Candidate;
use allocanary_rows::PROCESS_THP;
use allocanary_rows::Spec;
use allocanary_rows::description::Description;
use allocanary_rows::error::Error;
use allocanary_rows::error::Result;
use allocanary_rows::perhaps;
use allocanary_sys::sys;

/// The setting that only preloads have. Its effect is independent of what the other settings limit. A search that combined it with all
/// candidates would take twice as long.
const IDLE_THREADS: Dimension = Dimension {
    acts_after: Duration::from_millis(200),
    ..Dimension::new(THREAD_IDLE, &["100ms"], Alone, "what idle threads keep")
};

/// The kernel applies this setting, not the allocator. So it is tried alone, and added to the survivors.
const HUGE_PAGES: Dimension = Dimension::new(PROCESS_THP, &["never"], Alone, "huge pages of the whole process");

/// Every dimension, with the name of its allocator or runtime. Tests check each value against the allocator's own table of settings.
fn dimensions() -> impl Iterator<Item = (&'static str, &'static Dimension)> {
    let of = |name: &'static str, rows: &'static [Dimension]| rows.iter().map(move |row| (name, row));
    let allocators = ours().flat_map(move |(one, ours)| {
        of(one.name, ours.dimensions).chain([(one.name, &IDLE_THREADS), (one.name, &HUGE_PAGES)])
    });
    allocators.chain([("own", &HUGE_PAGES)]).chain(of_runtimes::ALL.iter().flat_map(move |(name, rows)| of(name, rows)))
}

/// The words for what a setting limits.
pub fn limits(allocator: &str, setting: &str) -> Option<&'static str> {
    let is_it = |(name, row): &(&str, &Dimension)| *name == allocator && row.setting == setting;
    // A runtime's settings have names that no allocator's setting has.
    let is_of_runtime = |(name, row): &(&str, &Dimension)| {
        allocator == "own" && row.setting == setting && runtimes::ALL.iter().any(|one| one.name == *name)
    };
    dimensions().find(is_it).or_else(|| dimensions().find(is_of_runtime)).map(|(_, row)| row.limits)
}

/// The time that a setting has to take effect before memory is read, and how a user can extend it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// A workload's idle wait.
    Workload(Duration),
    /// The time for which a service settles.
    Service(Duration),
    /// The time that a program runs. Its peak is read, and it has no idle moment.
    Program(Duration),
    /// A trace's idle wait, with the program's own times if it is paced.
    Trace(Duration),
}

impl Rest {
    fn time(self) -> Duration {
        let (Rest::Workload(time) | Rest::Service(time) | Rest::Program(time) | Rest::Trace(time)) = self;
        time
    }

    /// The sentence that says why `wanted` is too long.
    fn why(self, wanted: Duration) -> String {
        let (found, twice) = (self.time().as_millis(), 2 * wanted.as_millis());
        match self {
            Rest::Workload(_) => {
                format!("the workload rests for {found} ms: a workload with settle={twice}ms lets it act")
            }
            Rest::Service(_) => format!("the service settles for {found} ms: --settle {twice}ms lets it act"),
            Rest::Program(_) => format!("the program runs for {found} ms: its peak is read, not its rest"),
            Rest::Trace(_) => format!(
                "the replay rests for {found} ms: --settle {twice}ms lets it act, and --pace 1 keeps the program's own times"
            ),
        }
    }
}

/// A space of candidates.
#[derive(Debug)]
pub struct Space<'a> {
    cells: Vec<&'a Description>,
    /// The allocator that the candidate `own` is, if it is one of ours.
    own: Option<&'a str>,
    /// The runtime of the program, for the candidate `own`.
    runtime: Option<&'a str>,
    /// The maximum of memory in the program's first run, in bytes.
    memory: Option<u64>,
    cores: u32,
    rest: Rest,
}

/// The candidates of a stage, and the values that were left out, each with the reason.
#[derive(Debug, Default, PartialEq)]
pub struct Candidates {
    /// Each candidate once.
    pub all: Vec<Candidate>,
    /// One sentence for each reason.
    pub left_out: BTreeSet<String>,
}

impl<'a> Space<'a> {
    /// The space of some allocators, or of all. `cores` is the number that `cores` in a value means.
    pub fn new(
        cells: &'a [Description],
        own: Option<&'a str>,
        allocators: Option<&[String]>,
        cores: u32,
        rest: Rest,
    ) -> Result<Space<'a>> {
        let names = || cells.iter().map(|cell| cell.allocator.as_str());
        if let Some(unknown) = allocators.iter().copied().flatten().find(|name| !names().any(|known| known == *name)) {
            return Err(Error::Input(format!("--candidates: no allocator `{unknown}`{}", perhaps(unknown, names()))));
        }
        let wanted = |cell: &&Description| allocators.is_none_or(|names| names.contains(&cell.allocator));
        let mut seen = BTreeSet::new();
        let cells: Vec<&Description> =
            cells.iter().filter(wanted).filter(|cell| seen.insert(&cell.allocator)).collect();
        if cells.is_empty() {
            return Err(Error::Input("--candidates: the space is empty: wanted at least one allocator".into()));
        }
        Ok(Space { cells, own, runtime: None, memory: None, cores, rest })
    }

    /// The same space, with the settings of a runtime for `own`. `memory` is the program's maximum of memory, in bytes.
    pub fn of_runtime(self, runtime: Option<&'a str>, memory: Option<u64>) -> Space<'a> {
        Space { runtime, memory, ..self }
    }

    /// The dimensions of an allocator in a stage.
    fn rows(&self, allocator: &'a str, stage: DimensionStage) -> Vec<&'static Dimension> {
        let runtime = self.runtime.filter(|_| allocator == "own");
        let tables = [Some(self.table(allocator)), runtime];
        tables.into_iter().flatten().flat_map(|table| rows(table, stage)).collect()
    }

    /// Whether no value does harm in these settings: each value that needs another setting has it.
    fn is_whole(&self, settings: &BTreeMap<String, String>) -> bool {
        dimensions().all(|(name, row)| match row.needs.filter(|_| Some(name) == self.runtime) {
            Some((value, needed)) => {
                settings.get(row.setting).is_none_or(|found| found != value) || settings.contains_key(needed)
            }
            None => true,
        })
    }

    /// The name under which an allocator's dimensions are listed.
    fn table(&self, allocator: &'a str) -> &'a str {
        let named = self.own.filter(|_| allocator == "own").unwrap_or(allocator);
        // Another version of an allocator: `jemalloc@5.3.0`.
        named.split('@').next().unwrap_or(named)
    }

    /// All combinations of the first stage.
    pub fn first(&self) -> Candidates {
        let mut found = Candidates::default();
        for cell in &self.cells {
            let mut specs = vec![BTreeMap::new()];
            let mut by_setting: BTreeMap<&str, Vec<&Dimension>> = BTreeMap::new();
            for row in self.rows(&cell.allocator, First) {
                by_setting.entry(row.setting).or_default().push(row);
            }
            for rows in by_setting.into_values() {
                let mut more = specs.clone();
                for row in rows {
                    for value in self.values(cell, row, &mut found.left_out) {
                        more.extend(specs.iter().filter_map(|spec| with(spec, row, &value)));
                    }
                }
                specs = more;
            }
            for row in self.rows(&cell.allocator, Alone) {
                let values = self.values(cell, row, &mut found.left_out);
                specs.extend(values.iter().filter_map(|value| with(&BTreeMap::new(), row, value)));
            }
            specs.retain(|settings| self.is_whole(settings));
            let of = |settings| Spec { name: cell.allocator.clone(), settings }.into();
            found.all.extend(specs.into_iter().map(of));
        }
        let mut seen = BTreeSet::new();
        found.all.retain(|candidate| seen.insert(candidate.clone()));
        found
    }

    /// Each survivor with one further value of the second stage.
    pub fn around(&self, survivors: &[Candidate]) -> Candidates {
        let mut found = Candidates::default();
        for survivor in survivors {
            let spec = &survivor.spec;
            let Some(cell) = self.cells.iter().find(|cell| cell.allocator == spec.name) else { continue };
            for row in self.rows(&cell.allocator, Second).into_iter().chain(self.rows(&cell.allocator, Alone)) {
                for value in self.values(cell, row, &mut found.left_out) {
                    let settings = with(&spec.settings, row, &value);
                    let new = settings.map(|settings| Spec { settings, ..spec.clone() }.into());
                    found.all.extend(new.filter(|new| !survivors.contains(new)));
                }
            }
        }
        let mut seen = BTreeSet::new();
        found.all.retain(|candidate| seen.insert(candidate.clone()));
        found
    }

    /// The values of a dimension that this allocator takes and that can have an effect here.
    fn values(&self, cell: &Description, row: &Dimension, left_out: &mut BTreeSet<String>) -> Vec<String> {
        let (allocator, setting) = (&cell.allocator, row.setting);
        let known = cell.settings.iter().find(|known| known.name == setting);
        if known.is_none() && setting == THREAD_IDLE {
            let values = row.values.join(" and ");
            left_out.insert(match allocator.as_str() {
                // The unchanged program, with or without preloads among the candidates.
                "own" => format!(
                    "own:{THREAD_IDLE}={values}: only preloads have it: name {} as --candidates",
                    our_names()
                ),
                _ => format!(
                    "{THREAD_IDLE}={values}: only preloads have it, and this search has none: `allocanary tune -- PROGRAM` has"
                ),
            });
            return Vec::new();
        }
        if known.is_none() && setting == PROCESS_THP {
            // The setting is tried only for a program, and only if the program has huge pages that it did not request.
            if matches!(self.rest, Rest::Program(_) | Rest::Service(_)) {
                left_out.insert(format!(
                    "{PROCESS_THP}={}: the program has no huge pages, or the kernel gives them only where they are advised",
                    row.values.join(" and ")
                ));
            }
            return Vec::new();
        }
        if self.rest.time() < row.acts_after {
            left_out.insert(format!(
                "{allocator}:{setting}={} acts after {} ms, and {}",
                row.values.join(" and "),
                row.acts_after.as_millis(),
                self.rest.why(row.acts_after),
            ));
            return Vec::new();
        }
        let Some(known) = known else {
            left_out.insert(format!("{allocator}:{setting}: this version does not have it"));
            return Vec::new();
        };
        let value = |value: &&str| match (*value, value.strip_suffix('x').and_then(|share| share.parse::<f64>().ok())) {
            ("cores", _) => Some(self.cores.to_string()),
            ("half", _) => Some((self.cores / 2).to_string()),
            // Rounded to whole MiB, so that two searches of one program try the same value.
            (_, Some(share)) => self.memory.map(|bytes| (((bytes as f64 * share) as u64 >> 20) << 20).to_string()),
            (value, None) => Some(value.to_string()),
        };
        let values = row.values.iter().filter_map(value).filter(|value| known.kind.canonical(value).is_ok());
        // A value that equals the default would be the same candidate under another name. The default of an emulated
        // host differs from that of this host.
        let per_core = cell.per_core.as_ref().filter(|per_core| per_core.setting == setting);
        let default = match per_core.filter(|_| self.cores != sys::affinity()) {
            Some(per_core) => Some(per_core.on(self.cores).to_string()),
            None => cell.effective.get(setting).cloned(),
        };
        values.filter(|value| default.as_ref() != Some(value)).collect()
    }
}

fn rows(allocator: &str, stage: DimensionStage) -> impl Iterator<Item = &'static Dimension> + use<'_> {
    dimensions().filter(move |(name, row)| *name == allocator && row.stage == stage).map(|(_, row)| row)
}

/// The settings with one further or another value; `None` if the value would have no effect.
fn with(settings: &BTreeMap<String, String>, row: &Dimension, value: &str) -> Option<BTreeMap<String, String>> {
    let has = |(name, value): &(&str, &str)| settings.get(*name).is_some_and(|found| found == value);
    if row.without.iter().any(has) {
        return None;
    }
    let mut settings = settings.clone();
    settings.insert(row.setting.to_string(), value.to_string());
    row.with.iter().for_each(|(name, value)| drop(settings.insert(name.to_string(), value.to_string())));
    Some(settings)
}

#[cfg(test)]
mod tests;
