//! The advice for jemalloc: the reasons, and the variable.

use allocanary_facts::jemalloc::{NAME, PLAIN_VARIABLE};
use allocanary_facts::paste;

use super::builds::{own_link, own_variable, reader};
use super::defaults::arenas;
use super::links::variable_of;
use super::variables::assignments;
use crate::contract::Case;
use crate::flavour::Flavour;
use crate::judgement::Advice;
use crate::variables::{VariableEffect, Variables, settings};

/// What `allocanary tune` proved on the built-in workloads: see docs/lab/tuning.md, "What wins where".
const PROVEN: &str = "narenas:1,tcache:false: in the workload `server` at 40 cores 79 % less when idle; \
                               threads that do little but allocate, as in `small`, need more than twice the \
                               processor time. `allocanary study winners` shows both here";

/// The settings that are considered.
#[derive(Clone, Copy)]
pub(super) struct Considered {
    pub arenas: bool,
    pub background_thread: bool,
}

pub(super) fn advice(case: &Case) -> Option<Advice> {
    advise(case, Considered { arenas: true, background_thread: true })
}

pub(super) fn advise(&Case { at, variables, flavour, subject, seen }: &Case, considered: Considered) -> Option<Advice> {
    let (variable, link) = (own_variable(flavour), own_link(flavour));
    let handed_on = matches!(flavour, Flavour::RustJemalloc { installs: true });
    // If only the jemalloc of the program's C code reads a variable, the variable is meant for that jemalloc.
    let of_another = |name: &str| {
        let others = subject.unwrap_or_default().iter().filter(|other| other.is_jemalloc() && **other != flavour);
        // A jemalloc of `install!` or of a preload takes the settings of all these variables.
        let takes =
            |other: &Flavour| own_variable(*other) == name || matches!(other, Flavour::RustJemalloc { installs: true });
        !handed_on && name != variable && others.into_iter().any(takes)
    };
    // The link of another build is meant for other programs.
    let meant_here = |(name, _): &(&String, &String)| match variable_of(name) {
        Some(_) => *name == link,
        None => !of_another(name),
    };
    let all = assignments(&variables.iter().filter(meant_here).map(owned).collect(), &seen.libraries);
    let mut meant = seen.code.clone();
    meant.extend(settings(&all, NAME));
    let own: Variables = variables.iter().filter(|(name, _)| *name == variable || *name == link).map(owned).collect();
    let mut in_force = seen.code.clone();
    in_force.extend(settings(&assignments(&own, &seen.libraries), NAME));
    // The settings that the program reads take precedence over those in variables that it ignores.
    meant.extend(in_force.clone());
    let mut wanted = meant.clone();
    let mut install = Vec::new();
    let mut reasons = Vec::new();
    // The settings in a variable that this program ignores are moved to the variable that it reads.
    let ignored = |name: &String, value: &String| {
        name.ends_with(PLAIN_VARIABLE)
            && reader(name, value, subject).is_some_and(|(effect, _)| effect != VariableEffect::Read)
    };
    let has_settings = |name: &String| all.iter().any(|one| one.variable == *name && one.becomes.is_some());
    if let Some((moved, _)) = variables.iter().find(|(name, value)| ignored(name, value) && has_settings(name)) {
        reasons.push(format!("{variable} is what such a program reads: the settings in {moved} move there"));
    }
    let (default, usable) = (arenas(at.cpus.affinity), at.cpus.count());
    // With a ratio, the user has also chosen the number of arenas.
    let chosen = meant.contains_key("narenas") || meant.contains_key("narenas_ratio");
    // One thread uses only one arena.
    if considered.arenas && !chosen && default > usable && !seen.is_single() {
        wanted.insert("narenas".into(), usable.to_string());
        install.push("narenas = per_cpu(1)".to_string());
        reasons.push(format!("narenas: {usable}, one for each usable processor, instead of {default}; each arena keeps what was freed in it"));
    }
    let decays = meant.get("dirty_decay_ms").is_none_or(|time| time != "0" && time != "-1");
    // jemalloc has background threads since 5.0. tikv-jemalloc-sys builds them in for glibc, but not for musl.
    let is_built_in = at.has_glibc() || !matches!(flavour, Flavour::RustJemalloc { .. });
    let has_them = is_built_in && seen.libraries.jemalloc_release().is_none_or(|release| release[0] >= 5);
    // A program may enable them itself, as Redis does.
    let run_already = meant.contains_key("background_thread") || seen.background_threads > 0;
    let is_advised = considered.background_thread && has_them && decays && !run_already;
    if is_advised && at.forks {
        // A decay that the user has set stays.
        if !meant.contains_key("dirty_decay_ms") {
            for name in ["dirty_decay_ms", "muzzy_decay_ms"].into_iter().filter(|name| !meant.contains_key(*name)) {
                wanted.insert(name.into(), "0".into());
                install.push(format!("{name} = 0"));
            }
            reasons.push(
                "dirty_decay_ms: 0 gives freed pages back at once. The program forks, and a thread of jemalloc that would give them back \
                 does not survive a fork"
                    .into(),
            );
        }
    } else if is_advised {
        wanted.insert("background_thread".into(), "true".into());
        install.push("background_thread = true".to_string());
        reasons.push(
            "background_thread: without it freed pages go back only while threads allocate and free, and those of an arena that is idle stay"
                .into(),
        );
    }
    // A preload's own setting is not a setting of the allocator.
    install.extend(
        meant
            .iter()
            .filter(|(key, _)| *key != allocanary_facts::THREAD_IDLE)
            .map(|(key, value)| paste::assigned(key, value)),
    );
    if wanted == in_force || (handed_on && wanted == meant) {
        return None;
    }
    // Settings that code makes are not moved to the variable.
    let by_variable = wanted.iter().filter(|(key, value)| seen.code.get(*key) != Some(value));
    let value = by_variable.map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>().join(",");
    let install = Some(paste::install(NAME, &install));
    let fewer_arenas = !chosen && wanted.contains_key("narenas");
    // A program that does not run yet may contain either build.
    let also = subject.is_none().then_some(PLAIN_VARIABLE);
    let is_chosen = ["narenas", "narenas_ratio", "tcache", "tcache_max"].iter().any(|name| meant.contains_key(*name));
    let proven = (!is_chosen && !seen.is_single()).then_some(PROVEN);
    let variable = (variable.into(), value);
    Some(Advice { allocator: NAME, reasons, variable, also, install, fewer_arenas, proven })
}

fn owned((name, value): (&String, &String)) -> (String, String) {
    (name.clone(), value.clone())
}
