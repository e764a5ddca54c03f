//! jemalloc's settings: one row describes one setting, and how its value is read back.

use std::borrow::Cow;

use crate::library::{FIRST, Version};
use crate::request::Value;
use crate::setting::{Setting, SettingKind, copies};

const MOST_ARENAS: i64 = super::MOST_ARENAS as i64;

const COUNT: SettingKind = SettingKind::Number { min: 0, max: i64::MAX };
/// jemalloc takes as many milliseconds as its clock can count in nanoseconds, and refuses more.
const DECAY: SettingKind = SettingKind::Number { min: -1, max: 18_446_744_072_000 };
const SPINS: SettingKind = SettingKind::Number { min: -1, max: i64::MAX };
/// jemalloc silently clips values to this range.
const SLOTS: SettingKind = SettingKind::Number { min: 1, max: 2048 };
const FLUSHED: SettingKind = SettingKind::Number { min: 1, max: 16 };
/// The largest size class of a 64-bit address space (`SC_LARGE_MAXCLASS`).
const LARGEST: SettingKind = SettingKind::Size { min: 0, max: 7 << 60 };

pub(super) const PERCPU: &[Cow<str>] = &[Cow::Borrowed("disabled"), Cow::Borrowed("percpu"), Cow::Borrowed("phycpu")];
pub(super) const METADATA_THP: &[Cow<str>] =
    &[Cow::Borrowed("disabled"), Cow::Borrowed("auto"), Cow::Borrowed("always")];
pub(super) const THP: &[Cow<str>] = &[Cow::Borrowed("default"), Cow::Borrowed("always"), Cow::Borrowed("never")];
/// Does not include `auto`: at start the kernel's setting turns `auto` into one of these values, so `auto` cannot be read back.
const HUGIFY: &[Cow<str>] = &[Cow::Borrowed("none"), Cow::Borrowed("eager"), Cow::Borrowed("lazy")];
/// From 4 KiB (a page) to 2 MiB (a huge page). jemalloc silently clips a value outside of this range.
const OF_HUGE_PAGE: SettingKind = SettingKind::Size { min: 4096, max: 2 << 20 };
pub(super) const DSS: &[Cow<str>] = &[Cow::Borrowed("disabled"), Cow::Borrowed("primary"), Cow::Borrowed("secondary")];

/// How a setting's value is read back. Most are read with `mallctl` and have one of its types.
#[derive(Clone, Copy, Debug)]
pub enum Ctl {
    /// A `bool`.
    Bool,
    /// An `unsigned`.
    Unsigned,
    /// A `size_t`.
    Size,
    /// An `ssize_t`.
    Signed,
    /// A text.
    Name,
    /// Has no `opt` key. It is read from the calling thread's cache, for each size class.
    CacheSlots,
    /// Has no `opt` key. It is computed from the number of arenas that it led to.
    Ratio,
}

use Ctl::{Bool, CacheSlots, Name, Ratio, Signed, Size, Unsigned};

/// A setting of the jemalloc release that is linked.
#[derive(Debug)]
pub struct JemallocSetting {
    /// Its name, its valid values and its meaning.
    pub setting: Setting,
    /// The first release that has it.
    pub since: Version,
    /// Whether jemalloc clips a value out of range. If not, jemalloc refuses such a value.
    pub is_clipped: bool,
    /// How it is read back.
    pub ctl: Ctl,
}

const fn row(name: &'static str, ctl: Ctl, kind: SettingKind, about: &'static str) -> JemallocSetting {
    JemallocSetting { setting: Setting::new(name, kind, about), since: FIRST, is_clipped: false, ctl }
}

const fn clipped(name: &'static str, ctl: Ctl, kind: SettingKind, about: &'static str) -> JemallocSetting {
    JemallocSetting { setting: Setting::new(name, kind, about), since: FIRST, is_clipped: true, ctl }
}

const fn since(
    since: Version,
    name: &'static str,
    ctl: Ctl,
    kind: SettingKind,
    about: &'static str,
) -> JemallocSetting {
    JemallocSetting { setting: Setting::new(name, kind, about), since, is_clipped: false, ctl }
}

/// Every setting that jemalloc takes. Only settings that are newer than 5.3.0 have a `since`.
pub const ROWS: &[JemallocSetting] = &[
    clipped(
        "narenas",
        Unsigned,
        SettingKind::Number { min: 1, max: MOST_ARENAS },
        "arenas that threads share; default 4 per core",
    ),
    row(
        "narenas_ratio",
        Ratio,
        SettingKind::Text,
        "arenas per core where narenas is not set: 4, 0.5; none on one core",
    ),
    row("tcache", Bool, SettingKind::Flag, "a cache of free blocks for each thread"),
    row("tcache_max", Size, SettingKind::SIZE, "largest block that a thread cache holds; above 32 KiB it is clipped"),
    since(
        [5, 3, 1],
        "tcache_ncached_max",
        CacheSlots,
        SettingKind::Text,
        "blocks a cache holds by size: 8-1024:100|2048-4096:10",
    ),
    row("dirty_decay_ms", Signed, DECAY, "time over which freed pages go back; 0 at once, -1 never"),
    row("muzzy_decay_ms", Signed, DECAY, "time over which lazily freed pages go back; 0 at once, -1 never"),
    row("background_thread", Bool, SettingKind::Flag, "threads that purge, so that an idle process shrinks too"),
    clipped("max_background_threads", Size, SettingKind::Number { min: 1, max: MOST_ARENAS }, "most such threads"),
    row("percpu_arena", Name, SettingKind::words(PERCPU), "an arena for each processor instead of for threads"),
    row("metadata_thp", Name, SettingKind::words(METADATA_THP), "huge pages for the allocator's own structures"),
    row("thp", Name, SettingKind::words(THP), "transparent huge pages for the program's data"),
    row("oversize_threshold", Size, LARGEST, "blocks above it come from an arena of their own and go back at once"),
    row("retain", Bool, SettingKind::Flag, "keep unused addresses instead of unmapping them"),
    row("dss", Name, SettingKind::words(DSS), "use of sbrk as well as mmap"),
    row("cache_oblivious", Bool, SettingKind::Flag, "shift large blocks by a random number of cache lines"),
    row("trust_madvise", Bool, SettingKind::Flag, "believe that MADV_DONTNEED zeroes pages"),
    row("mutex_max_spin", Signed, SPINS, "spins before a lock sleeps; -1 for ever"),
    row(
        "lg_extent_max_active_fit",
        Size,
        SettingKind::Number { min: 0, max: 64 },
        "how much larger (power of two) a reused extent may be",
    ),
    since([5, 3, 1], "process_madvise_max_batch", Size, COUNT, "ranges purged by one call; 0 is one by one"),
    since([5, 3, 1], "experimental_tcache_gc", Bool, SettingKind::Flag, "the thread cache's newer garbage collection"),
    clipped("tcache_nslots_small_min", Unsigned, SLOTS, "least slots of a cache bin for small blocks"),
    clipped("tcache_nslots_small_max", Unsigned, SLOTS, "most slots of a cache bin for small blocks"),
    clipped("tcache_nslots_large", Unsigned, SLOTS, "slots of a cache bin for large blocks"),
    row(
        "lg_tcache_nslots_mul",
        Signed,
        SettingKind::Number { min: -16, max: 16 },
        "slots per slab region, as a power of two",
    ),
    clipped(
        "tcache_gc_incr_bytes",
        Size,
        SettingKind::Size { min: 1024, max: i64::MAX as u64 },
        "bytes allocated between two collections of a thread cache",
    ),
    row("tcache_gc_delay_bytes", Size, SettingKind::SIZE, "bytes a cache bin is spared after it was collected"),
    clipped(
        "lg_tcache_flush_small_div",
        Unsigned,
        FLUSHED,
        "share (power of two) of small blocks flushed when a bin is full",
    ),
    clipped(
        "lg_tcache_flush_large_div",
        Unsigned,
        FLUSHED,
        "share (power of two) of large blocks flushed when a bin is full",
    ),
    row("hpa", Bool, SettingKind::Flag, "the huge page aware allocator"),
    row("hpa_slab_max_alloc", Size, OF_HUGE_PAGE, "largest block that it serves"),
    row("hpa_hugification_threshold", Size, OF_HUGE_PAGE, "bytes in use before a range becomes a huge page"),
    row("hpa_hugify_delay_ms", Size, COUNT, "time before a range becomes a huge page"),
    row("hpa_hugify_sync", Bool, SettingKind::Flag, "become huge pages at once (MADV_COLLAPSE)"),
    row("hpa_hugify_style", Name, SettingKind::words(HUGIFY), "when ranges become huge pages"),
    row("hpa_min_purge_interval_ms", Size, COUNT, "least time between two purges"),
    row("hpa_min_purge_delay_ms", Size, COUNT, "least time before a free range is purged"),
    row("hpa_purge_threshold", Size, OF_HUGE_PAGE, "free bytes of a huge page before it is purged"),
    row("hpa_sec_nshards", Size, COUNT, "shards of its cache; 0 is no cache"),
    row("hpa_sec_batch_fill_extra", Size, SettingKind::Number { min: 1, max: 512 }, "extents taken at once to fill it"),
    row("experimental_hpa_max_purge_nhp", Signed, SPINS, "most huge pages purged at once; -1 no limit"),
    row("huge_arena_pac_thp", Bool, SettingKind::Flag, "huge pages for blocks above oversize_threshold"),
];

/// The settings of [`ROWS`], without the other columns.
pub const SETTINGS: &[Setting] = &copies!(ROWS, Setting::NONE, |row| row.setting.copied());

/// How each of [`SETTINGS`] is read back, in the same order. These are copies, because code that refers to [`ROWS`] would put all of it
/// into each service.
#[cfg(feature = "jemalloc")]
pub const CTLS: &[Ctl] = &copies!(ROWS, Bool, |row| row.ctl);

/// The meaning of `tuned` in an `install!`, for a small service in a container. The study `tuned` shows what it saves and costs. A thread
/// keeps the memory of its thread cache while it is idle. Without thread caches, programs of small blocks need twice the processor time.
/// With caches of blocks up to 4 KiB they need the same time as by default, and most of a cache's memory is in larger blocks.
pub const TUNED: &[(&str, Value)] = &[
    ("narenas", Value::PerCpu(1)),
    ("tcache_max", Value::Text("4096")),
    ("dirty_decay_ms", Value::Text("1000")),
    // Without background threads an idle process keeps its dirty pages, because decay happens in allocations. This setting must be the
    // last: [`PRELOADED`] leaves out the last one.
    ("background_thread", Value::Text("true")),
];

/// The meaning of `tuned` in a preload: [`TUNED`] without `background_thread`. With that setting, jemalloc would start a thread before the
/// program's first line. The kernel refuses some calls in a program with two threads that it allows with one (`unshare -U`, `nsenter`).
pub const PRELOADED: &[(&str, Value)] = match TUNED.split_last() {
    Some((_background_thread, others)) => others,
    None => &[],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_of_a_preload_starts_no_thread() {
        let others: Vec<_> = TUNED.iter().copied().filter(|(name, _)| *name != "background_thread").collect();
        assert_eq!(PRELOADED, others);
    }
}
