//! The mimalloc libraries that distributions and users build, with the settings of their releases.

use super::{ENVIRONMENT, NAME};
use crate::library::{FIRST, LibraryKind, NEVER, VersionSetting, row};
use crate::setting::SettingKind;

const COUNT: SettingKind = SettingKind::Number { min: 0, max: i64::MAX };
const SIGNED: SettingKind = SettingKind::Number { min: -1, max: i64::MAX };
const BIT: SettingKind = SettingKind::Number { min: 0, max: 1 };
const LEVEL: SettingKind = SettingKind::Number { min: 0, max: 2 };

/// mimalloc's libraries. Their bytes do not contain a version.
pub const LIBRARIES: &[LibraryKind] = &[LibraryKind {
    name: NAME,
    files: &["libmimalloc", "libmimalloc-secure"],
    version: |_| None,
    rows: ROWS,
    environment: ENVIRONMENT,
    capitals_after: None,
    reader: NAME,
}];

/// The options of versions 1.7 to 3.3 that cost or save memory or time. Source: `enum mi_option_e` in `mimalloc.h` of these releases.
const ROWS: &[VersionSetting] = &[
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
    row([2, 1, 0], NEVER, "arena_reserve", SettingKind::SIZE, "address space reserved at a time"),
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
        SettingKind::Number { min: -1, max: 1 },
        "a free takes over pages of dead threads",
    ),
    row([3, 1, 0], NEVER, "page_full_retain", SIGNED, "full small pages kept per size"),
    row([3, 1, 0], NEVER, "page_max_candidates", COUNT, "pages looked at for one allocation"),
    row([3, 1, 0], NEVER, "page_commit_on_demand", LEVEL, "commit a page's memory piece by piece"),
    row([3, 1, 0], NEVER, "page_max_reclaim", SIGNED, "most own pages reclaimed per size; -1 no limit"),
    row([3, 1, 0], NEVER, "page_cross_thread_max_reclaim", SIGNED, "most pages of other threads reclaimed per size"),
    row([3, 3, 0], NEVER, "minimal_purge_size", SettingKind::SIZE, "least piece given back; 0 lets mimalloc choose"),
    row([3, 3, 0], NEVER, "arena_max_object_size", SettingKind::SIZE, "largest block that lives in an arena"),
];
