//! The space of settings: for each that is worth a search its values, the stage in which they are tried, whether they
//! need time to act, and what they depend on. In: descriptions of the available cells. Out: candidates.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use allocanary_cell::description::{Description, perhaps};
use allocanary_cell::spec::Spec;
use allocanary_study::error::{Error, Result};

/// A setting that is worth a search.
pub struct Dimension {
    /// The allocator's name.
    pub allocator: &'static str,
    /// The setting.
    pub setting: &'static str,
    /// The values to try besides the default. `cores` stands for the number of cores.
    pub values: &'static [&'static str],
    /// In the first stage all values of all dimensions are combined; in the second each value is added to a survivor.
    pub stage: Stage,
    /// How long a process must be idle before a value can act; zero for most.
    pub acts_after: Duration,
    /// Settings with which it has no effect: the setting and the value.
    pub without: &'static [(&'static str, &'static str)],
    /// Settings that it needs, which are added with it.
    pub with: &'static [(&'static str, &'static str)],
    /// What it limits, for sentences: `arenas`.
    pub limits: &'static str,
}

/// When the values of a dimension are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Combined with all others.
    First,
    /// Around the survivors.
    Second,
}

const NOW: Duration = Duration::ZERO;

const fn row(
    allocator: &'static str,
    setting: &'static str,
    values: &'static [&'static str],
    stage: Stage,
    limits: &'static str,
) -> Dimension {
    Dimension { allocator, setting, values, stage, acts_after: NOW, without: &[], with: &[], limits }
}

use Stage::{First, Second};

/// Every dimension. Tests check each value against the allocator's own table of settings.
pub const DIMENSIONS: &[Dimension] = &[
    row("jemalloc", "narenas", &["1", "2", "cores"], First, "arenas"),
    row("jemalloc", "tcache", &["false"], First, "thread caches"),
    row("jemalloc", "dirty_decay_ms", &["0"], First, "freed pages"),
    // A page goes back only after its decay, and in an idle process only by a background thread.
    Dimension {
        acts_after: Duration::from_millis(1000),
        with: &[("background_thread", "true")],
        ..row("jemalloc", "dirty_decay_ms", &["1000"], First, "freed pages")
    },
    Dimension {
        without: &[("tcache", "false")],
        ..row("jemalloc", "tcache_max", &["1024", "4096"], Second, "thread caches")
    },
    Dimension {
        without: &[("tcache", "false")],
        ..row("jemalloc", "lg_tcache_nslots_mul", &["-2"], Second, "thread caches")
    },
    row("jemalloc", "narenas", &["4"], Second, "arenas"),
    row("jemalloc", "muzzy_decay_ms", &["0"], Second, "freed pages"),
    row("jemalloc", "oversize_threshold", &["1073741824"], Second, "large blocks"),
    row("system", "arena_max", &["1", "2"], First, "arenas"),
    row("system", "trim_threshold", &["131072"], First, "free space at the tops of arenas"),
    row("system", "mmap_threshold", &["65536"], Second, "large blocks"),
    row("system", "tcache_count", &["0", "2"], Second, "thread caches"),
    row("system", "top_pad", &["0"], Second, "free space at the tops of arenas"),
    row("mimalloc", "allow_thp", &["0"], First, "huge-page padding"),
    row("mimalloc", "purge_delay", &["0"], First, "freed pages"),
    row("mimalloc", "page_reclaim_on_free", &["1"], Second, "pages of other threads"),
    row("mimalloc", "page_full_retain", &["0"], Second, "free pages of each size"),
];

/// What a setting limits, for sentences.
pub fn limits(allocator: &str, setting: &str) -> Option<&'static str> {
    let is_it = |row: &&Dimension| row.allocator == allocator && row.setting == setting;
    DIMENSIONS.iter().find(is_it).map(|row| row.limits)
}

/// A space of candidates.
#[derive(Debug)]
pub struct Space<'a> {
    cells: Vec<&'a Description>,
    cores: u32,
    idle: Duration,
}

/// The candidates of a stage, and values that were left out, each with the reason.
#[derive(Debug, Default, PartialEq)]
pub struct Candidates {
    /// In the notation of studies.
    pub names: Vec<String>,
    /// Sentences.
    pub left_out: BTreeSet<String>,
}

impl<'a> Space<'a> {
    /// The space of some allocators, or of all that have a cell. `cores` is what `cores` in a value stands for; `idle` is
    /// how long the workload rests before its memory is read.
    pub fn new(
        cells: &'a [Description],
        allocators: Option<&[String]>,
        cores: u32,
        idle: Duration,
    ) -> Result<Space<'a>> {
        let names = || cells.iter().map(|cell| cell.allocator.as_str());
        if let Some(unknown) = allocators.iter().copied().flatten().find(|name| !names().any(|known| known == *name)) {
            return Err(Error::Input(format!("--allocators: no allocator `{unknown}`{}", perhaps(unknown, names()))));
        }
        let wanted = |cell: &&Description| allocators.is_none_or(|names| names.contains(&cell.allocator));
        let mut seen = BTreeSet::new();
        let cells: Vec<&Description> =
            cells.iter().filter(wanted).filter(|cell| seen.insert(&cell.allocator)).collect();
        if cells.is_empty() {
            return Err(Error::Input("--allocators: the space is empty: wanted at least one allocator".into()));
        }
        Ok(Space { cells, cores, idle })
    }

    /// All combinations of the first stage.
    pub fn first(&self) -> Candidates {
        let mut found = Candidates::default();
        for cell in &self.cells {
            let mut specs = vec![BTreeMap::new()];
            let mut by_setting: BTreeMap<&str, Vec<&Dimension>> = BTreeMap::new();
            for row in rows(&cell.allocator, First) {
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
            let name = |settings| Spec { name: cell.allocator.clone(), settings }.to_string();
            found.names.extend(specs.into_iter().map(name));
        }
        let mut seen = BTreeSet::new();
        found.names.retain(|name| seen.insert(name.clone()));
        found
    }

    /// The survivors, each with one value of the second stage more.
    pub fn around(&self, survivors: &[String]) -> Candidates {
        let mut found = Candidates::default();
        for survivor in survivors {
            let Ok(spec) = Spec::parse(survivor) else { continue };
            let Some(cell) = self.cells.iter().find(|cell| cell.allocator == spec.name) else { continue };
            for row in rows(&spec.name, Second) {
                for value in self.values(cell, row, &mut found.left_out) {
                    let settings = with(&spec.settings, row, &value);
                    let name = settings.map(|settings| Spec { settings, ..spec.clone() }.to_string());
                    found.names.extend(name.filter(|name| !survivors.contains(name)));
                }
            }
        }
        let mut seen = BTreeSet::new();
        found.names.retain(|name| seen.insert(name.clone()));
        found
    }

    /// The values of a dimension that this allocator takes and that can act here.
    fn values(&self, cell: &Description, row: &Dimension, left_out: &mut BTreeSet<String>) -> Vec<String> {
        let (allocator, setting) = (row.allocator, row.setting);
        if self.idle < row.acts_after {
            left_out.insert(format!(
                "{allocator}:{setting}={} acts after {} ms, and the workload rests for {} ms: a workload with idle={} \
                 lets it act",
                row.values.join(" and "),
                row.acts_after.as_millis(),
                self.idle.as_millis(),
                2 * row.acts_after.as_millis(),
            ));
            return Vec::new();
        }
        let Some(known) = cell.settings.iter().find(|known| known.name == setting) else {
            left_out.insert(format!("{allocator}:{setting}: this version does not have it"));
            return Vec::new();
        };
        let value = |value: &&str| match *value {
            "cores" => self.cores.to_string(),
            value => value.to_string(),
        };
        let values = row.values.iter().map(value).filter(|value| known.kind.canonical(value).is_ok());
        // A value that is the default already would be the same candidate under another name.
        values.filter(|value| cell.effective.get(setting) != Some(value)).collect()
    }
}

fn rows(allocator: &str, stage: Stage) -> impl Iterator<Item = &'static Dimension> {
    DIMENSIONS.iter().filter(move |row| row.allocator == allocator && row.stage == stage)
}

/// Settings with one value more; `None` where the value would have no effect, or replace a value of the first stage by
/// itself.
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
mod tests {
    use super::*;
    use allocanary_allocators::{Allocator, System};
    use allocanary_cell::provenance::Build;

    fn description(allocator: &str, settings: &[&str]) -> Description {
        let known = |name: &&str| {
            let kind = allocanary_allocators::setting::Kind::Text;
            allocanary_allocators::setting::Setting { name: name.to_string().into(), kind, about: "".into() }
        };
        Description {
            protocol: 1,
            build: Build::this(),
            allocator: allocator.into(),
            version: "1".into(),
            settings: settings.iter().map(known).collect(),
            effective: BTreeMap::new(),
            problems: Vec::new(),
            environment: System.environment(),
            per_core: None,
            workloads: Vec::new(),
        }
    }

    fn cells() -> Vec<Description> {
        ["jemalloc", "system", "mimalloc"]
            .map(|allocator| {
                let names: Vec<&str> =
                    DIMENSIONS.iter().filter(|row| row.allocator == allocator).map(|row| row.setting).collect();
                description(allocator, &names)
            })
            .to_vec()
    }

    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn the_first_stage_has_some_thirty_candidates_and_the_pair_of_settings() {
        let cells = cells();
        let found = Space::new(&cells, None, 40, SHORT).unwrap().first();
        assert_eq!(found.names.len(), 4 * 2 * 2 + 3 * 2 + 2 * 2, "{:?}", found.names);
        for name in [
            "jemalloc",
            "jemalloc:narenas=1,tcache=false",
            "jemalloc:narenas=40",
            "system:arena_max=1",
            "mimalloc:allow_thp=0",
        ] {
            assert!(found.names.contains(&name.to_string()), "{name}");
        }
        let said: Vec<&String> = found.left_out.iter().collect();
        assert!(
            said.len() == 1 && said[0].contains("acts after 1000 ms, and the workload rests for 50 ms"),
            "{said:?}"
        );
        let long = Space::new(&cells, None, 40, Duration::from_secs(2)).unwrap().first();
        assert!(long.names.iter().any(|name| name == "jemalloc:background_thread=true,dirty_decay_ms=1000"));
        assert_eq!(long.names.len(), 4 * 2 * 3 + 6 + 4);
    }

    #[test]
    fn the_second_stage_keeps_to_what_has_an_effect() {
        let cells = cells();
        let space = Space::new(&cells, None, 4, SHORT).unwrap();
        let found = space.around(&["jemalloc:tcache=false".into(), "system".into()]);
        assert!(found.names.iter().all(|name| !name.contains("tcache_max")), "{:?}", found.names);
        assert!(found.names.contains(&"system:tcache_count=0".to_string()), "{:?}", found.names);
        let cached = space.around(&["jemalloc:narenas=1".into()]);
        assert!(cached.names.contains(&"jemalloc:narenas=1,tcache_max=4096".to_string()), "{:?}", cached.names);
    }

    #[test]
    fn a_default_is_not_tried_under_another_name_and_an_unknown_allocator_is_named() {
        let mut cells = cells();
        cells[1].effective.insert("trim_threshold".into(), "131072".into());
        let only = Some(&["system".to_string()][..]);
        let found = Space::new(&cells, only, 4, SHORT).unwrap().first();
        assert_eq!(found.names, ["system", "system:arena_max=1", "system:arena_max=2"]);
        let unknown = Space::new(&cells, Some(&["jemaloc".to_string()]), 4, SHORT).unwrap_err().to_string();
        assert!(unknown.contains("no allocator `jemaloc`; perhaps jemalloc"), "{unknown}");
    }

    #[test]
    fn every_value_of_the_systems_malloc_is_one_that_it_takes() {
        for row in DIMENSIONS.iter().filter(|row| row.allocator == "system") {
            let known = System.settings().iter().find(|known| known.name == row.setting).expect(row.setting);
            row.values.iter().for_each(|value| drop(known.kind.canonical(value).expect(row.setting)));
        }
    }
}
