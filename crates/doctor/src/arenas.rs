//! Decides what limits the number of a program's arenas. The diagnosis, the remedies and the agent of a node use this one answer.

use crate::allocators::part;
use crate::contract::Case;
use crate::flavour::Flavour;
use crate::host::Surroundings;
use crate::judgement::ArenaLimit;
use crate::seen::ProcessTraits;
use crate::variables::Variables;

/// What limits the arenas of a program's own allocator, which is the first one of `subject`. `None` if it has no arenas, or if the program
/// has written over its environment, so that its settings are not known.
pub fn arena_limit(
    at: &Surroundings,
    variables: &Variables,
    subject: &[Flavour],
    seen: &ProcessTraits,
) -> Option<ArenaLimit> {
    if seen.overwritten {
        return None;
    }
    let flavour = *subject.first()?;
    let case = Case { at, variables, flavour, subject: Some(subject), seen };
    part(flavour.allocator()?.name)?.arena_limit(&case)
}

#[cfg(test)]
mod tests {
    use super::super::host::sample;
    use super::*;
    use allocanary_sys::container::Cpus;

    const RUST: Flavour = Flavour::RustJemalloc { installs: false };
    const MIMALLOC: Flavour = Flavour::Named("mimalloc");

    /// Whether the arenas follow the 40 cores of the host, in a process with so many threads.
    fn follows_host(flavour: Flavour, cpus: Cpus, variables: &[(&str, &str)], threads: u64) -> Option<bool> {
        let at = Surroundings { cpus, ..sample(None, "always") };
        let seen = ProcessTraits { threads: Some(threads), ..ProcessTraits::default() };
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        arena_limit(&at, &variables, &[flavour], &seen).map(|limit| matches!(limit, ArenaLimit::Host(_)))
    }

    #[test]
    fn arenas_follow_the_host_only_where_the_process_may_use_less_of_it() {
        let all = Cpus::new(40, None);
        let (quota, mask) = (Cpus::new(40, Some(500)), Cpus::new(4, None));
        let of = |flavour, cpus| follows_host(flavour, cpus, &[], 9);
        assert_eq!((of(Flavour::Glibc, all), of(RUST, all)), (Some(false), Some(false)), "the whole host is its own");
        assert_eq!((of(Flavour::Glibc, quota), of(RUST, quota)), (Some(true), Some(true)));
        assert_eq!((of(Flavour::Glibc, mask), of(RUST, mask)), (Some(true), Some(false)), "jemalloc sees a mask");
        assert_eq!(follows_host(Flavour::Glibc, quota, &[], 1), Some(false), "one thread uses one arena");
    }

    #[test]
    fn a_setting_counts_if_the_program_reads_it() {
        let quota = Cpus::new(40, Some(500));
        let of = |flavour, variable, value| follows_host(flavour, quota, &[(variable, value)], 9);
        assert_eq!(of(Flavour::Glibc, "MALLOC_ARENA_MAX", "64"), Some(false));
        assert_eq!(of(Flavour::Glibc, "GLIBC_TUNABLES", "glibc.malloc.arena_max=2"), Some(false));
        assert_eq!(of(Flavour::Glibc, "MALLOC_ARENA_MAX", "many"), Some(true), "glibc takes no such value");
        assert_eq!(of(Flavour::Glibc, "MALLOC_TRIM_THRESHOLD_", "1"), Some(true), "another setting");
        assert_eq!(of(RUST, "_RJEM_MALLOC_CONF", "narenas:1"), Some(false));
        assert_eq!(of(RUST, "_RJEM_MALLOC_CONF", "narenas_ratio:0.5"), Some(false));
        assert_eq!(of(RUST, "MALLOC_CONF", "narenas:1"), Some(true), "this build reads another variable");
        assert_eq!(of(Flavour::PlainJemalloc, "MALLOC_CONF", "narenas:1"), Some(false));
        let code = ProcessTraits { code: [("arena_max".into(), "1".into())].into(), ..ProcessTraits::default() };
        let at = Surroundings { cpus: quota, ..sample(None, "never") };
        assert_eq!(arena_limit(&at, &Variables::new(), &[Flavour::Glibc], &code), Some(ArenaLimit::Fits));
    }

    #[test]
    fn what_has_no_arenas_or_hides_its_settings_follows_nothing() {
        let quota = Cpus::new(40, Some(500));
        for flavour in [MIMALLOC, Flavour::Go, Flavour::OtherLibc, Flavour::Unknown, Flavour::Named("tcmalloc")] {
            assert_eq!(follows_host(flavour, quota, &[], 9), None, "{flavour:?}");
        }
        let hidden = ProcessTraits { overwritten: true, ..ProcessTraits::default() };
        let at = Surroundings { cpus: quota, ..sample(None, "never") };
        assert_eq!(arena_limit(&at, &Variables::new(), &[Flavour::Glibc], &hidden), None);
    }
}
