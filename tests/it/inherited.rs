//! Settings of the user's environment, with `allocanary` without a verb: they are read back like a candidate's
//! settings, and the settings in the title are in force.

use std::fs;

use allocanary_rows::sample::FailureKind;
use tempfile::tempdir;

use super::bounded::Bounded;
use super::support::{Ran, TINY, command, samples, study, words};
use allocanary_testing::skipped::skipped;

/// `allocanary` alone, with jemalloc, under a variable.
fn here(folder: &std::path::Path, variable: (&str, &str), flags: &str) -> Ran {
    let flags = format!("--repeats 1 --out-dir out --workloads {TINY} {flags}");
    command(folder).args(words(&flags)).env(variable.0, variable.1).finish().unwrap().into()
}

#[test]
fn a_variable_that_is_wrong_is_refused_by_its_name() {
    for (variable, value, said) in [
        ("_RJEM_MALLOC_CONF", "narena:1,dirty_decay_ms:x", "_RJEM_MALLOC_CONF: jemalloc has no setting `narena`"),
        (
            "_RJEM_MALLOC_CONF",
            "dirty_decay_ms:x",
            "_RJEM_MALLOC_CONF: dirty_decay_ms: wanted a whole number, -1 or more",
        ),
        ("MALLOC_CONF", "narenas:2,tcache", "MALLOC_CONF: `tcache` is not `name:value`"),
        ("MALLOC_CONF", "tcache_max:1048576", "MALLOC_CONF: tcache_max: wanted 1048576, found 32768"),
        ("_RJEM_MALLOC_CONF", "junk:bogus", "_RJEM_MALLOC_CONF: junk: wanted one of true, false, alloc, free"),
    ] {
        let folder = tempdir().unwrap();
        let ran = here(folder.path(), (variable, value), "--threads 1");
        assert_eq!(ran.code, Some(2), "{value}: {ran:?}");
        assert!(ran.err.contains(said), "{value}: {}", ran.err);
        assert!(!folder.path().join("out").exists(), "nothing was measured");
    }
}

#[test]
fn a_variable_that_is_right_is_read_back_and_what_is_not_studied_may_stand_beside() {
    let folder = tempdir().unwrap();
    let ran = here(folder.path(), ("_RJEM_MALLOC_CONF", "narenas:0x3,stats_print:false"), "--threads 1");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let row = samples(&folder.path().join("out")).remove(0);
    assert_eq!(row.error, None);
    assert_eq!(row.measured.unwrap().found["narenas"], "3");
}

#[test]
fn a_saved_study_with_a_wrong_variable_gives_error_rows() {
    let folder = tempdir().unwrap();
    let text = "candidates = ['jemalloc']\n[inherited]\n_RJEM_MALLOC_CONF = 'narenas:2,narena:1'\n";
    fs::write(folder.path().join("saved.toml"), text).unwrap();
    let ran = study(folder.path(), &format!("saved.toml --repeats 1 --workloads {TINY}"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let failure = samples(&folder.path().join("out")).remove(0).error.unwrap();
    assert_eq!(failure.kind, FailureKind::Setting);
    assert_eq!(failure.text, "_RJEM_MALLOC_CONF: jemalloc has no setting `narena`");
}

#[test]
fn wrong_variables_of_each_allocator_give_error_rows() {
    let whole = "wanted a whole number";
    for (allocator, variable, value, said) in [
        ("system", "GLIBC_TUNABLES", "glibc.malloc.arena_max=x", format!("arena_max: {whole}, 1 or more, found `x`")),
        ("system", "GLIBC_TUNABLES", "glibc.malloc.arena=1", "system has no setting `arena`".into()),
        ("system", "MALLOC_ARENA_MAX", "many", format!("arena_max: {whole}, 1 or more, found `many`")),
        ("mimalloc", "MIMALLOC_PURGE_DELAY", "soon", format!("purge_delay: {whole}, -1 or more, found `soon`")),
        ("mimalloc", "MIMALLOC_PURGE_DELY", "1", "mimalloc has no setting `purge_dely`".into()),
    ] {
        let folder = tempdir().unwrap();
        let text = format!("candidates = ['{allocator}']\n[inherited]\n{variable} = '{value}'\n");
        fs::write(folder.path().join("saved.toml"), text).unwrap();
        let ran = study(folder.path(), &format!("saved.toml --repeats 1 --workloads {TINY}"));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let failure = samples(&folder.path().join("out")).remove(0).error.unwrap();
        assert_eq!((failure.kind, failure.text), (FailureKind::Setting, format!("{variable}: {said}")));
    }
}

#[test]
fn emulated_cores_do_not_overrule_what_the_title_shows() {
    let arenas = |variable: (&str, &str), cores: u32| {
        let folder = tempdir().unwrap();
        let ran = here(folder.path(), variable, &format!("--emulate-cpus {cores}"));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let row = samples(&folder.path().join("out")).remove(0);
        assert_eq!((row.error.as_ref(), row.cell.cores), (None, Some(cores)));
        (row.cell.candidate.to_string(), row.measured.unwrap().found["narenas"].clone())
    };
    let (title, found) = arenas(("_RJEM_MALLOC_CONF", "narenas:3"), 12);
    assert_eq!((title.as_str(), found.as_str()), ("jemalloc _RJEM_MALLOC_CONF=narenas:3", "3"));
    assert_eq!(arenas(("_RJEM_MALLOC_CONF", "dirty_decay_ms:5"), 12).1, "48");
    // jemalloc's own rule: one arena on one processor.
    assert_eq!(arenas(("_RJEM_MALLOC_CONF", "dirty_decay_ms:5"), 1).1, "1");
}

#[test]
fn settings_without_an_effect_are_unproven_in_row_and_report() {
    let folder = tempdir().unwrap();
    let candidates = "mimalloc:guarded_sample_rate=1,os_tag=200,purge_delay=0 jemalloc:max_background_threads=2,narenas=1 \
                      jemalloc:max_background_threads=2,background_thread=true";
    let ran = study(folder.path(), &format!("--repeats 1 --workloads {TINY} --candidates {candidates}"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows = samples(&folder.path().join("out"));
    let unproven = |settings: usize, allocator: &str| {
        let row = rows.iter().find(|row| {
            row.cell.allocator == allocator && row.cell.settings.contains_key("narenas") == (settings == 1)
        });
        row.unwrap().measured.as_ref().unwrap().unproven.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(unproven(0, "mimalloc"), ["guarded_sample_rate", "os_tag"]);
    assert_eq!(unproven(1, "jemalloc"), ["max_background_threads"]);
    assert_eq!(unproven(0, "jemalloc"), [""; 0], "with background threads it has one");
    assert!(ran.out.contains("os_tag was taken, but tags are for macOS"), "{}", ran.out);
}

/// The settings without effect depend on the kernel's mode of transparent huge pages.
#[test]
fn settings_of_threads_caches_and_huge_pages_are_unproven_where_they_have_no_effect() {
    let mode = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let is = |name: &str| mode.contains(&format!("[{name}]"));
    let (huge, on_request) = (is("madvise") || is("always"), is("madvise"));
    let folder = tempdir().unwrap();
    let candidates = "system:hugetlb=1 jemalloc:thp=always,metadata_thp=always,tcache=false,tcache_max=4096 \
                      jemalloc:thp=default,metadata_thp=disabled,tcache=true,tcache_max=4096 \
                      mimalloc:allow_thp=1,retry_on_oom=400 mimalloc:allow_thp=0";
    let ran = study(folder.path(), &format!("--repeats 1 --workloads {TINY} --candidates {candidates}"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut rows = samples(&folder.path().join("out"));
    rows.sort_by_key(|row| row.cell.place);
    for row in rows {
        found.push(row.measured.unwrap().unproven.into_keys().collect());
    }
    let names = |all: &[(&str, bool)]| -> Vec<String> {
        all.iter().filter(|(_, without)| *without).map(|(name, _)| name.to_string()).collect()
    };
    let wanted = [
        names(&[("hugetlb", !on_request)]),
        names(&[("metadata_thp", !huge), ("tcache_max", true), ("thp", !huge)]),
        names(&[]),
        names(&[("allow_thp", !huge), ("retry_on_oom", true)]),
        names(&[]),
    ];
    assert_eq!(found, wanted, "THP {mode}");
}

#[test]
fn huge_pages_that_are_not_there_are_no_effect() {
    let memory = fs::read_to_string("/proc/meminfo").unwrap();
    let pool = memory.lines().find_map(|line| line.strip_prefix("HugePages_Total:"));
    if pool.is_none_or(|pool| pool.trim() != "0") || !cfg!(target_env = "gnu") {
        return skipped("there is a pool of huge pages here, or no glibc");
    }
    let folder = tempdir().unwrap();
    let candidates = "mimalloc:reserve_huge_os_pages=1 mimalloc:reserve_huge_os_pages_at=0 \
                      mimalloc:allow_large_os_pages=1 system:hugetlb=2";
    let ran = study(folder.path(), &format!("--repeats 1 --workloads {TINY} --candidates {candidates}"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for row in samples(&folder.path().join("out")) {
        let unproven = row.measured.unwrap().unproven;
        let reasons: Vec<&str> = unproven.values().map(String::as_str).collect();
        assert_eq!(
            reasons,
            ["this process has no page of the huge page pool (HugetlbPages is 0)"],
            "{}",
            row.cell.candidate
        );
    }
}
