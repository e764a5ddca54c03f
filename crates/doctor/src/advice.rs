//! Makes advice, as text ready to paste, from the surroundings, the environment, and the program's allocators if known. For each allocator
//! it has the reasons, the variables, and the lines for Docker, Kubernetes and Rust.

use super::flavour::Flavour;
use super::host::Surroundings;
use super::seen::ProcessTraits;
use super::variables::Variables;
use crate::allocators::{ALL, part};
use crate::contract::Case;

pub use crate::judgement::Advice;

/// The advice for the program's own allocator. If the program is not known, the advice for each allocator that a program started from here
/// may have. `seen` are the facts that the program shows.
pub fn advice(
    at: &Surroundings,
    variables: &Variables,
    subject: Option<&[Flavour]>,
    seen: &ProcessTraits,
) -> Vec<Advice> {
    let of = |flavour: Flavour| {
        let case = Case { at, variables, flavour, subject, seen };
        let advice = part(flavour.allocator()?.name)?.advice?(&case)?;
        Some(Advice { install: advice.install.filter(|_| case.is_rust()), ..advice })
    };
    match subject.and_then(<[Flavour]>::first) {
        Some(own) => of(*own).into_iter().collect(),
        None => ALL.iter().filter_map(|part| of(part.usual)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::host::sample;
    use super::*;

    fn of(quota_milli: Option<u64>, variables: &[(&str, &str)], subject: Option<&[Flavour]>) -> Vec<Advice> {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        advice(&sample(quota_milli, "madvise"), &variables, subject, &ProcessTraits::default())
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
        let of = |flavour: Flavour, seen: ProcessTraits| advice(&at, &Variables::new(), Some(&[flavour]), &seen);
        let c = |threads, background_threads| ProcessTraits {
            threads: Some(threads),
            background_threads,
            rust: Some(false),
            ..ProcessTraits::default()
        };
        let plain = of(Flavour::PlainJemalloc, c(8, 0));
        assert_eq!(plain[0].environment(), ["MALLOC_CONF=background_thread:true,narenas:40"]);
        assert_eq!(plain[0].install, None, "no Rust line for a C program");
        assert!(of(Flavour::PlainJemalloc, ProcessTraits { rust: Some(true), ..c(8, 0) })[0].install.is_some());
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
        let forking = crate::host::Surroundings { forks: true, ..at.clone() };
        let forks = |variables: &[(&str, &str)]| {
            let set = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            let all = advice(&forking, &set, Some(&[Flavour::PlainJemalloc]), &c(1, 0));
            all.iter().flat_map(Advice::environment).collect::<Vec<String>>()
        };
        assert_eq!(forks(&[]), ["MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0"]);
        let own = forks(&[("MALLOC_CONF", "dirty_decay_ms:5000")]);
        assert!(own.is_empty(), "the user's decay stays, and no thread is advised: {own:?}");
        let mut quota = at.clone();
        quota.cpus.quota_milli = Some(1000);
        let glibc = |threads| advice(&quota, &Variables::new(), Some(&[Flavour::Glibc]), &c(threads, 0)).len();
        assert_eq!((glibc(1), glibc(2)), (0, 1));
        let words = |word: &str| Some([word.to_string()].into());
        let mimalloc = |word| {
            let mut seen = c(2, 0);
            seen.libraries.mimalloc_words = words(word);
            of(Flavour::Named("mimalloc"), seen).len()
        };
        assert_eq!((mimalloc("allow_thp"), mimalloc("eager_commit")), (1, 0));
        assert_eq!(of(Flavour::Go, c(9, 0)), []);
    }

    #[test]
    fn a_rust_program_for_another_c_library_has_no_background_threads() {
        let of = |libc: &str, flavour: Flavour| {
            let mut at = sample(None, "madvise");
            at.libc = libc.into();
            let found = advice(&at, &Variables::new(), Some(&[flavour]), &ProcessTraits::default());
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
            let seen = ProcessTraits { code: owned(code), threads: Some(9), ..ProcessTraits::default() };
            advice(&sample(Some(1000), "madvise"), &owned(variables), Some(&[flavour]), &seen)
        };
        let rust = Flavour::RustJemalloc { installs: true };
        assert_eq!(with(rust, &[("narenas", "1"), ("background_thread", "true")], &[]), []);
        assert_eq!(with(Flavour::Glibc, &[("arena_max", "1"), ("thread_idle", "100ms")], &[]), []);
        assert_eq!(with(Flavour::Named("mimalloc"), &[("allow_thp", "0")], &[]), []);
        let rest = &with(rust, &[("narenas", "1"), ("thread_idle", "100ms")], &[])[0];
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
        let seen = ProcessTraits { jvm: true, threads: Some(9), ..ProcessTraits::default() };
        let found = advice(&sample(Some(1000), "madvise"), &Variables::new(), Some(&[Flavour::Glibc]), &seen);
        assert!(found[0].reasons[1].contains("native memory alone"), "{found:?}");
    }

    #[test]
    fn what_a_search_proved_is_named_with_its_study_unless_the_user_chose_otherwise() {
        let proven = |variables: &[(&str, &str)]| -> Vec<bool> {
            let all = of(None, variables, None);
            all.iter().map(|one| one.proven.is_some_and(|text| text.contains("study winners"))).collect()
        };
        // The order is jemalloc, the system's malloc, mimalloc.
        assert_eq!(proven(&[]), [true, true, false]);
        assert_eq!(proven(&[("_RJEM_MALLOC_CONF", "tcache:true")]), [false, true, false]);
        let single = ProcessTraits { threads: Some(1), ..ProcessTraits::default() };
        let advice = advice(&sample(None, "madvise"), &Variables::new(), Some(&[Flavour::PlainJemalloc]), &single);
        assert!(!advice.is_empty() && advice.iter().all(|one| one.proven.is_none()), "{advice:?}");
    }

    #[test]
    fn an_unknown_allocator_gets_no_advice() {
        assert_eq!(of(Some(500), &[], Some(&[Flavour::Named("tcmalloc")])), []);
        assert_eq!(of(Some(500), &[("MALLOC_ARENA_MAX", "1")], Some(&[Flavour::Glibc])), []);
    }
}
