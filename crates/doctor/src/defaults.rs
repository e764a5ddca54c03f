//! The effective defaults of each allocator on a host. In: its surroundings. Out: a sentence for each allocator.

use super::host::Surroundings;

/// The behaviour of an allocator here without any settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Default {
    /// The allocator: `jemalloc`.
    pub allocator: &'static str,
    /// The maximum number of arenas, if it has arenas.
    pub arenas: Option<u32>,
    /// A text with the defaults, and what they ignore.
    pub text: String,
    /// Whether it is sized for more CPUs than the process can use.
    pub oversized: bool,
}

/// jemalloc's default `narenas`.
pub fn jemalloc_arenas(affinity: u32) -> u32 {
    if affinity <= 1 { 1 } else { affinity.saturating_mul(4).min(4094) }
}

/// The defaults of each allocator.
pub fn defaults(at: &Surroundings) -> Vec<Default> {
    vec![jemalloc(at), system(at), mimalloc(at)]
}

fn jemalloc(at: &Surroundings) -> Default {
    let affinity = at.cpus.affinity;
    let arenas = jemalloc_arenas(affinity);
    let usable = jemalloc_arenas(at.cpus.count());
    let why = match affinity {
        1 => "the affinity mask has 1 processor".to_string(),
        _ => format!("4 for each of the {affinity} processors in the affinity mask"),
    };
    let quota = match arenas > usable {
        true => format!("; it does not see the CPU quota, under which {usable} would be in proportion"),
        false => String::new(),
    };
    Default {
        allocator: "jemalloc",
        arenas: Some(arenas),
        text: format!("up to {}: {why}{quota}", count(arenas)),
        oversized: arenas > usable,
    }
}

fn system(at: &Surroundings) -> Default {
    if !at.has_glibc() {
        let text = "one heap behind a lock, whatever the processors".to_string();
        return Default { allocator: "system", arenas: None, text, oversized: false };
    }
    let ratio = if cfg!(target_pointer_width = "64") { 8 } else { 2 };
    let arenas = at.host.cores.saturating_mul(ratio);
    let usable = at.cpus.count() * ratio;
    let mut text = format!(
        "up to {}: {ratio} for each of the {} cores online, one for each new thread",
        count(arenas),
        at.host.cores
    );
    let ignored = match (at.cpus.affinity < at.host.cores, at.cpus.count() < at.cpus.affinity) {
        (true, true) => Some("the affinity mask and the CPU quota"),
        (true, false) => Some("the affinity mask"),
        (false, true) => Some("the CPU quota"),
        (false, false) => None,
    };
    if let Some(ignored) = ignored {
        text.push_str(&format!("; it does not see {ignored}, under which {usable} would be in proportion"));
    }
    Default { allocator: "system", arenas: Some(arenas), text, oversized: arenas > usable }
}

fn mimalloc(at: &Surroundings) -> Default {
    let mut text = "a heap for each thread, whatever the processors".to_string();
    let huge = takes_huge_pages(&at.host.thp);
    if huge {
        text.push_str(&format!(
            "; transparent huge pages are `{}`, so each thread's heap takes whole pages of 2 MiB",
            at.host.thp
        ));
    }
    Default { allocator: "mimalloc", arenas: None, text, oversized: huge }
}

/// Whether mimalloc gets huge pages. It requests them with madvise.
pub fn takes_huge_pages(thp: &str) -> bool {
    matches!(thp, "always" | "madvise")
}

fn count(arenas: u32) -> String {
    if arenas == 1 { "1 arena".into() } else { format!("{arenas} arenas") }
}

#[cfg(test)]
mod tests {
    use super::super::host::sample;
    use super::*;

    #[test]
    fn defaults_follow_the_host_and_not_the_quota() {
        let under_quota = defaults(&sample(Some(1000), "never"));
        assert_eq!(under_quota.iter().map(|default| default.arenas).collect::<Vec<_>>(), [Some(160), Some(320), None]);
        assert!(under_quota[0].oversized && under_quota[1].oversized && !under_quota[2].oversized);
        assert!(under_quota[0].text.contains("does not see the CPU quota, under which 1 would"));
        let free = defaults(&sample(None, "madvise"));
        assert!(!free[0].oversized && !free[1].oversized && free[2].oversized);
        assert!(free[2].text.contains("pages of 2 MiB"));
    }

    #[test]
    fn glibc_ignores_the_affinity_and_jemalloc_does_not() {
        let mut at = sample(None, "never");
        at.cpus.affinity = 1;
        let [jemalloc, system, _] = &defaults(&at)[..] else { panic!() };
        assert_eq!((jemalloc.arenas, system.arenas), (Some(1), Some(320)));
        assert!(system.text.contains("does not see the affinity mask,"), "{}", system.text);
        at.libc = "musl".into();
        assert_eq!(defaults(&at)[1].arenas, None);
    }
}
