//! What to change, as text ready to paste. In: surroundings, an environment, and the program's allocators if known.
//! Out: for each allocator the reasons, the variables, and the lines for Docker, Kubernetes and Rust.

use super::defaults::{defaults, jemalloc_arenas, takes_huge_pages};
use super::environment::{Remark, examine};
use super::host::Surroundings;
use super::jemalloc::{own_link, own_variable};
use super::links::variable_of;
use super::seen::Seen;
use super::variables::{Family, assignments, settings};
use super::{Effect, Flavour, Variables};
use allocanary_allocators::paste;

/// What `allocanary tune` proved on the built-in workloads: see docs/tuning.md, "What wins where".
const PROVEN_JEMALLOC: &str = "narenas:1,tcache:false: in the workload `server` at 40 cores 79 % less when idle; \
                               threads that do little but allocate, as in `small`, need more than twice the \
                               processor time. `allocanary study winners` shows both here";
const PROVEN_GLIBC: &str = "arena_max 1: in the workload `server` at 40 cores a third less when idle; one arena makes \
                            threads wait for each other, there and in `handoff`. `allocanary study winners` shows both \
                            here";

/// A change for one allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The allocator: `jemalloc`.
    pub allocator: &'static str,
    /// The reasons, one sentence each.
    pub reasons: Vec<String>,
    /// The variable to set, and its value. The value includes the valid settings that the variable already had.
    pub variable: (String, String),
    /// Another variable for the same settings: `MALLOC_CONF`, for a jemalloc with C's own names.
    pub also: Option<&'static str>,
    /// The lines for the root of a Rust program; `None` if it is not a Rust program.
    pub install: Option<String>,
    /// Whether it reduces the number of arenas, which may reduce speed.
    pub fewer_arenas: bool,
    /// Other settings that a search found and proved, with the study that shows it: to try, not to paste.
    pub proven: Option<&'static str>,
}

/// The advice for the program's own allocator, or for each allocator of the programs that may be started from here.
/// `seen` is what the program shows.
pub fn advice(at: &Surroundings, variables: &Variables, subject: Option<&[Flavour]>, seen: &Seen) -> Vec<Advice> {
    let of = |flavour: Flavour| {
        let advice = match flavour {
            Flavour::Mimalloc => mimalloc(at, variables, subject, seen),
            Flavour::Glibc => glibc(at, variables, seen),
            flavour if flavour.is_jemalloc() => jemalloc(at, variables, flavour, subject, seen),
            _ => None,
        }?;
        let is_rust = seen.rust != Some(false) || matches!(flavour, Flavour::RustJemalloc { .. });
        Some(Advice { install: advice.install.filter(|_| is_rust), ..advice })
    };
    match subject.and_then(<[Flavour]>::first) {
        Some(own) => of(*own).into_iter().collect(),
        None => {
            let system = if at.has_glibc() { Flavour::Glibc } else { Flavour::OtherLibc };
            [Flavour::RustJemalloc { installs: false }, system, Flavour::Mimalloc].into_iter().filter_map(of).collect()
        }
    }
}

fn jemalloc(
    at: &Surroundings,
    variables: &Variables,
    flavour: Flavour,
    subject: Option<&[Flavour]>,
    seen: &Seen,
) -> Option<Advice> {
    let (variable, link) = (own_variable(flavour), own_link(flavour));
    let handed_on = matches!(flavour, Flavour::RustJemalloc { installs: true });
    // What the jemalloc of the program's C code reads is meant for that one.
    let of_another = |name: &str| {
        let others = subject.unwrap_or_default().iter().filter(|other| other.is_jemalloc() && **other != flavour);
        // One of `install!` or of a preload takes the settings of all these variables.
        let takes =
            |other: &Flavour| own_variable(*other) == name || matches!(other, Flavour::RustJemalloc { installs: true });
        !handed_on && name != variable && others.into_iter().any(takes)
    };
    // A link of another build is for other programs.
    let meant_here = |(name, _): &(&String, &String)| match variable_of(name) {
        Some(_) => *name == link,
        None => !of_another(name),
    };
    let all = assignments(&variables.iter().filter(meant_here).map(owned).collect(), &seen.libraries);
    let mut meant = seen.code.clone();
    meant.extend(settings(&all, Family::Jemalloc));
    let own: Variables = variables.iter().filter(|(name, _)| *name == variable || *name == link).map(owned).collect();
    let mut in_force = seen.code.clone();
    in_force.extend(settings(&assignments(&own, &seen.libraries), Family::Jemalloc));
    // What the program reads holds, whatever a variable says that it ignores.
    meant.extend(in_force.clone());
    let mut wanted = meant.clone();
    let mut install = Vec::new();
    let mut reasons = Vec::new();
    // The settings in a variable that this program ignores are moved to the variable that it reads.
    let ignored = |remark: &Remark| remark.verdict != Effect::Read && remark.variable.ends_with("MALLOC_CONF");
    let remarks = examine(variables, subject, &seen.libraries);
    let has_settings = |name: &str| all.iter().any(|one| one.variable == name && one.becomes.is_some());
    if let Some(moved) = remarks.iter().filter(|remark| ignored(remark)).find(|remark| has_settings(&remark.variable)) {
        reasons.push(format!("{variable} is what such a program reads: the settings in {} move there", moved.variable));
    }
    let (default, usable) = (jemalloc_arenas(at.cpus.affinity), at.cpus.count());
    // A ratio is also a choice of the user.
    let chosen = meant.contains_key("narenas") || meant.contains_key("narenas_ratio");
    // One thread uses only one arena.
    if !chosen && default > usable && !seen.is_single() {
        wanted.insert("narenas".into(), usable.to_string());
        install.push("narenas = per_cpu(1)".to_string());
        reasons.push(format!("narenas: {usable}, one for each usable processor, instead of {default}; each arena keeps what was freed in it"));
    }
    let decays = meant.get("dirty_decay_ms").is_none_or(|time| time != "0" && time != "-1");
    // jemalloc has them since 5.0, and tikv-jemalloc-sys builds them in for glibc, but not for musl.
    let is_built_in = at.has_glibc() || !matches!(flavour, Flavour::RustJemalloc { .. });
    let has_them = is_built_in && seen.libraries.jemalloc_release().is_none_or(|release| release[0] >= 5);
    // A program may enable them itself, as Redis does.
    let run_already = meant.contains_key("background_thread") || seen.background_threads > 0;
    if has_them && decays && !run_already {
        wanted.insert("background_thread".into(), "true".into());
        install.push("background_thread = true".to_string());
        reasons
            .push("background_thread: without it an idle process gives nothing back, whatever the decay time".into());
    }
    // A preload's own setting is none of the allocator.
    install.extend(meant.iter().filter(|(key, _)| *key != "idle").map(|(key, value)| paste::assigned(key, value)));
    if wanted == in_force || (handed_on && wanted == meant) {
        return None;
    }
    // What code sets stays where it is.
    let by_variable = wanted.iter().filter(|(key, value)| seen.code.get(*key) != Some(value));
    let value = by_variable.map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>().join(",");
    let install = Some(paste::install("jemalloc", &install));
    let fewer_arenas = !chosen && wanted.contains_key("narenas");
    // A program that does not run yet may have either build.
    let also = subject.is_none().then_some("MALLOC_CONF");
    let is_chosen = ["narenas", "narenas_ratio", "tcache", "tcache_max"].iter().any(|name| meant.contains_key(*name));
    let proven = (!is_chosen && !seen.is_single()).then_some(PROVEN_JEMALLOC);
    let variable = (variable.into(), value);
    Some(Advice { allocator: "jemalloc", reasons, variable, also, install, fewer_arenas, proven })
}

fn glibc(at: &Surroundings, variables: &Variables, seen: &Seen) -> Option<Advice> {
    let mut set = seen.code.clone();
    set.extend(settings(&assignments(variables, &seen.libraries), Family::Glibc));
    let default = defaults(at).into_iter().find(|default| default.allocator == "system")?.arenas?;
    let usable = at.cpus.count();
    if set.contains_key("arena_max") || default <= usable || seen.is_single() {
        return None;
    }
    let mut reasons = vec![format!(
        "arena_max: {usable}, one for each usable processor, instead of {default}; of each arena only the top goes back"
    )];
    if seen.jvm {
        reasons.push(
            "this is a Java virtual machine: the lines are about its native memory alone, not about its heap, which -Xmx limits; \
             `jcmd PID VM.native_memory` divides both"
                .into(),
        );
    }
    Some(Advice {
        allocator: "system",
        reasons,
        variable: ("MALLOC_ARENA_MAX".into(), usable.to_string()),
        also: None,
        install: Some("allocanary::install!(system, arena_max = per_cpu(1));".into()),
        fewer_arenas: true,
        proven: Some(PROVEN_GLIBC),
    })
}

fn mimalloc(at: &Surroundings, variables: &Variables, subject: Option<&[Flavour]>, seen: &Seen) -> Option<Advice> {
    let mut set = seen.code.clone();
    set.extend(settings(&assignments(variables, &seen.libraries), Family::Mimalloc));
    let has_option = seen.libraries.has_option("allow_thp");
    if set.contains_key("allow_thp") || !takes_huge_pages(&at.host.thp) || has_option == Some(false) {
        return None;
    }
    let holds = if subject.is_none() { "; measured with 3.3.2, and 2.0 has no such option" } else { "" };
    Some(Advice {
        allocator: "mimalloc",
        reasons: vec![format!(
            "allow_thp: with huge pages a thread's heap takes 2 MiB at a time (measured: 6.5 times the live bytes with \
             them, 2.7 times without{holds})"
        )],
        variable: ("MIMALLOC_ALLOW_THP".into(), "0".into()),
        also: None,
        install: Some("allocanary::install!(mimalloc, allow_thp = 0);".into()),
        fewer_arenas: false,
        proven: None,
    })
}

impl Advice {
    /// The name of the variable, and of the other one for the same settings if there is one.
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.variable.0.as_str()).chain(self.also)
    }

    /// The lines for a shell, or for a file of variables.
    pub fn environment(&self) -> Vec<String> {
        self.names().map(|name| paste::shell(name, &self.variable.1)).collect()
    }

    /// The lines for a Dockerfile.
    pub fn dockerfile(&self) -> Vec<String> {
        self.names().map(|name| paste::dockerfile(name, &self.variable.1)).collect()
    }

    /// The lines for a Kubernetes container's `env`.
    pub fn kubernetes(&self) -> Vec<String> {
        self.names().flat_map(|name| paste::kubernetes(name, &self.variable.1)).collect()
    }
}

fn owned((name, value): (&String, &String)) -> (String, String) {
    (name.clone(), value.clone())
}

#[cfg(test)]
mod tests {
    use super::super::host::sample;
    use super::*;

    fn of(quota_milli: Option<u64>, variables: &[(&str, &str)], subject: Option<&[Flavour]>) -> Vec<Advice> {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        advice(&sample(quota_milli, "madvise"), &variables, subject, &Seen::default())
    }

    #[test]
    fn sizes_follow_the_quota() {
        let all = of(Some(1500), &[], None);
        let lines: Vec<String> = all.iter().flat_map(Advice::environment).collect();
        assert_eq!(
            lines,
            [
                "_RJEM_MALLOC_CONF=background_thread:true,narenas:2",
                "MALLOC_CONF=background_thread:true,narenas:2",
                "MALLOC_ARENA_MAX=2",
                "MIMALLOC_ALLOW_THP=0"
            ]
        );
        let code = "allocanary::install!(\n    jemalloc, narenas = per_cpu(1), background_thread = true\n);";
        assert_eq!(all[0].install.as_deref(), Some(code));
        assert_eq!(all[1].dockerfile(), ["ENV MALLOC_ARENA_MAX=2"]);
        assert_eq!(all[1].kubernetes(), ["- name: MALLOC_ARENA_MAX", "  value: \"2\""]);
    }

    #[test]
    fn what_the_user_chose_stays_and_moves_to_where_it_is_read() {
        let rust = [Flavour::RustJemalloc { installs: false }, Flavour::Glibc];
        let moved = of(None, &[("MALLOC_CONF", "narenas:3,dirty_decay_ms:0")], Some(&rust));
        assert_eq!(moved[0].environment(), ["_RJEM_MALLOC_CONF=dirty_decay_ms:0,narenas:3"]);
        assert!(moved[0].reasons[0].contains("the settings in MALLOC_CONF move there"));
        let with_c = of(None, &[("MALLOC_CONF", "narenas:3")], Some(&[rust[0], Flavour::PlainJemalloc]));
        assert_eq!(with_c[0].environment(), ["_RJEM_MALLOC_CONF=background_thread:true,narenas:40"], "{with_c:?}");
        let set = [("_RJEM_MALLOC_CONF", "dirty_decay_ms:0"), ("MALLOC_CONF", "narenas:3")];
        let preloaded = of(None, &set, Some(&[rust[0], Flavour::RustJemalloc { installs: true }]));
        assert_eq!(preloaded[0].environment(), ["_RJEM_MALLOC_CONF=dirty_decay_ms:0,narenas:40"]);
        let plain = of(None, &[("MALLOC_CONF", "narenas:3,background_thread:true")], Some(&[Flavour::PlainJemalloc]));
        assert_eq!(plain, [], "nothing is left to change");
        let both = [("MALLOC_CONF", "narenas:4,background_thread:true"), ("_RJEM_MALLOC_CONF", "narenas:1")];
        assert_eq!(of(None, &both, Some(&[Flavour::PlainJemalloc])), [], "what is in force stays");
        let ratio = of(Some(500), &[("_RJEM_MALLOC_CONF", "narenas_ratio:0.5,background_thread:true")], Some(&rust));
        assert_eq!(ratio, [], "a ratio is a choice, too");
        let link = |path| of(None, &[(path, "narenas:3,background_thread:true")], Some(&rust));
        assert_eq!(link("/etc/_rjem_malloc.conf"), []);
        assert_eq!(link("/etc/malloc.conf")[0].environment(), ["_RJEM_MALLOC_CONF=background_thread:true,narenas:40"]);
        let installed = [Flavour::RustJemalloc { installs: true }];
        assert_eq!(of(None, &[("MALLOC_CONF", "narenas:3,dirty_decay_ms:0")], Some(&installed)), []);
    }

    #[test]
    fn advice_follows_what_a_process_shows() {
        let at = sample(None, "madvise");
        let of = |flavour: Flavour, seen: Seen| advice(&at, &Variables::new(), Some(&[flavour]), &seen);
        let c = |threads, background_threads| Seen {
            threads: Some(threads),
            background_threads,
            rust: Some(false),
            ..Seen::default()
        };
        let plain = of(Flavour::PlainJemalloc, c(8, 0));
        assert_eq!(plain[0].environment(), ["MALLOC_CONF=background_thread:true,narenas:40"]);
        assert_eq!(plain[0].install, None, "no Rust line for a C program");
        assert!(of(Flavour::PlainJemalloc, Seen { rust: Some(true), ..c(8, 0) })[0].install.is_some());
        assert_eq!(of(Flavour::PlainJemalloc, c(8, 4))[0].environment(), ["MALLOC_CONF=narenas:40"]);
        assert_eq!(of(Flavour::PlainJemalloc, c(1, 0))[0].environment(), ["MALLOC_CONF=background_thread:true"]);
        assert_eq!(of(Flavour::PlainJemalloc, c(5, 4)), [], "one thread of its own, and they are on");
        let version = |version: &str| {
            let mut seen = c(1, 0);
            seen.libraries.jemalloc = Some(version.into());
            of(Flavour::PlainJemalloc, seen).len()
        };
        assert_eq!(
            ["3.6.0", "4.5.0", "5.0.0", "5.3.0"].map(version),
            [0, 0, 1, 1],
            "without background threads before 5"
        );
        let mut quota = at.clone();
        quota.cpus.quota_milli = Some(1000);
        let glibc = |threads| advice(&quota, &Variables::new(), Some(&[Flavour::Glibc]), &c(threads, 0)).len();
        assert_eq!((glibc(1), glibc(2)), (0, 1));
        let words = |word: &str| Some([word.to_string()].into());
        let mimalloc = |word| {
            let mut seen = c(2, 0);
            seen.libraries.mimalloc_words = words(word);
            of(Flavour::Mimalloc, seen).len()
        };
        assert_eq!((mimalloc("allow_thp"), mimalloc("eager_commit")), (1, 0));
        assert_eq!(of(Flavour::Go, c(9, 0)), []);
    }

    #[test]
    fn a_rust_program_for_another_c_library_has_no_background_threads() {
        let of = |libc: &str, flavour: Flavour| {
            let mut at = sample(None, "madvise");
            at.libc = libc.into();
            let found = advice(&at, &Variables::new(), Some(&[flavour]), &Seen::default());
            found[0].variable.1.contains("background_thread")
        };
        let rust = Flavour::RustJemalloc { installs: false };
        assert!(of("glibc 2.36", rust) && of("glibc, linked statically", rust));
        assert!(!of("unknown: the program is linked statically", rust));
        assert!(of("ld-musl-x86_64.so.1", Flavour::PlainJemalloc), "a distribution's own build has them");
    }

    #[test]
    fn what_code_sets_is_in_force_and_only_what_differs_is_advised() {
        let with = |flavour: Flavour, code: &[(&str, &str)], variables: &[(&str, &str)]| {
            let owned =
                |all: &[(&str, &str)]| all.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            let seen = Seen { code: owned(code), threads: Some(9), ..Seen::default() };
            advice(&sample(Some(1000), "madvise"), &owned(variables), Some(&[flavour]), &seen)
        };
        let rust = Flavour::RustJemalloc { installs: true };
        assert_eq!(with(rust, &[("narenas", "1"), ("background_thread", "true")], &[]), []);
        assert_eq!(with(Flavour::Glibc, &[("arena_max", "1"), ("idle", "100ms")], &[]), []);
        assert_eq!(with(Flavour::Mimalloc, &[("allow_thp", "0")], &[]), []);
        let rest = &with(rust, &[("narenas", "1"), ("idle", "100ms")], &[])[0];
        assert_eq!(rest.environment(), ["_RJEM_MALLOC_CONF=background_thread:true"]);
        let code = "allocanary::install!(jemalloc, background_thread = true, narenas = 1);";
        assert_eq!(
            rest.install.as_deref().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).as_deref(),
            Some(code)
        );
        assert!(!with(Flavour::Glibc, &[], &[]).is_empty(), "without settings there is advice");
    }

    #[test]
    fn of_a_java_virtual_machine_only_the_native_memory_is_meant() {
        let seen = Seen { jvm: true, threads: Some(9), ..Seen::default() };
        let found = advice(&sample(Some(1000), "madvise"), &Variables::new(), Some(&[Flavour::Glibc]), &seen);
        assert!(found[0].reasons[1].contains("native memory alone"), "{found:?}");
    }

    #[test]
    fn what_a_search_proved_is_named_with_its_study_unless_the_user_chose_otherwise() {
        let proven = |variables: &[(&str, &str)]| -> Vec<bool> {
            let all = of(None, variables, None);
            all.iter().map(|one| one.proven.is_some_and(|text| text.contains("study winners"))).collect()
        };
        // jemalloc, the system's, mimalloc.
        assert_eq!(proven(&[]), [true, true, false]);
        assert_eq!(proven(&[("_RJEM_MALLOC_CONF", "tcache:true")]), [false, true, false]);
        let single = Seen { threads: Some(1), ..Seen::default() };
        let advice = advice(&sample(None, "madvise"), &Variables::new(), Some(&[Flavour::PlainJemalloc]), &single);
        assert!(!advice.is_empty() && advice.iter().all(|one| one.proven.is_none()), "{advice:?}");
    }

    #[test]
    fn an_unknown_allocator_gets_no_advice() {
        assert_eq!(of(Some(500), &[], Some(&[Flavour::Tcmalloc])), []);
        assert_eq!(of(Some(500), &[("MALLOC_ARENA_MAX", "1")], Some(&[Flavour::Glibc])), []);
    }
}
