//! The candidates of a program. In: the cells' descriptions, and what the program's own allocator is. Out: each
//! candidate's table of settings, how they reach it, and its library.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::commands::cells;
use allocanary_allocators::allocators::{KNOWN, known};
use allocanary_allocators::environment::Environment;
use allocanary_allocators::setting::{Kind, Setting};
use allocanary_cell::description::{Description, WorkloadDescription};
use allocanary_doctor::program::Program as Looked;
use allocanary_doctor::{Effect, Flavour};
use allocanary_study::PROGRAM_CANDIDATES;
use allocanary_study::error::{Error, Result};
use allocanary_study::run::program::{THREAD_IDLE, huge_pages};

/// The job of all candidates: how long it takes is set after the first run.
fn job() -> WorkloadDescription {
    WorkloadDescription {
        name: "program".into(),
        about: "the user's program".into(),
        operation: "run".into(),
        parameters: Vec::new(),
        seconds: 0.0,
        grows_with: Vec::new(),
        rests: None,
    }
}

/// The setting of all preloads.
pub const fn idle() -> Setting {
    Setting::new(THREAD_IDLE, Kind::Text, "idle threads give back after this time, such as 100ms")
}

/// A description for `own` and for each allocator that can be preloaded.
pub fn described(cells: &[Description], looked: &Looked) -> Vec<Description> {
    let of = |name: &str| cells.iter().find(|cell| cell.allocator == name);
    let mut all = Vec::new();
    for cell in KNOWN.iter().filter_map(|known| of(known.name)) {
        let settings = cell.settings.iter().cloned().chain([idle(), huge_pages::setting()]).collect();
        all.push(Description { settings, workloads: vec![job()], ..cell.clone() });
    }
    if let Some(base) = own_like(looked).and_then(of).or_else(|| cells.first()) {
        let reads = looked.reads_settings() == Effect::Read;
        let own = if reads { base.settings.clone() } else { Vec::new() };
        let own = Description {
            allocator: "own".into(),
            version: looked.own.name().into(),
            settings: own.into_iter().chain([huge_pages::setting()]).collect(),
            environment: own_environment(looked, base.environment.clone()),
            effective: BTreeMap::new(),
            problems: Vec::new(),
            // Nobody else can tell a program without a preload of the cores that are emulated.
            per_core: base.per_core.clone().filter(|_| reads && looked.own.is_jemalloc()),
            workloads: vec![job()],
            ..base.clone()
        };
        all.insert(0, own);
    }
    all
}

/// The allocator of ours that is like the program's own.
pub fn own_like(looked: &Looked) -> Option<&'static str> {
    match looked.own {
        Flavour::Glibc => Some("system"),
        flavour => known(flavour.name()).map(|known| known.name),
    }
}

/// The variables that the program's own allocator reads.
fn own_environment(looked: &Looked, like: Environment) -> Environment {
    let variable = match looked.own {
        Flavour::RustJemalloc { .. } => "_RJEM_MALLOC_CONF",
        Flavour::PlainJemalloc => "MALLOC_CONF",
        Flavour::PrefixedJemalloc => "JE_MALLOC_CONF",
        _ => return like,
    };
    match like {
        Environment::Joined { single, prefix, assign, separator, .. } => Environment::Joined {
            variable: variable.into(),
            earlier: Cow::Owned(Vec::new()),
            single,
            prefix,
            assign,
            separator,
        },
        other => other,
    }
}

/// The settings of its own allocator that are tried by default: those that are tried where it is preloaded.
pub fn own_settings(looked: &Looked) -> impl Iterator<Item = &'static str> {
    let settings = |name: &str, candidate: &'static str| candidate.strip_prefix(name)?.strip_prefix(':');
    let like = own_like(looked).into_iter();
    like.flat_map(move |name| PROGRAM_CANDIDATES.iter().filter_map(move |candidate| settings(name, candidate)))
}

/// The library of each of these allocators that can be preloaded.
pub fn libraries<'a>(
    allocators: impl Iterator<Item = &'a str>,
    folders: &[PathBuf],
) -> Result<BTreeMap<String, PathBuf>> {
    let own = std::env::current_exe().map_err(|error| Error::file("the command", "finding", error))?;
    let own = own.parent().map(Path::to_path_buf);
    let folders: Vec<PathBuf> = folders.iter().cloned().chain(own).collect();
    let mut all = BTreeMap::new();
    for name in allocators.filter(|name| known(name).is_some()) {
        let find = || folders.iter().map(|folder| folder.join(format!("preload-{name}"))).find(|path| path.is_file());
        let found = match find() {
            Some(found) => found,
            None => {
                cells::build_missing()?;
                find().ok_or_else(|| {
                    Error::Cell(format!(
                        "candidate `{name}`: there is no preload-{name} next to the command: `cargo install --path . --locked` installs it; \
                         --cells names another folder"
                    ))
                })?
            }
        };
        let found = found.canonicalize().unwrap_or(found);
        if found.display().to_string().contains([' ', ':']) {
            let found = found.display();
            return Err(Error::Cell(format!(
                "{found}: LD_PRELOAD cannot name a path with a space or a colon: move it"
            )));
        }
        all.insert(name.to_string(), found);
    }
    Ok(all)
}
