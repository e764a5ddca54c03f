//! The rows of an interrupted study. In: rows, the plan, the available cells. Out: the cells that are done, and those
//! to run again; an error if the rows are of another study or another build.

use std::collections::{BTreeMap, BTreeSet};

use crate::session::StudyFiles;
use allocanary_measure::rows;
use allocanary_rows::Cell;
use allocanary_rows::description::Description;
use allocanary_rows::error::{Error, Result};
use allocanary_rows::provenance::Build;
use allocanary_rows::sample::Sample;

/// The cells that already have rows.
#[derive(Debug, Default)]
pub struct EarlierCells {
    /// Cells with a successful row.
    done: BTreeSet<String>,
    /// Cells with failed rows only, each with the time of the last failure and the host on which its study began.
    failed: BTreeMap<String, (u64, String)>,
    /// The host on which the study began: that of the first row.
    began_on: Option<String>,
}

impl EarlierCells {
    /// Reads the rows of the target; nothing if there are none, or if they cannot be read again. `builds` are those of
    /// the user's files as they are now.
    pub fn read<'a>(
        target: &StudyFiles,
        planned: impl Iterator<Item = &'a Cell> + Clone,
        cells: &[Description],
        builds: &BTreeMap<String, String>,
    ) -> Result<EarlierCells> {
        let mut earlier = EarlierCells::default();
        let Some(path) = target.rows() else { return Ok(earlier) };
        let plan: BTreeSet<String> = planned.clone().map(Cell::identity).collect();
        let mut problem = None;
        rows::read(&[path], |sample| {
            let identity = sample.cell.identity();
            if problem.is_none() {
                problem = other_study(&sample, plan.contains(&identity), planned.clone())
                    .or_else(|| other_build(&sample, cells))
                    .or_else(|| other_file(&sample, builds));
            }
            earlier.add(&sample, identity);
            Ok(())
        })?;
        match problem {
            None => Ok(earlier),
            Some(problem) => Err(Error::Input(format!("--resume: {}: {problem}", target.name()))),
        }
    }

    /// Adds a row.
    pub fn add(&mut self, sample: &Sample, identity: String) {
        self.began_on.get_or_insert_with(|| sample.origin().to_string());
        if sample.error.is_none() {
            self.failed.remove(&identity);
            self.done.insert(identity);
        } else if !self.done.contains(&identity) {
            self.failed.insert(identity, (sample.started_ms, sample.origin().to_string()));
        }
    }

    /// Whether a cell has a row that counts.
    pub fn has(&self, cell: &Cell) -> bool {
        self.done.contains(&cell.identity())
    }

    /// The sample, with the failure that it replaces if its cell was tried before, and with the host on which its study
    /// began if that was another one.
    pub fn marked(&self, sample: &Sample) -> Sample {
        let failed = self.failed.get(&sample.cell.identity());
        let began_on = failed.map(|(_, host)| host).or(self.began_on.as_ref());
        Sample {
            replaces: failed.map(|(started_ms, _)| *started_ms),
            began_on: began_on.filter(|host| **host != sample.provenance.host.name).cloned(),
            ..sample.clone()
        }
    }
}

/// The next step for rows that must not be combined.
const INSTEAD: &str = "name another --out-dir or --output; `allocanary report` reads both together";

/// The error for a row that is not in the plan.
fn other_study<'a>(sample: &Sample, is_planned: bool, mut planned: impl Iterator<Item = &'a Cell>) -> Option<String> {
    if is_planned {
        return None;
    }
    let cell = &sample.cell;
    let same = |other: &&Cell| other.study == cell.study && other.title() == cell.title();
    let difference = match planned.find(same) {
        Some(other) if other.seed != cell.seed => format!("wanted seed {}, found {}", other.seed, cell.seed),
        Some(other) => format!("wanted settings {:?}, found {:?}", other.settings, cell.settings),
        None => "it is not in this study's plan".into(),
    };
    let of = cell.study.as_ref().map_or(String::new(), |name| format!(" of the study {name}"));
    Some(format!("has rows of another study, such as {}{of}: {difference}: {INSTEAD}", cell.title()))
}

/// The error for a row of another build, whose cells are not available.
fn other_build(sample: &Sample, cells: &[Description]) -> Option<String> {
    let found = &sample.provenance.build;
    let same = |build: &Build| build.package == found.package && build.version == found.version && build.id == found.id;
    let this = Build::this();
    if same(&this) || cells.iter().any(|cell| same(&cell.build)) {
        return None;
    }
    let at_hand = cells.iter().map(|cell| &cell.build).find(|build| build.package == found.package);
    let show = |build: &Build| {
        let Build { package, version, revision, id, profile, .. } = build;
        format!("{package} {version} {revision} {id} ({profile})")
    };
    let wanted = show(at_hand.unwrap_or(&this));
    Some(format!(
        "has rows of another build: wanted {wanted}, found {}: finish it with that build, or {INSTEAD}",
        show(found)
    ))
}

/// The error for a row of another build of the user's program, or of a library that its candidate names.
pub fn other_file(sample: &Sample, builds: &BTreeMap<String, String>) -> Option<String> {
    let differs = |(name, found): (&String, &String)| {
        let wanted = builds.get(name).filter(|wanted| *wanted != found)?;
        Some(format!(
            "has rows of another build of {name}: wanted {wanted}, found {found}: finish it with that build, or name another \
             --out-dir or --output; `allocanary report` shows both, each by itself"
        ))
    };
    sample.builds.iter().find_map(differs)
}
