//! The jemalloc libraries that distributions and users build: the settings of their releases, and how to find a library's version.

use std::borrow::Cow;

use super::NAME;
use super::settings::{DSS, METADATA_THP, PERCPU, THP};
use crate::environment::Environment;
use crate::library::{FIRST, LibraryKind, NEVER, VersionSetting, always, row};
use crate::setting::SettingKind;

const COUNT: SettingKind = SettingKind::Number { min: 0, max: i64::MAX };
const SIGNED: SettingKind = SettingKind::Number { min: -1, max: i64::MAX };
const SLOTS: SettingKind = SettingKind::Number { min: 1, max: 2048 };
const FLUSHED: SettingKind = SettingKind::Number { min: 1, max: 16 };

/// jemalloc's libraries.
pub const LIBRARIES: &[LibraryKind] = &[LibraryKind {
    name: NAME,
    files: &["libjemalloc"],
    version,
    rows: ROWS,
    environment: MALLOC_CONF,
    capitals_after: None,
    reader: NAME,
}];

/// How a jemalloc without a name prefix reads its settings. Distributions build it so.
const MALLOC_CONF: Environment = Environment::Joined {
    variable: Cow::Borrowed("MALLOC_CONF"),
    earlier: Cow::Borrowed(&[]),
    single: Cow::Borrowed(&[]),
    prefix: Cow::Borrowed(""),
    assign: Cow::Borrowed(":"),
    separator: Cow::Borrowed(","),
};

/// The options of 5.2.1, 5.3.0 and 5.3.1 that cost or save memory or time. Sources: `src/ctl.c` and `src/jemalloc.c` of these releases, and
/// https://jemalloc.net/jemalloc.3.html, "opt.*".
const ROWS: &[VersionSetting] = &[
    always("narenas", SettingKind::Number { min: 1, max: 4094 }, "number of arenas"),
    always("tcache", SettingKind::Flag, "thread caches"),
    // 5.3.1 and later silently clip a larger value.
    row([5, 3, 1], NEVER, "tcache_max", SettingKind::Size { min: 0, max: 32 << 10 }, "largest block in thread caches"),
    row(
        [5, 3, 0],
        [5, 3, 1],
        "tcache_max",
        SettingKind::Size { min: 0, max: 8 << 20 },
        "largest block in thread caches",
    ),
    row(
        FIRST,
        [5, 3, 0],
        "lg_tcache_max",
        SettingKind::Number { min: 3, max: 22 },
        "largest block in thread caches: 2^n",
    ),
    always("dirty_decay_ms", SIGNED, "ms before dirty pages go back; 0 at once, -1 never"),
    always("muzzy_decay_ms", SIGNED, "ms before muzzy pages go back; 0 at once, -1 never"),
    always("background_thread", SettingKind::Flag, "threads that give pages back"),
    always("max_background_threads", SettingKind::Number { min: 1, max: 4094 }, "most such threads"),
    always("percpu_arena", SettingKind::words(PERCPU), "an arena for each processor instead of for threads"),
    always("metadata_thp", SettingKind::words(METADATA_THP), "huge pages for the allocator's own structures"),
    always("thp", SettingKind::words(THP), "transparent huge pages for the program's data"),
    always("oversize_threshold", SettingKind::SIZE, "blocks from this size on have an arena of their own"),
    always("retain", SettingKind::Flag, "keep address space"),
    always("dss", SettingKind::words(DSS), "use of sbrk as well as mmap"),
    always(
        "lg_extent_max_active_fit",
        SettingKind::Number { min: 0, max: 64 },
        "how much larger (2^n) a reused extent may be",
    ),
    // 5.3.0 reports this option, but refuses to set it.
    row([5, 3, 1], NEVER, "cache_oblivious", SettingKind::Flag, "shift large blocks by a random number of cache lines"),
    row([5, 3, 0], NEVER, "mutex_max_spin", SIGNED, "spins before a lock sleeps; -1 for ever"),
    row([5, 3, 0], NEVER, "tcache_nslots_small_min", SLOTS, "least slots of a cache bin for small blocks"),
    row([5, 3, 0], NEVER, "tcache_nslots_small_max", SLOTS, "most slots of a cache bin for small blocks"),
    row([5, 3, 0], NEVER, "tcache_nslots_large", SLOTS, "slots of a cache bin for large blocks"),
    row(
        [5, 3, 0],
        NEVER,
        "lg_tcache_nslots_mul",
        SettingKind::Number { min: -16, max: 16 },
        "thread caches are 2^n as long",
    ),
    row(
        [5, 3, 0],
        NEVER,
        "tcache_gc_incr_bytes",
        SettingKind::Size { min: 1024, max: i64::MAX as u64 },
        "bytes between two collections",
    ),
    row(
        [5, 3, 0],
        NEVER,
        "tcache_gc_delay_bytes",
        SettingKind::SIZE,
        "bytes a cache bin is spared after it was collected",
    ),
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
    row([5, 3, 1], NEVER, "experimental_tcache_gc", SettingKind::Flag, "the thread cache's newer garbage collection"),
    row([5, 3, 1], NEVER, "process_madvise_max_batch", COUNT, "ranges purged by one call; 0 is one by one"),
    row([5, 3, 0], NEVER, "hpa", SettingKind::Flag, "the huge page aware allocator"),
    row(
        [5, 3, 0],
        NEVER,
        "hpa_slab_max_alloc",
        SettingKind::Size { min: 4096, max: 2 << 20 },
        "largest block that it serves",
    ),
    row([5, 3, 0], NEVER, "hpa_hugify_delay_ms", COUNT, "ms before a range becomes a huge page"),
    row([5, 3, 0], NEVER, "hpa_min_purge_interval_ms", COUNT, "ms between two purges"),
    row([5, 3, 0], NEVER, "hpa_sec_nshards", COUNT, "shards of its cache; 0 is no cache"),
];

/// Finds jemalloc's version text, such as `5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c`, and returns `5.3.0`.
fn version(bytes: &[u8]) -> Option<String> {
    let texts = bytes.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
    let release = |text: &str| -> Option<String> {
        let (version, rest) = text.split_once('-')?;
        let (commits, build) = rest.split_once("-g")?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_version = version.split('.').count() == 3 && version.split('.').all(digits);
        let is_build = build.len() >= 7 && build.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_version && digits(commits) && is_build).then(|| version.to_string())
    };
    texts.into_iter().find_map(release)
}
