//! Reads mimalloc's options by `mi_option_get`. In: the name of an option. Out: its value, and the version.
//!
//! mimalloc has no function that finds an option's number by its name, and the numbers change with versions. The numbers here are
//! those of `enum mi_option_e` in `mimalloc.h` of the releases from 1.7.5 to 3.3.2. A test sets each option and reads it back.

use std::ffi::{c_int, c_long, c_void};
use std::fmt::{self, Write};

use super::next::next;
use super::value::ReadBack;

/// The first options have had the same numbers since 1.7. Some got new names.
const FIRST: [&[&str]; 21] = [
    &["show_errors"],
    &["show_stats"],
    &["verbose"],
    &["eager_commit"],
    &["arena_eager_commit"],
    &["purge_decommits", "reset_decommits"],
    &["allow_large_os_pages", "large_os_pages"],
    &["reserve_huge_os_pages"],
    &["reserve_huge_os_pages_at"],
    &["reserve_os_memory"],
    &["segment_cache"],
    &["page_reset"],
    &["abandoned_page_purge", "abandoned_page_decommit", "abandoned_page_reset"],
    &["segment_reset"],
    &["eager_commit_delay"],
    &["purge_delay", "decommit_delay", "reset_delay"],
    &["use_numa_nodes"],
    &["disallow_os_alloc", "limit_os_alloc"],
    &["os_tag"],
    &["max_errors"],
    &["max_warnings"],
];

/// The options after the first ones, by version. Each line is valid from its version until the version of the next line.
const THEN: [(u32, &[&str]); 4] = [
    (1_07_00, &[]),
    (2_00_06, &["max_segment_reclaim", "allow_decommit", "segment_decommit_delay", "decommit_extend_delay", "destroy_on_exit"]),
    (
        2_01_00,
        &[
            "max_segment_reclaim",
            "destroy_on_exit",
            "arena_reserve",
            "arena_purge_mult",
            "purge_extend_delay",
            "abandoned_reclaim_on_free",
            "disallow_arena_alloc",
            "retry_on_oom",
            "visit_abandoned",
            "guarded_min",
            "guarded_max",
            "guarded_precise",
            "guarded_sample_rate",
            "guarded_sample_seed",
            "target_segments_per_thread",
            "generic_collect",
            "allow_thp",
        ],
    ),
    (
        3_01_00,
        &[
            "max_segment_reclaim",
            "destroy_on_exit",
            "arena_reserve",
            "arena_purge_mult",
            "purge_extend_delay",
            "disallow_arena_alloc",
            "retry_on_oom",
            "visit_abandoned",
            "guarded_min",
            "guarded_max",
            "guarded_precise",
            "guarded_sample_rate",
            "guarded_sample_seed",
            "generic_collect",
            "page_reclaim_on_free",
            "page_full_retain",
            "page_max_candidates",
            "max_vabits",
            "pagemap_commit",
            "page_commit_on_demand",
            "page_max_reclaim",
            "page_cross_thread_max_reclaim",
            "allow_thp",
            "minimal_purge_size",
            "arena_max_object_size",
            "arena_is_numa_local",
        ],
    ),
];

/// Whether the numbers of a version are known. For other versions no setting is read.
const fn is_known(version: u32) -> bool {
    matches!(version, 1_07_05..=1_99_99 | 2_00_06..=2_99_99 | 3_01_00..=3_03_02)
}

/// The version as `30302`. Older releases report 225 for 2.2.5.
fn version() -> Option<u32> {
    let found = next(c"mi_version");
    if found.is_null() {
        return None;
    }
    // SAFETY: mimalloc's function of that name has always had that type; it reads a constant.
    let version = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(found)() };
    Some(whole(u32::try_from(version).ok()?))
}

const fn whole(version: u32) -> u32 {
    if version < 1000 { version / 100 * 10_000 + version / 10 % 10 * 100 + version % 10 } else { version }
}

/// Writes the version, such as `2.2.5`.
pub fn write_version(out: &mut impl Write) -> fmt::Result {
    match version() {
        Some(version) => write!(out, "{}.{}.{}", version / 10_000, version / 100 % 100, version % 100),
        None => Ok(()),
    }
}

/// The number of an option in a version.
fn number(name: &str, version: u32) -> Option<c_int> {
    let first = FIRST.iter().position(|names| names.contains(&name));
    let (_, then) = THEN.iter().rev().find(|(since, _)| version >= *since).filter(|_| is_known(version))?;
    let later = || then.iter().position(|one| *one == name).map(|at| at + FIRST.len());
    first.or_else(later).and_then(|number| c_int::try_from(number).ok())
}

/// The value of an option. Sizes are stored in KiB.
pub fn read(name: &str, kind: &[u8]) -> Option<ReadBack<'static>> {
    let number = number(name, version()?)?;
    let found = next(c"mi_option_get");
    if found.is_null() {
        return None;
    }
    // SAFETY: mimalloc's function of that name has always had that type; the number is one of this version.
    let value = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> c_long>(found)(number) };
    match kind {
        b"flag" => Some(ReadBack::Flag(value != 0)),
        b"size" => Some(ReadBack::Number(i128::from(value) * 1024)),
        _ => Some(ReadBack::Number(value.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_has_the_number_of_its_version() {
        assert_eq!([225, 187, 30302].map(whole), [20205, 10807, 30302]);
        assert_eq!(number("allow_thp", 20302), Some(37), "mimalloc.h of 2.3.2");
        assert_eq!(number("allow_thp", 30302), Some(43), "mimalloc.h of 3.3.2");
        assert_eq!(number("arena_is_numa_local", 30302), Some(46));
        assert_eq!((number("purge_delay", 20205), number("decommit_delay", 20009)), (Some(15), Some(15)));
        assert_eq!(number("allow_decommit", 20009), Some(22));
        assert_eq!((number("allow_thp", 10705), number("purge_delay", 40000)), (None, None));
    }
}
