//! The settings of the linked version of mimalloc, and their older names.

use crate::request::Value;
use crate::setting::{Setting, SettingKind};

const FLAG: SettingKind = SettingKind::Number { min: 0, max: 1 };
const COUNT: SettingKind = SettingKind::Number { min: 0, max: i64::MAX };
const SIGNED: SettingKind = SettingKind::Number { min: -1, max: i64::MAX };
const OWNERS: SettingKind = SettingKind::Number { min: -1, max: 1 };
const LEVEL: SettingKind = SettingKind::Number { min: 0, max: 2 };

/// The meaning of `tuned` in an `install!` and a preload, for a small service in a container. The study `tuned` shows what it saves and
/// costs.
pub const TUNED: &[(&str, Value)] = &[("allow_thp", Value::Text("0")), ("purge_delay", Value::Text("0"))];

/// Every option of mimalloc v3 that has an effect in the linked version.
pub const SETTINGS: &[Setting] = &[
    Setting::new("purge_delay", SIGNED, "ms before freed pages go back; 0 at once, -1 never"),
    Setting::new("purge_decommits", FLAG, "1 gives pages back (MADV_DONTNEED), 0 only marks them (MADV_FREE)"),
    Setting::new("arena_eager_commit", LEVEL, "commit whole arenas: 0 no, 1 yes, 2 where the system overcommits"),
    Setting::new("arena_reserve", SettingKind::SIZE, "address space reserved at a time"),
    Setting::new("arena_purge_mult", COUNT, "arenas wait this many times purge_delay"),
    Setting::new("allow_thp", FLAG, "transparent huge pages where the kernel offers them (madvise counts)"),
    Setting::new("allow_large_os_pages", LEVEL, "2 MiB pages from the system's pool"),
    Setting::new("page_reclaim_on_free", OWNERS, "a free takes over pages of dead threads: -1 never, 0 own, 1 always"),
    Setting::new("page_full_retain", SIGNED, "full small pages kept per size"),
    Setting::new("page_max_candidates", COUNT, "pages looked at for one allocation"),
    Setting::new("page_commit_on_demand", LEVEL, "commit a page's memory piece by piece"),
    Setting::new("page_max_reclaim", SIGNED, "most own pages reclaimed per size; -1 no limit"),
    Setting::new("page_cross_thread_max_reclaim", SIGNED, "most pages of other threads reclaimed per size"),
    Setting::new("generic_collect", COUNT, "slow-path calls between two collections of a heap"),
    Setting::new("minimal_purge_size", SettingKind::SIZE, "least piece given back; 0 lets mimalloc choose"),
    Setting::new("arena_max_object_size", SettingKind::SIZE, "largest block that lives in an arena"),
    Setting::new("arena_is_numa_local", FLAG, "experimental: arenas stay on a NUMA node"),
    Setting::new("reserve_huge_os_pages", COUNT, "1 GiB pages reserved at start"),
    Setting::new("reserve_huge_os_pages_at", SIGNED, "NUMA node of those pages; -1 any"),
    Setting::new("reserve_os_memory", SettingKind::SIZE, "memory reserved at start"),
    Setting::new("use_numa_nodes", COUNT, "NUMA nodes to use; 0 all"),
    Setting::new("disallow_os_alloc", FLAG, "allocate from reserved arenas only"),
    Setting::new("disallow_arena_alloc", FLAG, "never allocate from arenas"),
    Setting::new("max_vabits", SettingKind::Number { min: 0, max: 64 }, "bits of an address that the page map covers"),
    Setting::new("pagemap_commit", FLAG, "commit the whole page map, to catch foreign pointers"),
    Setting::new("visit_abandoned", FLAG, "let heap walks see dead threads' blocks"),
    Setting::new("destroy_on_exit", FLAG, "give all memory back at exit"),
    Setting::new("retry_on_oom", COUNT, "ms to try again when the system has no memory (Windows)"),
    Setting::new("os_tag", COUNT, "tag of our pages in the system's tools (macOS)"),
    Setting::new("guarded_min", COUNT, "least block behind a guard page, in builds with guards"),
    Setting::new("guarded_max", COUNT, "largest block behind a guard page, in builds with guards"),
    Setting::new("guarded_precise", FLAG, "guard the exact end of a block, in builds with guards"),
    Setting::new("guarded_sample_rate", COUNT, "one block in this many is guarded, in builds with guards"),
    Setting::new("guarded_sample_seed", COUNT, "where that count starts, in builds with guards"),
    Setting::new("show_stats", FLAG, "print statistics at exit"),
    Setting::new("verbose", COUNT, "print what mimalloc does"),
    Setting::new("show_errors", FLAG, "print errors"),
    Setting::new("max_errors", SIGNED, "most errors printed"),
    Setting::new("max_warnings", SIGNED, "most warnings printed"),
];

/// Older names of options that mimalloc still reads, each with the option that it means.
pub const OLD: &[(&str, &str)] = &[
    ("abandoned_reclaim_on_free", "page_reclaim_on_free"),
    ("eager_region_commit", "arena_eager_commit"),
    ("large_os_pages", "allow_large_os_pages"),
    ("limit_os_alloc", "disallow_os_alloc"),
    ("reset_decommits", "purge_decommits"),
    ("reset_delay", "purge_delay"),
];

/// The names of [`OLD`] in the notation of [`also`](crate::setting::also). They are one text, because the loader would have to relocate a
/// table at each start.
pub const ALSO: &str = "abandoned_reclaim_on_free=text eager_region_commit=text large_os_pages=text \
    limit_os_alloc=text reset_decommits=text reset_delay=text";

/// Options that mimalloc reads before `main`. A call in `main` is too late for them.
pub(super) const BEFORE_MAIN: &[&str] = &["allow_thp", "page_full_retain"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_names_are_those_of_the_list_and_stand_for_options() {
        let names: Vec<&str> = ALSO.split(' ').filter_map(|row| row.strip_suffix("=text")).collect();
        assert_eq!(OLD.iter().map(|(old, _)| *old).collect::<Vec<_>>(), names);
        for name in OLD.iter().map(|(_, new)| new).chain(BEFORE_MAIN) {
            assert!(SETTINGS.iter().any(|setting| setting.name == *name), "{name}");
        }
    }
}
