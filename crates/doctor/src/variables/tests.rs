//! Tests of problems with settings, for each variable, and of their effective values.

use super::*;
use crate::environment::assignments;
use crate::seen::Libraries;

fn problems(variable: &str, text: &str) -> Vec<String> {
    let variables = Variables::from([(variable.to_string(), text.to_string())]);
    assignments(&variables, &Libraries::default()).into_iter().filter_map(|one| one.problem).collect()
}

fn problem_of(variable: &str, text: &str, libraries: &Libraries) -> Option<String> {
    let variables = Variables::from([(variable.to_string(), text.to_string())]);
    assignments(&variables, libraries).remove(0).problem
}

#[test]
fn jemalloc_takes_what_its_own_parser_takes() {
    let ratio = "narenas:default,narenas_ratio:0.5";
    for good in ["narenas:2,tcache:false", ratio, "prof:true", "tcache_max:0x1000", "", "narenas:4094"] {
        assert_eq!(problems("MALLOC_CONF", good), [""; 0], "{good}");
    }
    for (text, said) in [
        ("narena:2", "jemalloc has no setting `narena`; perhaps narenas (as of 5.3.1)"),
        ("background_thread:1", "background_thread: wanted true or false, found `1`: jemalloc keeps"),
        ("oversize_threshold:8MiB", "oversize_threshold: wanted a number of bytes, found `8MiB`"),
        ("narenas:99999", "narenas: 99999 becomes 4094: jemalloc clips it"),
        ("narenas:0", "narenas: wanted a whole number from 1 to 4094"),
        ("tcache_nslots_large:0", "tcache_nslots_large: 0 becomes 1"),
        ("tcache_max:1048576", "becomes 32768: jemalloc clips it from 5.3.1 on; 5.3.0 takes it as it is"),
        ("junk:bogus", "junk: wanted one of true, false, alloc, free, found `bogus`: jemalloc keeps"),
        ("zero:1", "zero: wanted true or false, found `1`"),
        ("thp:sometimes", "wanted one of default, always, never"),
        ("narenas_ratio:1e3", "narenas_ratio: wanted a number such as 4 or 0.5, found `1e3`"),
    ] {
        assert!(problems("MALLOC_CONF", text)[0].contains(said), "{text}: {:?}", problems("MALLOC_CONF", text));
    }
    let stopped = problems("MALLOC_CONF", "narenas:2, tcache:1,tcache:1");
    assert_eq!(stopped, ["` tcache:1` is not `name:value`: jemalloc reads no further"]);
}

#[test]
fn a_known_jemalloc_is_judged_by_its_release() {
    let of = |version: &str, text: &str| {
        let libraries = Libraries { jemalloc: Some(version.into()), ..Libraries::default() };
        problem_of("MALLOC_CONF", text, &libraries).unwrap_or_default()
    };
    assert_eq!(of("5.3.0", "tcache_max:1048576"), "");
    assert!(of("5.3.0", "tcache_max:16777216").contains("becomes 8388608: jemalloc 5.3.0 clips it"));
    assert!(of("5.3.1", "tcache_max:1048576").contains("becomes 32768: jemalloc 5.3.1 clips it"));
    assert!(of("5.2.1", "tcache_max:4096").contains("no setting `tcache_max`; perhaps lg_tcache_max"));
    assert!(of("5.3.0", "tcache_ncached_max:8-64:1").contains("5.3.0, has no setting `tcache_ncached_max`"));
    assert_eq!(of("5.3.1", "tcache_ncached_max:8-64:1"), "");
    assert!(of("5.3.0", "narena:1").starts_with("jemalloc 5.3.1 (this program has 5.3.0) has no setting `narena`"));
}

#[test]
fn what_is_clipped_counts_with_the_value_that_it_becomes() {
    let of = |text: &str, jemalloc: Option<&str>| {
        let variables = Variables::from([("MALLOC_CONF".to_string(), text.to_string())]);
        let libraries = Libraries { jemalloc: jemalloc.map(str::to_string), ..Libraries::default() };
        settings(&assignments(&variables, &libraries), "jemalloc").into_values().collect::<Vec<_>>()
    };
    assert_eq!(of("narenas:99999", None), ["4094"]);
    assert_eq!(of("tcache_max:1048576", Some("5.3.1")), ["32768"]);
    assert_eq!(of("tcache_max:1048576", None), ["1048576"]);
    assert_eq!(of("narenas:0", None), [""; 0]);
}

#[test]
fn a_known_mimalloc_is_asked_for_its_options() {
    let words = ["purge_delay", "eager_commit"].map(str::to_string);
    let libraries = Libraries { mimalloc_words: Some(words.into()), ..Libraries::default() };
    let of = |variable: &str| problem_of(variable, "0", &libraries).unwrap_or_default();
    assert!(of("MIMALLOC_ALLOW_THP").starts_with("this program's mimalloc has no option `allow_thp`"));
    assert_eq!((of("MIMALLOC_PURGE_DELAY"), of("MIMALLOC_EAGER_COMMIT")), (String::new(), String::new()));
    assert!(problem_of("MIMALLOC_EAGER_COMMIT", "0", &Libraries::default()).is_some());
}

#[cfg(target_env = "gnu")]
#[test]
fn glibc_reads_no_units_and_names_no_mistakes() {
    assert_eq!(problems("MALLOC_ARENA_MAX", "2"), [""; 0]);
    assert_eq!(problems("GLIBC_TUNABLES", "glibc.malloc.arena_max=0x2:glibc.rtld.nns=5"), [""; 0]);
    assert_eq!(
        problems("MALLOC_TRIM_THRESHOLD_", "128k"),
        ["trim_threshold: glibc reads no units and takes 128 from `128k`"]
    );
    assert!(problems("MALLOC_ARENA_MAX", "0")[0].starts_with("arena_max: wanted a whole number, 1 or more"));
    let unknown = problems("GLIBC_TUNABLES", "glibc.malloc.arenas_max=2");
    assert!(unknown[0].contains("no tunable `glibc.malloc.arenas_max`; perhaps arena_max"), "{unknown:?}");
}

#[test]
fn mimalloc_takes_words_units_and_older_names() {
    for (variable, good) in [
        ("MIMALLOC_ALLOW_THP", "off"),
        ("MIMALLOC_ARENA_RESERVE", "64MiB"),
        ("mimalloc_purge_delay", "-1"),
        ("MIMALLOC_RESET_DELAY", "0"),
    ] {
        assert_eq!(problems(variable, good), [""; 0], "{variable}");
    }
    assert!(problems("MIMALLOC_ALLOW_THP", "2")[0].contains("from 0 to 1, found `2`"));
    assert!(problems("MIMALLOC_PURGE_DELAYS", "2")[0].contains("; perhaps purge_delay"));
}

#[test]
fn the_tunable_comes_after_the_variable() {
    let variables = [("GLIBC_TUNABLES", "glibc.malloc.arena_max=5"), ("MALLOC_ARENA_MAX", "3")];
    let variables = variables.map(|(name, value)| (name.to_string(), value.to_string())).into();
    assert_eq!(settings(&assignments(&variables, &Libraries::default()), "system")["arena_max"], "5");
}
