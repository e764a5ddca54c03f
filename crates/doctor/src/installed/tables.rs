//! The kinds of libraries, and the settings of each by version. In: a version. Out: settings with their values.

use std::borrow::Cow;

use allocanary_allocators::environment::Environment;
use allocanary_allocators::setting::{Kind, Setting};

/// A kind of library.
pub(super) struct Sort {
    /// The beginnings of its file's name, up to the first dot.
    pub files: &'static [&'static str],
    pub allocator: &'static str,
    /// What stands before the version in its text.
    pub before_version: Option<&'static str>,
    settings: &'static [Row],
    pub environment: Environment,
    /// How our library asks it.
    pub reader: &'static str,
}

/// A setting of the versions from `since` on, before `until`.
struct Row {
    since: Version,
    until: Version,
    setting: Setting,
}

type Version = [u32; 3];

const FIRST: Version = [0; 3];
const NEVER: Version = [u32::MAX; 3];

const fn row(since: Version, until: Version, name: &'static str, kind: Kind, about: &'static str) -> Row {
    Row { since, until, setting: Setting::new(name, kind, about) }
}

/// A setting of all versions.
const fn always(name: &'static str, kind: Kind, about: &'static str) -> Row {
    row(FIRST, NEVER, name, kind, about)
}

impl Sort {
    /// The settings of a version. Each name once, if it is no version.
    pub fn settings(&self, version: &str) -> impl Iterator<Item = &'static Setting> {
        let (version, all) = (numbers(version), self.settings);
        let is_of = move |(at, row): &(usize, &Row)| match version {
            Some(version) => (row.since..row.until).contains(&version),
            None => all[..*at].iter().all(|before| before.setting.name != row.setting.name),
        };
        all.iter().enumerate().filter(is_of).map(|(_, row)| &row.setting)
    }
}

/// `2.0` as 2, 0, 0; `None` if it does not begin with two numbers.
fn numbers(version: &str) -> Option<Version> {
    let mut all = version.split('.').map(|part| part.parse().ok());
    let (major, minor) = (all.next()??, all.next()??);
    Some([major, minor, all.next().flatten().unwrap_or(0)])
}

const COUNT: Kind = Kind::Number { min: 0, max: i64::MAX };
const SIGNED: Kind = Kind::Number { min: -1, max: i64::MAX };
const BIT: Kind = Kind::Number { min: 0, max: 1 };
const LEVEL: Kind = Kind::Number { min: 0, max: 2 };
const SLOTS: Kind = Kind::Number { min: 1, max: 2048 };
const FLUSHED: Kind = Kind::Number { min: 1, max: 16 };

/// All kinds.
pub(super) const SORTS: &[Sort] = &[
    Sort {
        files: &["libjemalloc"],
        allocator: "jemalloc",
        before_version: None,
        settings: JEMALLOC,
        environment: MALLOC_CONF,
        reader: "jemalloc",
    },
    Sort {
        files: &["libtcmalloc"],
        allocator: "tcmalloc",
        before_version: Some("gperftools "),
        settings: TCMALLOC,
        environment: each("TCMALLOC_"),
        reader: "tcmalloc",
    },
    Sort {
        files: &["libtcmalloc_minimal"],
        allocator: "tcmalloc_minimal",
        before_version: Some("gperftools "),
        settings: TCMALLOC,
        environment: each("TCMALLOC_"),
        reader: "tcmalloc",
    },
    Sort {
        files: &["libmimalloc", "libmimalloc-secure"],
        allocator: "mimalloc",
        before_version: None,
        settings: MIMALLOC,
        environment: each("MIMALLOC_"),
        reader: "mimalloc",
    },
    plain("snmalloc", &["libsnmallocshim", "libsnmallocshim-checks"]),
    plain("mesh", &["libmesh"]),
    plain("rpmalloc", &["librpmalloc", "librpmallocwrap"]),
    plain("hoard", &["libhoard"]),
];

/// An allocator without settings.
const fn plain(allocator: &'static str, files: &'static [&'static str]) -> Sort {
    let environment = each("ALLOCANARY_NO_SETTINGS_");
    Sort { files, allocator, before_version: None, settings: &[], environment, reader: "none" }
}

const fn each(prefix: &'static str) -> Environment {
    Environment::Each { prefix: Cow::Borrowed(prefix) }
}

/// jemalloc as distributions build it, without a prefix.
const MALLOC_CONF: Environment = Environment::Joined {
    variable: Cow::Borrowed("MALLOC_CONF"),
    earlier: Cow::Borrowed(&[]),
    single: Cow::Borrowed(&[]),
    prefix: Cow::Borrowed(""),
    assign: Cow::Borrowed(":"),
    separator: Cow::Borrowed(","),
};

const PERCPU: &[Cow<str>] = &[Cow::Borrowed("disabled"), Cow::Borrowed("percpu"), Cow::Borrowed("phycpu")];
const METADATA_THP: &[Cow<str>] = &[Cow::Borrowed("disabled"), Cow::Borrowed("auto"), Cow::Borrowed("always")];
const THP: &[Cow<str>] = &[Cow::Borrowed("default"), Cow::Borrowed("always"), Cow::Borrowed("never")];
const DSS: &[Cow<str>] = &[Cow::Borrowed("disabled"), Cow::Borrowed("primary"), Cow::Borrowed("secondary")];

/// The options of 5.2.1, 5.3.0 and 5.3.1 that cost or save memory or time: `src/ctl.c` and `src/jemalloc.c` of these releases, and
/// https://jemalloc.net/jemalloc.3.html, "opt.*".
const JEMALLOC: &[Row] = &[
    always("narenas", Kind::Number { min: 1, max: 4094 }, "number of arenas"),
    always("tcache", Kind::Flag, "thread caches"),
    // 5.3.1 and later clip what is above without a word.
    row([5, 3, 1], NEVER, "tcache_max", Kind::Size { min: 0, max: 32 << 10 }, "largest block in thread caches"),
    row([5, 3, 0], [5, 3, 1], "tcache_max", Kind::Size { min: 0, max: 8 << 20 }, "largest block in thread caches"),
    row(FIRST, [5, 3, 0], "lg_tcache_max", Kind::Number { min: 3, max: 22 }, "largest block in thread caches: 2^n"),
    always("dirty_decay_ms", SIGNED, "ms before dirty pages go back; 0 at once, -1 never"),
    always("muzzy_decay_ms", SIGNED, "ms before muzzy pages go back; 0 at once, -1 never"),
    always("background_thread", Kind::Flag, "threads that give pages back"),
    always("max_background_threads", Kind::Number { min: 1, max: 4094 }, "most such threads"),
    always("percpu_arena", Kind::words(PERCPU), "an arena for each processor instead of for threads"),
    always("metadata_thp", Kind::words(METADATA_THP), "huge pages for the allocator's own structures"),
    always("thp", Kind::words(THP), "transparent huge pages for the program's data"),
    always("oversize_threshold", Kind::SIZE, "blocks from this size on have an arena of their own"),
    always("retain", Kind::Flag, "keep address space"),
    always("dss", Kind::words(DSS), "use of sbrk as well as mmap"),
    always(
        "lg_extent_max_active_fit",
        Kind::Number { min: 0, max: 64 },
        "how much larger (2^n) a reused extent may be",
    ),
    // 5.3.0 can tell it, and refuses to take it.
    row([5, 3, 1], NEVER, "cache_oblivious", Kind::Flag, "shift large blocks by a random number of cache lines"),
    row([5, 3, 0], NEVER, "mutex_max_spin", SIGNED, "spins before a lock sleeps; -1 for ever"),
    row([5, 3, 0], NEVER, "tcache_nslots_small_min", SLOTS, "least slots of a cache bin for small blocks"),
    row([5, 3, 0], NEVER, "tcache_nslots_small_max", SLOTS, "most slots of a cache bin for small blocks"),
    row([5, 3, 0], NEVER, "tcache_nslots_large", SLOTS, "slots of a cache bin for large blocks"),
    row([5, 3, 0], NEVER, "lg_tcache_nslots_mul", Kind::Number { min: -16, max: 16 }, "thread caches are 2^n as long"),
    row(
        [5, 3, 0],
        NEVER,
        "tcache_gc_incr_bytes",
        Kind::Size { min: 1024, max: i64::MAX as u64 },
        "bytes between two collections",
    ),
    row([5, 3, 0], NEVER, "tcache_gc_delay_bytes", Kind::SIZE, "bytes a cache bin is spared after it was collected"),
    row(
        [5, 3, 0],
        NEVER,
        "lg_tcache_flush_small_div",
        FLUSHED,
        "share (2^n) of small blocks flushed when a bin is full",
    ),
    row(
        [5, 3, 0],
        NEVER,
        "lg_tcache_flush_large_div",
        FLUSHED,
        "share (2^n) of large blocks flushed when a bin is full",
    ),
    row([5, 3, 1], NEVER, "experimental_tcache_gc", Kind::Flag, "the thread cache's newer garbage collection"),
    row([5, 3, 1], NEVER, "process_madvise_max_batch", COUNT, "ranges purged by one call; 0 is one by one"),
    row([5, 3, 0], NEVER, "hpa", Kind::Flag, "the huge page aware allocator"),
    row([5, 3, 0], NEVER, "hpa_slab_max_alloc", Kind::Size { min: 4096, max: 2 << 20 }, "largest block that it serves"),
    row([5, 3, 0], NEVER, "hpa_hugify_delay_ms", COUNT, "ms before a range becomes a huge page"),
    row([5, 3, 0], NEVER, "hpa_min_purge_interval_ms", COUNT, "ms between two purges"),
    row([5, 3, 0], NEVER, "hpa_sec_nshards", COUNT, "shards of its cache; 0 is no cache"),
];

/// https://gperftools.github.io/gperftools/tcmalloc.html, "Modifying Runtime Behavior".
const TCMALLOC: &[Row] = &[
    // `ThreadCache::set_overall_thread_cache_size` raises less than 512 KiB and cuts more than 1 GiB.
    always("max_total_thread_cache_bytes", Kind::Size { min: 512 << 10, max: 1 << 30 }, "bound of all thread caches"),
    always("release_rate", Kind::Number { min: 0, max: 10 }, "how fast freed pages go back; 0 never"),
    always("aggressive_decommit", Kind::Flag, "freed pages go back at once"),
    always("heap_limit_mb", COUNT, "most MiB of the heap; 0 no limit"),
    // 0 ends the process at its first division by it.
    always(
        "transfer_num_obj",
        Kind::Number { min: 1, max: i64::MAX },
        "most blocks that move to the central list at once",
    ),
    always("disable_memory_release", Kind::Flag, "freed pages never go back"),
    always("skip_sbrk", Kind::Flag, "take memory by mmap alone"),
    always("skip_mmap", Kind::Flag, "take memory by sbrk alone"),
];

/// The options from 1.7 to 3.3 that cost or save memory or time: `enum mi_option_e` in `mimalloc.h` of these releases.
const MIMALLOC: &[Row] = &[
    row([2, 1, 0], NEVER, "purge_delay", SIGNED, "ms before freed pages go back; 0 at once, -1 never"),
    row([2, 0, 0], [2, 1, 0], "decommit_delay", COUNT, "ms before freed pages go back"),
    row(FIRST, [2, 0, 0], "reset_delay", COUNT, "ms before freed pages go back"),
    row([2, 1, 0], NEVER, "purge_decommits", BIT, "1 gives pages back, 0 only marks them"),
    row([2, 0, 0], [2, 1, 0], "allow_decommit", BIT, "freed pages go back"),
    row(FIRST, [2, 0, 0], "reset_decommits", BIT, "1 gives pages back, 0 only marks them"),
    row([2, 0, 0], [2, 1, 0], "segment_decommit_delay", COUNT, "ms before pages of a segment go back"),
    row([2, 1, 0], [3, 0, 0], "purge_extend_delay", COUNT, "ms that a neighbour's purge adds to the delay"),
    row(FIRST, [3, 3, 0], "eager_commit", BIT, "commit a segment's memory at once"),
    row(FIRST, [3, 3, 0], "eager_commit_delay", COUNT, "a thread's first segments that are not committed at once"),
    row(
        [2, 1, 0],
        NEVER,
        "arena_eager_commit",
        LEVEL,
        "commit whole arenas: 0 no, 1 yes, 2 where the system overcommits",
    ),
    row([2, 1, 0], NEVER, "arena_reserve", Kind::SIZE, "address space reserved at a time"),
    row([2, 1, 0], NEVER, "arena_purge_mult", COUNT, "arenas wait this many times purge_delay"),
    row(FIRST, [2, 1, 0], "page_reset", BIT, "reset pages that are empty"),
    row(FIRST, [2, 0, 0], "segment_reset", BIT, "reset segments that are empty"),
    row(FIRST, [2, 0, 0], "segment_cache", COUNT, "segments that a thread keeps"),
    row(FIRST, [2, 0, 0], "abandoned_page_reset", BIT, "reset free pages of threads that ended"),
    row([2, 0, 0], [2, 1, 0], "abandoned_page_decommit", BIT, "give back free pages of threads that ended"),
    row([2, 1, 0], [3, 3, 0], "abandoned_page_purge", BIT, "give back free pages of threads that ended"),
    row([2, 1, 6], [3, 0, 0], "abandoned_reclaim_on_free", BIT, "a free takes over segments of dead threads"),
    row([2, 0, 0], [3, 0, 0], "max_segment_reclaim", COUNT, "segments of dead threads looked at for one allocation"),
    row(FIRST, [2, 1, 0], "large_os_pages", BIT, "2 MiB pages"),
    row([2, 1, 0], NEVER, "allow_large_os_pages", LEVEL, "2 MiB pages from the system's pool"),
    row([2, 3, 0], NEVER, "allow_thp", BIT, "transparent huge pages"),
    row([2, 2, 0], [3, 0, 0], "target_segments_per_thread", COUNT, "segments that a thread aims at; 0 no aim"),
    row([2, 2, 0], NEVER, "generic_collect", COUNT, "slow-path calls between two collections of a heap"),
    row(
        [3, 1, 0],
        NEVER,
        "page_reclaim_on_free",
        Kind::Number { min: -1, max: 1 },
        "a free takes over pages of dead threads",
    ),
    row([3, 1, 0], NEVER, "page_full_retain", SIGNED, "full small pages kept per size"),
    row([3, 1, 0], NEVER, "page_max_candidates", COUNT, "pages looked at for one allocation"),
    row([3, 1, 0], NEVER, "page_commit_on_demand", LEVEL, "commit a page's memory piece by piece"),
    row([3, 1, 0], NEVER, "page_max_reclaim", SIGNED, "most own pages reclaimed per size; -1 no limit"),
    row([3, 1, 0], NEVER, "page_cross_thread_max_reclaim", SIGNED, "most pages of other threads reclaimed per size"),
    row([3, 3, 0], NEVER, "minimal_purge_size", Kind::SIZE, "least piece given back; 0 lets mimalloc choose"),
    row([3, 3, 0], NEVER, "arena_max_object_size", Kind::SIZE, "largest block that lives in an arena"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_its_own_settings() {
        let of = |allocator: &str, version: &str| {
            let sort = SORTS.iter().find(|sort| sort.allocator == allocator).unwrap();
            sort.settings(version).map(|setting| setting.name.to_string()).collect::<Vec<_>>()
        };
        let has = |allocator: &str, version: &str, name: &str| of(allocator, version).iter().any(|one| one == name);
        assert!(has("jemalloc", "5.2.1", "lg_tcache_max") && !has("jemalloc", "5.2.1", "tcache_max"));
        assert!(has("jemalloc", "5.3.0", "tcache_max") && !has("jemalloc", "5.3.0", "experimental_tcache_gc"));
        assert!(has("mimalloc", "2.0", "decommit_delay") && !has("mimalloc", "2.0", "purge_delay"));
        assert!(has("mimalloc", "3.3.2", "purge_delay") && !has("mimalloc", "3.3.2", "eager_commit"));
        let mut unknown = of("jemalloc", "libjemalloc.so");
        assert!(
            unknown.contains(&"tcache_max".into()) && unknown.contains(&"lg_tcache_max".into()),
            "the file decides"
        );
        unknown.sort();
        assert!(unknown.windows(2).all(|pair| pair[0] != pair[1]), "{unknown:?}");
    }

    #[test]
    fn no_version_has_a_setting_twice() {
        for sort in SORTS {
            for (at, row) in sort.settings.iter().enumerate() {
                let same = |other: &&Row| other.setting.name == row.setting.name;
                let before = sort.settings[..at]
                    .iter()
                    .filter(same)
                    .all(|other| other.until <= row.since || row.until <= other.since);
                assert!(before && row.since < row.until, "{}: {}", sort.allocator, row.setting.name);
            }
        }
    }
}
