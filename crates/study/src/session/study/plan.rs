//! The plan: the list of cells to run, in order. In: a study and the available cells. Out: the list. Starts nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::checked::{Study, ThreadScale};
use crate::program::huge_pages;
use allocanary_rows::Cell;
use allocanary_rows::description::{Description, WorkloadDescription, number};
use allocanary_rows::error::{Error, Result};
use allocanary_rows::job::Job;
use allocanary_rows::{Candidate, PRELOAD, PROCESS_THP, Spec, perhaps};
use allocanary_sys::elf::check_loadable;
use allocanary_sys::rng::Rng;

/// Every cell of the study in the order in which it runs.
///
/// The plan consists of rounds. Each round has every cell once, in a new random order from the study's seed. So a slow
/// drift of the machine affects all candidates equally, and a study that ends early has measured all of them equally
/// often.
pub fn plan(study: &Study, cells: &[Description]) -> Result<Vec<Cell>> {
    let mut round = Vec::new();
    for candidate in study.candidates.iter().filter(|_| study.program.is_some()) {
        for shape in &study.hosts {
            let cell = program_cell(study, candidate, cells, *shape)?;
            round.push(Cell { place: round.len() as u32, ..cell });
        }
    }
    for candidate in study.candidates.iter().filter(|_| study.program.is_none()) {
        for workload in &study.workloads {
            let description = find(&candidate.spec, workload, cells)?;
            check_workload(workload, description)?;
            for shape in &study.hosts {
                let cell = cell(study, candidate, description, workload, *shape)?;
                round.push(Cell { place: round.len() as u32, ..cell });
            }
        }
    }
    let mut all = Vec::with_capacity(round.len() * study.repeats as usize);
    for repeat in 0..study.repeats {
        let mut order: Vec<usize> = (0..round.len()).collect();
        let mut rng = Rng::part(study.seed, u64::from(repeat));
        // One seed per round: all candidates get the same requests.
        let seed = rng.next();
        rng.shuffle(&mut order);
        all.extend(order.into_iter().map(|at| Cell { repeat, seed, ..round[at].clone() }));
    }
    Ok(all)
}

/// Candidates of shipped studies whose cells the command does not bring, and how to get them.
const BUILT_APART: [(&str, &str); 1] = [(
    "go",
    "its cell is built in a clone of allocanary by `cd benches/go && go build -trimpath -o cell-go .`, and found by --cells benches/go",
)];

/// The expected duration of all cells of `plan`, by the estimates of the workloads.
pub fn expected_time(plan: &[Cell], cells: &[Description]) -> Duration {
    // A sum of estimates may exceed what a `Duration` can represent.
    const MOST: f64 = 1e12;
    let sum: f64 = expected_seconds(plan, cells).into_iter().flatten().sum();
    Duration::try_from_secs_f64(sum.clamp(0.0, MOST)).unwrap_or_default()
}

/// The expected duration of each cell of `plan`, in seconds; `None` where no workload has an estimate.
pub fn expected_seconds(plan: &[Cell], cells: &[Description]) -> Vec<Option<f64>> {
    /// Seconds to start a process and read its answer.
    const AROUND: f64 = 0.012;
    let seconds = |cell: &Cell| {
        let Job::Workload { spec, .. } = &cell.job else {
            return cells.iter().find_map(|known| Some(known.workloads.first()?.seconds));
        };
        let mut described = cells.iter().filter(|description| description.allocator == cell.allocator);
        let workload = described.find_map(|cell| cell.workloads.iter().find(|workload| workload.name == spec.name))?;
        Some(seconds_of(workload, spec)? + AROUND)
    };
    plan.iter().map(seconds).collect()
}

/// The expected duration of a cell with the workload `spec`, in seconds.
fn seconds_of(workload: &WorkloadDescription, spec: &Spec) -> Option<f64> {
    let values = workload.parameters_of(spec).ok()?;
    let value = |name: &str| number(values.get(name)?);
    let size = |sum: &String| {
        let parts = || sum.split('+');
        let default: f64 = parts().map(|name| workload.default_number(name)).sum::<Option<f64>>()?;
        Some(parts().map(value).sum::<Option<f64>>()? / default)
    };
    let sizes: f64 = workload.grows_with.iter().filter_map(size).product();
    let rests = workload.rests.as_deref().map_or(Some(1.0), value)?;
    Some(workload.seconds * sizes + rests * value("settle").unwrap_or(0.0) / 1000.0)
}

/// The cell program for a candidate: one that has the workload. If none has it, the first one, because the error about the workload needs
/// one.
fn find<'a>(candidate: &Spec, workload: &Spec, cells: &'a [Description]) -> Result<&'a Description> {
    let mut serving = cells.iter().filter(|cell| cell.allocator == candidate.name);
    let having = serving.clone().find(|cell| cell.has_workload(&workload.name));
    having.or_else(|| serving.next()).ok_or_else(|| {
        let names = cells.iter().map(|cell| cell.allocator.as_str());
        let apart = BUILT_APART.iter().find(|(name, _)| *name == candidate.name);
        let hint = apart.map_or_else(|| perhaps(&candidate.name, names), |(_, how)| format!(": {how}"));
        Error::Input(format!("no candidate `{}`{hint}", candidate.name))
    })
}

fn check_workload(workload: &Spec, description: &Description) -> Result<()> {
    let names = description.workloads.iter().map(|known| known.name.as_str());
    let known: Option<&WorkloadDescription> = description.workloads.iter().find(|known| known.name == workload.name);
    let known = known
        .ok_or_else(|| Error::Input(format!("no workload `{}`{}", workload.name, perhaps(&workload.name, names))))?;
    known.parameters_of(workload).map(|_| ()).map_err(Error::Input)
}

fn cell(
    study: &Study,
    candidate: &Candidate,
    description: &Description,
    workload: &Spec,
    shape: ThreadScale,
) -> Result<Cell> {
    let mut settings = canonical_settings(&candidate.spec, description)?;
    let inherited = candidate.inherited.iter().filter(|(name, _)| description.environment.owns(name));
    let inherited: BTreeMap<String, String> = inherited.map(|(name, value)| (name.clone(), value.clone())).collect();
    if let Some((per_core, cores)) = description.per_core.as_ref().zip(shape.cores) {
        // The title of the cell shows the user's environment, so these variables must be in force. They take precedence over the emulated
        // default, as they would on a real host with this number of cores.
        let said = description.environment.assignments(&inherited).into_iter().any(|one| one.name == per_core.setting);
        if !said {
            settings.entry(per_core.setting.to_string()).or_insert(per_core.on(cores).to_string());
        }
    }
    let candidate = Candidate { spec: candidate.spec.clone(), inherited };
    let job = Job::Workload { spec: workload.clone(), threads: shape.threads };
    Ok(Cell {
        study: study.name.clone(),
        settings,
        cores: shape.cores,
        ..Cell::new(candidate, &description.allocator, job)
    })
}

/// A cell of the user's program.
fn program_cell(study: &Study, candidate: &Candidate, cells: &[Description], shape: ThreadScale) -> Result<Cell> {
    let spec = &candidate.spec;
    let (allocator, settings) = match spec.name.strip_prefix(PRELOAD) {
        Some(path) => {
            let is_variable = |name: &str| name.starts_with("env.") && name.len() > 4;
            if let Some(wrong) = spec.settings.keys().find(|name| !is_variable(name) && *name != PROCESS_THP) {
                return Err(Error::Input(format!(
                    "candidate `{spec}`: a library's settings are variables, as in env.NAME=VALUE, and {PROCESS_THP}, found \
                     `{wrong}`"
                )));
            }
            if let Some(value) = spec.settings.get(PROCESS_THP) {
                let taken = huge_pages::setting().kind.canonical(value);
                taken.map_err(|wanted| {
                    Error::Input(format!("candidate `{spec}`: {PROCESS_THP}: {wanted}, found `{value}`"))
                })?;
            }
            if !std::path::Path::new(path).is_file() {
                return Err(Error::Input(format!("candidate `{spec}`: {path}: no such file to preload")));
            }
            check_loadable(std::path::Path::new(path))
                .map_err(|wrong| Error::Input(format!("candidate `{spec}`: {wrong}")))?;
            ("preload", spec.settings.clone())
        }
        None => {
            let names = cells.iter().map(|cell| cell.allocator.as_str());
            let known = cells.iter().find(|cell| cell.allocator == spec.name).ok_or_else(|| {
                let perhaps = perhaps(&spec.name, names);
                Error::Input(format!("no candidate `{}`{perhaps}, or preload=/path/lib.so", spec.name))
            })?;
            (known.allocator.as_str(), canonical_settings(spec, known)?)
        }
    };
    let program = study.program.clone().unwrap_or_default();
    Ok(Cell {
        study: study.name.clone(),
        settings,
        cores: shape.cores,
        ..Cell::new(spec.clone(), allocator, Job::of_program(program))
    })
}

/// A candidate's settings in canonical spelling, each checked against the allocator's table.
fn canonical_settings(candidate: &Spec, description: &Description) -> Result<BTreeMap<String, String>> {
    let check = |(name, value): (&String, &String)| {
        let setting = description.settings.iter().find(|setting| setting.name == *name).ok_or_else(|| {
            let names = description.settings.iter().map(|setting| setting.name.as_ref());
            let perhaps = perhaps(name, names);
            Error::Input(format!("candidate `{candidate}`: {} has no setting `{name}`{perhaps}", candidate.name))
        })?;
        let value = setting
            .kind
            .canonical(value)
            .map_err(|wanted| Error::Input(format!("candidate `{candidate}`: {name}: {wanted}, found `{value}`")))?;
        Ok((name.clone(), value))
    };
    candidate.settings.iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::StudyFile;
    use allocanary_facts::environment::Environment;
    use allocanary_facts::setting::PerCore;
    use allocanary_facts::setting::{Setting, SettingKind};
    use allocanary_rows::provenance::Build;

    fn described() -> Vec<Description> {
        vec![Description {
            protocol: 1,
            build: Build::this(),
            allocator: "jemalloc".into(),
            version: "5".into(),
            settings: vec![
                Setting::new("narenas", SettingKind::Number { min: 1, max: 4094 }, ""),
                Setting::new("tcache", SettingKind::Flag, ""),
            ],
            effective: BTreeMap::new(),
            problems: Vec::new(),
            environment: Environment::Each { prefix: "JE_".into() },
            per_core: Some(PerCore { setting: "narenas".into(), ratio: 4, on_one: Some(1) }),
            workloads: allocanary_cell::workloads::described(),
        }]
    }

    fn study(text: &str) -> Study {
        StudyFile::parse("test", text).unwrap().check().unwrap()
    }

    #[test]
    fn every_round_holds_every_cell_once_in_an_order_of_its_own() {
        let study = study("candidates = ['jemalloc', 'jemalloc:tcache=no']\nthreads = [1, 2, 3]\nrepeats = 4");
        let cells = plan(&study, &described()).unwrap();
        assert_eq!(cells.len(), 24);
        let round = |repeat: u32| -> Vec<(String, u32)> {
            let cells = cells.iter().filter(|cell| cell.repeat == repeat);
            cells.map(|cell| (cell.candidate.to_string(), cell.job.threads().unwrap())).collect()
        };
        let mut sorted: Vec<_> = (0..4).map(round).collect();
        assert_ne!(sorted[0], sorted[1]);
        sorted.iter_mut().for_each(|round| round.sort());
        assert!(sorted.iter().all(|round| *round == sorted[0]));
        assert_eq!(plan(&study, &described()).unwrap(), cells, "the same seed gives the same plan");
        assert!(cells.iter().all(|cell| cell.candidate == "jemalloc".into() || cell.settings["tcache"] == "false"));
        assert!(expected_time(&cells, &described()) > Duration::from_secs(4));
    }

    #[test]
    fn every_rest_and_a_larger_size_take_their_time() {
        let work = |text: &str, rests: f64| {
            let spec = Spec::parse(text).unwrap();
            let workload = allocanary_cell::workloads::described()
                .into_iter()
                .find(|workload| workload.name == spec.name)
                .unwrap();
            seconds_of(&workload, &spec).unwrap() - rests
        };
        // Five idle waits of 100 ms by default.
        let burst = work("storm", 0.5) / 5.0;
        assert!(burst > 0.0);
        assert!((work("storm:bursts=20,settle=1500ms", 30.0) - 20.0 * burst).abs() < 1e-9);
        assert!((work("storm:steady=8800,requests=800", 0.5) - 40.0 * burst).abs() < 1e-9);
        assert!((work("storm:steady=0,requests=600", 0.5) - 2.5 * burst).abs() < 1e-9);
        assert!((work("churn:cycles=6,high=1GiB,settle=0ms", 0.0) - work("churn", 0.15) / 2.0).abs() < 1e-9);
        assert!((work("blob:size=1000,blobs=200000,settle=1ms", 0.001) - 2.0 * work("blob", 0.05)).abs() < 1e-9);
    }

    #[test]
    fn rounds_and_seeds_share_no_draws() {
        let seeds = |seed: u32| -> Vec<u64> {
            let study = study(&format!("candidates = ['jemalloc']\nrepeats = 50\nseed = {seed}"));
            let mut seeds: Vec<u64> = plan(&study, &described()).unwrap().into_iter().map(|cell| cell.seed).collect();
            seeds.dedup(); // all cells of a round have one
            seeds
        };
        let mut all: Vec<u64> = (0..50).flat_map(seeds).collect();
        // Seeds that differ in few bits, or by the same number, would give workloads streams that are alike.
        for pair in all.windows(2) {
            assert!((pair[0] ^ pair[1]).count_ones() > 8 && pair[0].abs_diff(pair[1]) > 1 << 32, "{pair:?}");
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 50 * 50);
    }

    #[test]
    fn no_estimate_is_too_long_to_be_said() {
        let mut described = described();
        let cells = plan(&study("candidates = ['jemalloc']\nrepeats = 1"), &described).unwrap();
        for (seconds, least) in [(1e300, 1 << 39), (-1.0, 0), (f64::NAN, 0)] {
            described[0].workloads[0].seconds = seconds;
            let span = expected_time(&cells, &described);
            assert!(span >= Duration::from_secs(least) && span.checked_mul(1000).is_some(), "{seconds}: {span:?}");
        }
    }

    #[test]
    fn emulated_cores_set_the_arenas_unless_the_candidate_does() {
        let study = study("candidates = ['jemalloc', 'jemalloc:narenas=1']\nemulate_cpus = [40]\nrepeats = 1");
        let cells = plan(&study, &described()).unwrap();
        let arenas = |candidate: &str| {
            let cell = cells.iter().find(|cell| cell.candidate == candidate.into()).unwrap();
            assert_eq!((cell.job.threads(), cell.cores), (Some(40), Some(40)));
            cell.settings["narenas"].clone()
        };
        assert_eq!(arenas("jemalloc"), "160");
        assert_eq!(arenas("jemalloc:narenas=1"), "1");
    }

    #[test]
    fn one_emulated_core_has_the_one_arena_that_jemalloc_makes_there() {
        let study = study("candidates = ['jemalloc']\nemulate_cpus = [1, 2]\nrepeats = 1");
        let cells = plan(&study, &described()).unwrap();
        let arenas: BTreeMap<_, _> =
            cells.iter().map(|cell| (cell.cores.unwrap(), &*cell.settings["narenas"])).collect();
        assert_eq!(arenas, BTreeMap::from([(1, "1"), (2, "8")]));
    }

    #[test]
    fn what_the_environment_says_wins_over_emulated_cores() {
        let of = |inherited: &[(&str, &str)]| {
            let inherited = inherited.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            let text = "candidates = ['jemalloc']\nemulate_cpus = [40]\nrepeats = 1";
            let file = StudyFile { inherited: Some(inherited), ..StudyFile::parse("", text).unwrap() };
            let cell = plan(&file.check().unwrap(), &described()).unwrap().remove(0);
            (cell.candidate.to_string(), cell.settings.get("narenas").cloned())
        };
        assert_eq!(of(&[("JE_NARENAS", "3")]), ("jemalloc JE_NARENAS=3".into(), None));
        assert_eq!(of(&[("JE_TCACHE", "false")]).1.as_deref(), Some("160"));
    }

    #[test]
    fn what_is_unknown_is_refused_with_the_nearest_names() {
        for (text, said) in [
            ("candidates = ['jemaloc']", "no candidate `jemaloc`; perhaps jemalloc"),
            ("candidates = ['go:gogc=50']", "no candidate `go`: its cell is built in a clone of allocanary"),
            ("candidates = ['jemalloc:narena=1']", "jemalloc has no setting `narena`; perhaps narenas"),
            ("candidates = ['jemalloc:narenas=0']", "narenas: wanted a whole number from 1 to 4094, found `0`"),
            ("candidates = ['jemalloc']\nworkloads = ['serve']", "no workload `serve`; perhaps server"),
            ("candidates = ['jemalloc']\nworkloads = ['server:lives=1']", "no parameter `lives`; perhaps live"),
            ("candidates = ['jemalloc']\nworkloads = ['server:live=1']", "live: wanted a size from 65536"),
        ] {
            let error = plan(&study(text), &described()).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn variables_of_other_allocators_are_not_taken_over() {
        let inherited = BTreeMap::from([("JE_A".to_string(), "1".to_string()), ("MI_A".into(), "2".into())]);
        let file = StudyFile { inherited: Some(inherited), ..StudyFile::parse("", "candidates=['jemalloc']").unwrap() };
        let cells = plan(&file.check().unwrap(), &described()).unwrap();
        assert_eq!(cells[0].candidate.to_string(), "jemalloc JE_A=1");
        assert_eq!(cells[0].candidate.inherited.len(), 1);
    }
}
