//! The effective defaults of each allocator on a host, a sentence each.

use super::host::Surroundings;
use crate::allocators::ALL;
use crate::judgement::Default;

/// The defaults of each allocator.
pub fn defaults(at: &Surroundings) -> Vec<Default> {
    ALL.iter().filter_map(|part| part.defaults).map(|defaults| defaults(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::host::sample;
    use super::*;

    fn of(allocator: &str, at: &Surroundings) -> Default {
        defaults(at).into_iter().find(|default| default.allocator == allocator).expect(allocator)
    }

    #[test]
    fn defaults_follow_the_host_and_not_the_quota() {
        let all = |at: &Surroundings| ["jemalloc", "system", "mimalloc"].map(|allocator| of(allocator, at));
        let under_quota = all(&sample(Some(1000), "never"));
        assert_eq!(under_quota.each_ref().map(|default| default.arenas), [Some(160), Some(320), None]);
        assert_eq!(under_quota.each_ref().map(|default| default.oversized), [true, true, false]);
        assert!(under_quota[0].text.contains("does not see the CPU quota, under which 1 would"));
        let free = all(&sample(None, "madvise"));
        assert_eq!(free.each_ref().map(|default| default.oversized), [false, false, true]);
        assert!(free[2].text.contains("pages of 2 MiB"));
    }

    #[test]
    fn glibc_ignores_the_affinity_and_jemalloc_does_not() {
        let mut at = sample(None, "never");
        at.cpus.affinity = 1;
        let system = of("system", &at);
        assert_eq!((of("jemalloc", &at).arenas, system.arenas), (Some(1), Some(320)));
        assert!(system.text.contains("does not see the affinity mask,"), "{}", system.text);
        at.libc = "musl".into();
        assert_eq!(of("system", &at).arenas, None);
    }
}
