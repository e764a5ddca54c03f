//! The candidates of a program. In: the cells' descriptions, and the program's own allocator. Out: for each candidate,
//! its settings, how they reach it, and its library.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::commands::library;
use allocanary_doctor::VariableEffect;
use allocanary_doctor::installed::{self, Installed};
use allocanary_doctor::own_variable;
use allocanary_doctor::program::StartableProgram;
use allocanary_facts::environment::Environment;
use allocanary_facts::setting::{Setting, SettingKind};
use allocanary_facts::{MEMORY_BUDGET, THREAD_IDLE};
use allocanary_facts::{our, ours, suggested};
use allocanary_rows::description::{Description, WorkloadDescription};
use allocanary_rows::error::Error;
use allocanary_rows::error::Result;
use allocanary_study::builds::cache::LibraryFolder;
use allocanary_study::builds::releases::{Release, find, releases};
use allocanary_study::program::Other;
use allocanary_study::program::huge_pages;
use allocanary_study::program::runtimes;

/// The job of all candidates. Its duration is set after the first run.
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

/// The setting `thread_idle`, which all preloads have.
pub const fn idle() -> Setting {
    Setting::new(THREAD_IDLE, SettingKind::Text, "idle threads give back after this time, such as 100ms")
}

/// The setting `memory_budget`, which all preloads have.
pub const fn budget() -> Setting {
    Setting::new(
        MEMORY_BUDGET,
        SettingKind::Text,
        "gives back before this memory limit: container, or a size such as 1GiB",
    )
}

/// The other allocators on this host: those that `allocanary build` has built, and those that are installed. A built
/// library is preferred to an installed one of the same name. A library that was changed after it was built is left
/// out.
pub fn installed() -> Vec<Installed> {
    let ours: Vec<&str> = ours().map(|(one, _)| one.name).collect();
    let built = LibraryFolder::of_user().map(|cache| cache.all()).unwrap_or_default();
    let built = built.iter().filter(|built| built.check().is_ok());
    let mut all: Vec<Installed> =
        built.filter_map(|built| installed::built(&built.allocator, &built.version, &built.library)).collect();
    let of_host = installed::installed(&ours).into_iter();
    let new: Vec<Installed> = of_host.filter(|one| all.iter().all(|built| built.name != one.name)).collect();
    all.extend(new);
    all
}

/// Whether this host has another allocator of this name, perhaps with its version.
pub fn is_there(name: &str, installed: &[Installed]) -> bool {
    installed.iter().any(|one| names(one).any(|known| known == name))
}

/// A candidate with the complete version: `mimalloc@2.2` is the newest 2.2 on this host, or else the newest that can be
/// built. `tcmalloc` is Debian's `tcmalloc_minimal` if there is no other one. Other candidates are not changed.
pub fn whole(candidate: &str, installed: &[Installed]) -> String {
    let (name, settings) = candidate.split_at(candidate.find(':').unwrap_or(candidate.len()));
    let is_there = |name: &str| is_there(name, installed);
    let begins = |release: &&Release| release.name() == name || release.name().starts_with(&format!("{name}."));
    if is_there(name) {
        return candidate.into();
    }
    let (allocator, version) = name.split_at(name.find('@').unwrap_or(name.len()));
    let minimal = format!("{allocator}_minimal{version}");
    if is_there(&minimal) {
        return minimal + settings;
    }
    if version.is_empty() {
        return candidate.into();
    }
    let there = releases().filter(begins).map(Release::name).find(|name| is_there(name));
    let whole = there.or_else(|| find(name).ok().map(|release| release.name()));
    format!("{}{settings}", whole.as_deref().unwrap_or(name))
}

/// Fails if a candidate is a version that can be built and is not.
pub fn refuse_unbuilt(candidates: &[String], known: &[Description]) -> Result<()> {
    let name = |candidate: &String| candidate.split(':').next().unwrap_or_default().to_string();
    let is_known = |name: &String| known.iter().any(|one| one.allocator == *name);
    let missing: Vec<String> =
        candidates.iter().map(name).filter(|name| name.contains('@') && !is_known(name)).collect();
    let releases = missing.iter().map(|name| find(name).map(|release| (name, release.name())));
    match releases.collect::<std::result::Result<Vec<_>, _>>() {
        // A version that cannot be built is reported elsewhere, with the names that exist.
        Err(_) => Ok(()),
        Ok(releases) => match releases.first() {
            None => Ok(()),
            Some((name, release)) if name == &release => Err(Error::Input(format!(
                "candidate `{name}`: it is not built yet: allocanary build {}",
                missing.join(" ")
            ))),
            Some((name, release)) => Err(Error::Input(format!(
                "candidate `{name}`: wanted a whole version, such as {release}: allocanary build {release}"
            ))),
        },
    }
}

/// The libraries of these allocators, by each name that a candidate may give: `tcmalloc` and `tcmalloc@2.10`.
pub fn others(installed: &[Installed]) -> BTreeMap<String, Other> {
    let other = |one: &Installed| Other { library: one.path.clone(), reader: one.reader };
    installed.iter().flat_map(|one| names(one).map(|name| (name, other(one)))).collect()
}

/// Our library that reads settings back from other allocators, if one of these candidates is such an allocator.
pub fn prover<'a>(
    mut allocators: impl Iterator<Item = &'a str>,
    others: &BTreeMap<String, Other>,
    folders: &[PathBuf],
) -> Result<Option<PathBuf>> {
    match allocators.find(|name| others.contains_key(*name)) {
        Some(name) => library::for_loader("prove", &candidate(name), folders).map(Some),
        None => Ok(None),
    }
}

/// The allocator's name, and its name with its version.
fn names(one: &Installed) -> impl Iterator<Item = String> + use<> {
    let whole = (!one.name.contains('@')).then(|| format!("{}@{}", one.name, one.version));
    std::iter::once(one.name.clone()).chain(whole)
}

/// Describes `own`, each allocator that can be preloaded, and the other allocators on this host.
pub fn described(cells: &[Description], looked: &StartableProgram, installed: &[Installed]) -> Vec<Description> {
    let of = |name: &str| cells.iter().find(|cell| cell.allocator == name);
    let mut all = Vec::new();
    for cell in ours().filter_map(|(one, _)| of(one.name)) {
        let settings = cell.settings.iter().cloned().chain([idle(), budget(), huge_pages::setting()]).collect();
        all.push(Description { settings, workloads: vec![job()], ..cell.clone() });
    }
    if let Some(base) = own_like(looked).and_then(of).or_else(|| cells.first()) {
        let reads = looked.reads_settings() == VariableEffect::Read;
        let own = if reads { base.settings.clone() } else { Vec::new() };
        let own = Description {
            allocator: "own".into(),
            version: looked.own.name().into(),
            settings: own.into_iter().chain([huge_pages::setting()]).collect(),
            environment: own_environment(looked, base.environment.clone()),
            effective: BTreeMap::new(),
            problems: Vec::new(),
            // Without a preload, only jemalloc can be told how many cores are emulated.
            per_core: base.per_core.clone().filter(|_| reads && looked.own.is_jemalloc()),
            workloads: vec![job()],
            ..base.clone()
        };
        all.insert(0, own);
    }
    if let Some(base) = cells.first() {
        let of = |one: &Installed, name: String| Description {
            allocator: name,
            version: one.version.clone(),
            settings: one.settings.iter().cloned().chain([huge_pages::setting()]).collect(),
            environment: one.environment.clone(),
            effective: BTreeMap::new(),
            problems: Vec::new(),
            per_core: None,
            workloads: vec![job()],
            ..base.clone()
        };
        all.extend(installed.iter().flat_map(|one| names(one).map(move |name| of(one, name))));
    }
    all
}

/// Adds the settings of the program's runtime to those of `own`.
pub fn add_runtime(described: &mut [Description], found: Option<&runtimes::ProgramRuntime>) {
    let own = described.iter_mut().find(|one| one.allocator == "own");
    if let Some((own, found)) = own.zip(found) {
        own.settings.extend(found.knobs().map(|knob| knob.setting.clone()));
        own.effective.extend(found.usual());
    }
}

/// The program's own allocator, if it is one of ours.
pub fn own_like(looked: &StartableProgram) -> Option<&'static str> {
    looked.own.allocator().filter(|one| one.ours.is_some()).map(|one| one.name)
}

/// The variables that the program's own allocator reads.
fn own_environment(looked: &StartableProgram, like: Environment) -> Environment {
    if !looked.own.is_jemalloc() {
        return like;
    }
    match like {
        Environment::Joined { single, prefix, assign, separator, .. } => Environment::Joined {
            variable: own_variable(looked.own).into(),
            earlier: Cow::Owned(Vec::new()),
            single,
            prefix,
            assign,
            separator,
        },
        other => other,
    }
}

/// The settings of the program's own allocator that are tried by default. They are the settings that are tried when this allocator is
/// preloaded.
pub fn own_settings(looked: &StartableProgram) -> impl Iterator<Item = &'static str> {
    let settings = |name: &str, candidate: &'static str| candidate.strip_prefix(name)?.strip_prefix(':');
    let like = own_like(looked).into_iter();
    like.flat_map(move |name| suggested().filter_map(move |suggested| settings(name, suggested.candidate)))
}

/// The library of each of these allocators that can be preloaded.
pub fn libraries<'a>(
    allocators: impl Iterator<Item = &'a str>,
    folders: &[PathBuf],
) -> Result<BTreeMap<String, PathBuf>> {
    let ours = allocators.filter(|name| our(name).is_some());
    ours.map(|name| Ok((name.to_string(), library::for_loader(name, &candidate(name), folders)?))).collect()
}

/// What an error about a candidate's library begins with.
fn candidate(name: &str) -> String {
    format!("candidate `{name}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_without_its_last_number_is_the_newest_that_is_there() {
        let there = |name: &str, version: &str| Installed {
            name: name.into(),
            version: version.into(),
            path: PathBuf::new(),
            settings: Vec::new(),
            environment: Environment::Each { prefix: "".into() },
            reader: "none",
        };
        let installed = [there("mimalloc@2.2.4", "2.2.4"), there("mimalloc@2.2.3", "2.2.3"), there("tcmalloc", "2.10")];
        let whole = |name: &str| whole(name, &installed);
        assert_eq!(whole("mimalloc@2.2:purge_delay=0"), "mimalloc@2.2.4:purge_delay=0");
        assert_eq!(whole("mimalloc@3.3"), "mimalloc@3.3.2", "it can be built");
        for same in ["tcmalloc@2.10", "system:arena_max=1", "jemalloc@9", "mimalloc@2.2.3", "jemalloc"] {
            assert_eq!(whole(same), same);
        }
    }

    #[test]
    fn tcmalloc_is_the_minimal_library_where_there_is_no_other() {
        let there = |name: &str| Installed {
            name: name.into(),
            version: "2.10".into(),
            path: PathBuf::new(),
            settings: Vec::new(),
            environment: Environment::Each { prefix: "".into() },
            reader: "none",
        };
        let minimal = [there("tcmalloc_minimal")];
        assert_eq!(whole("tcmalloc:heap_limit_mb=9", &minimal), "tcmalloc_minimal:heap_limit_mb=9");
        assert_eq!(whole("tcmalloc@2.10", &minimal), "tcmalloc_minimal@2.10");
        assert_eq!(whole("tcmalloc", &[there("tcmalloc"), there("tcmalloc_minimal")]), "tcmalloc");
        assert_eq!(whole("tcmalloc", &[]), "tcmalloc");
    }

    #[test]
    fn a_version_that_is_not_built_yet_is_refused_with_the_command_that_builds_it() {
        let refused = |candidates: &[&str]| {
            let candidates: Vec<String> = candidates.iter().map(|one| one.to_string()).collect();
            refuse_unbuilt(&candidates, &[]).map_err(|error| error.to_string())
        };
        let both = refused(&["system", "mimalloc@2.2.5:purge_delay=0", "jemalloc@5.3.0"]).unwrap_err();
        assert!(both.contains("allocanary build mimalloc@2.2.5 jemalloc@5.3.0"), "{both}");
        assert!(refused(&["mimalloc@2.2"]).unwrap_err().contains("a whole version, such as mimalloc@2.2.5"));
        assert_eq!(refused(&["jemalloc@9.9.9"]), Ok(()), "the study names the nearest that are there");
        assert_eq!(refused(&["system", "jemalloc:narenas=1"]), Ok(()));
    }
}
