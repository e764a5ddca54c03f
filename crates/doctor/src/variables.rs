//! What the variables that configure allocators say, setting by setting. In: an environment. Out: every assignment in
//! the order in which it is read, with what is wrong with it.
//!
//! Stricter than [`Kind::canonical`], which takes what people mean: here it counts what the allocator's own parser takes.

use std::collections::BTreeMap;

use super::Variables;
use super::links::{A_FILE, LINKS};
#[cfg(feature = "jemalloc")]
use allocanary_allocators::JEMALLOC_SETTINGS;
#[cfg(feature = "mimalloc")]
use allocanary_allocators::MIMALLOC_SETTINGS;
use allocanary_allocators::SYSTEM_SETTINGS;
use allocanary_allocators::setting::{Kind, Setting};
use allocanary_cell::spec::nearest;
#[cfg(not(feature = "jemalloc"))]
const JEMALLOC_SETTINGS: &[Setting] = &[];
#[cfg(not(feature = "mimalloc"))]
const MIMALLOC_SETTINGS: &[Setting] = &[];

/// Whose setting it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Any jemalloc's.
    Jemalloc,
    /// glibc's malloc's.
    Glibc,
    /// mimalloc's.
    Mimalloc,
}

/// One setting, as a variable has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Whose it is.
    pub family: Family,
    /// The variable that it stands in.
    pub variable: String,
    /// The allocator's name for it.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Why it will not be taken, if so.
    pub problem: Option<String>,
}

/// jemalloc's variables, in the order in which a program with `install!` reads them.
pub const JEMALLOC_VARIABLES: [&str; 3] = ["JE_MALLOC_CONF", "MALLOC_CONF", "_RJEM_MALLOC_CONF"];

/// The older variables of glibc and the tunables that they are.
pub const GLIBC_VARIABLES: [(&str, &str); 8] = [
    ("MALLOC_ARENA_MAX", "arena_max"),
    ("MALLOC_ARENA_TEST", "arena_test"),
    ("MALLOC_CHECK_", "check"),
    ("MALLOC_MMAP_MAX_", "mmap_max"),
    ("MALLOC_MMAP_THRESHOLD_", "mmap_threshold"),
    ("MALLOC_PERTURB_", "perturb"),
    ("MALLOC_TOP_PAD_", "top_pad"),
    ("MALLOC_TRIM_THRESHOLD_", "trim_threshold"),
];

/// What jemalloc 5 takes beside the settings of our table: debugging, profiling, statistics, and those that change no
/// cost that we study. Their values are not looked at.
const JEMALLOC_ALSO: &str = "abort abort_conf bin_shards calloc_madvise_threshold confirm_conf \
    debug_double_free_max_scan disable_large_size_classes experimental_hpa_enforce_hugify \
    experimental_hpa_max_purge_nhp experimental_hpa_start_huge_if_thp_always experimental_infallible_new hpa_dirty_mult \
    hpa_hugification_threshold hpa_hugification_threshold_ratio hpa_hugify_delay_ms hpa_hugify_style hpa_hugify_sync \
    hpa_min_purge_delay_ms hpa_min_purge_interval_ms hpa_purge_threshold hpa_purge_threshold_ratio \
    hpa_sec_batch_fill_extra hpa_sec_bytes_after_flush hpa_sec_max_alloc hpa_sec_max_bytes hpa_sec_nshards \
    hpa_slab_max_alloc huge_arena_pac_thp junk lg_prof_interval lg_prof_sample lg_san_uaf_align lg_tcache_max log \
    prof prof_accum prof_active prof_bt_max prof_final prof_gdump prof_leak prof_leak_error prof_log \
    prof_pid_namespace prof_prefix prof_recent_alloc_max prof_stats prof_sys_thread_name prof_thread_active_init \
    prof_time_resolution prof_unbias san_guard_large san_guard_small slab_sizes stats_interval stats_interval_opts \
    stats_print stats_print_opts utrace xmalloc zero zero_realloc";

/// mimalloc's older names for its options, which it still reads.
const MIMALLOC_OLD: [(&str, &str); 6] = [
    ("abandoned_reclaim_on_free", "page_reclaim_on_free"),
    ("eager_region_commit", "arena_eager_commit"),
    ("large_os_pages", "allow_large_os_pages"),
    ("limit_os_alloc", "disallow_os_alloc"),
    ("reset_decommits", "purge_decommits"),
    ("reset_delay", "purge_delay"),
];

/// Every setting in the environment, those that are read earlier first.
pub fn assignments(variables: &Variables) -> Vec<Assignment> {
    let mut found = Vec::new();
    // A link is read right before the variable of the same build.
    for name in LINKS.into_iter().flat_map(|(link, variable)| [link, variable]) {
        if let Some(text) = variables.get(name).filter(|text| *text != A_FILE) {
            jemalloc(name, text, &mut found);
        }
    }
    for (name, key) in GLIBC_VARIABLES {
        if let Some(value) = variables.get(name) {
            found.push(glibc(name, key, value));
        }
    }
    // Wherever the tunable stands, it wins over the older variable.
    for pair in variables.get("GLIBC_TUNABLES").iter().flat_map(|text| text.split(':')) {
        if let Some((key, value)) = pair.split_once('=')
            && let Some(key) = key.strip_prefix("glibc.malloc.")
        {
            found.push(glibc("GLIBC_TUNABLES", key, value));
        }
    }
    // mimalloc looks its variables up in any case.
    for (name, value) in variables {
        if let Some(key) = name.to_ascii_lowercase().strip_prefix("mimalloc_") {
            found.push(mimalloc(name, key, value));
        }
    }
    found
}

/// The settings of a family that are well-formed, the later over the earlier.
pub fn settings(assignments: &[Assignment], family: Family) -> BTreeMap<String, String> {
    let good = assignments.iter().filter(|one| one.family == family && one.problem.is_none());
    good.map(|one| (one.key.clone(), one.value.clone())).collect()
}

/// jemalloc stops at the first thing that is not `name:value`; what is merely unknown it skips.
fn jemalloc(variable: &str, text: &str, found: &mut Vec<Assignment>) {
    let mut add = |key: &str, value: &str, problem: Option<String>| {
        let (family, variable) = (Family::Jemalloc, variable.to_string());
        found.push(Assignment { family, variable, key: key.into(), value: value.into(), problem });
    };
    for pair in text.split(',') {
        let name = |key: &str| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match pair.split_once(':') {
            Some((key, value)) if name(key) => add(key, value, jemalloc_problem(key, value)),
            _ if pair.is_empty() && text.is_empty() => {}
            _ => {
                let problem = format!("`{pair}` is not `name:value`: jemalloc reads no further");
                return add(pair, "", Some(problem));
            }
        }
    }
}

fn jemalloc_problem(key: &str, value: &str) -> Option<String> {
    let Some(setting) = JEMALLOC_SETTINGS.iter().find(|setting| setting.name == key) else {
        let also = || JEMALLOC_ALSO.split_ascii_whitespace();
        if JEMALLOC_SETTINGS.is_empty() || also().any(|name| name == key) {
            return None;
        }
        let names = JEMALLOC_SETTINGS.iter().map(|setting| setting.name.as_ref()).chain(also());
        return Some(format!("jemalloc has no setting `{key}`{}", perhaps(key, names)));
    };
    let taken = match setting.kind {
        Kind::Flag => matches!(value, "true" | "false"),
        Kind::Number { .. } if key == "narenas" && value == "default" => return None,
        Kind::Number { .. } | Kind::Size { .. } => number(value).is_some(),
        Kind::Choice { .. } | Kind::Text => true,
    };
    if key == "narenas_ratio" && (value.contains(|c| !matches!(c, '0'..='9' | '.')) || value.parse::<f64>().is_err()) {
        return Some(format!("{key}: wanted a number such as 4 or 0.5, found `{value}`: jemalloc keeps its default"));
    }
    // Clipped, not refused: in jemalloc 5.3.1 with pages of 4 KiB.
    if key == "tcache_max" && number(value).is_some_and(|bytes| bytes > 32 << 10) {
        return Some(format!("tcache_max: {value} becomes 32768: jemalloc clips it without a word"));
    }
    refused(setting, value, taken).map(|wanted| format!("{wanted}: jemalloc keeps its default"))
}

fn glibc(variable: &str, key: &str, value: &str) -> Assignment {
    let setting = SYSTEM_SETTINGS.iter().find(|setting| setting.name == key);
    let problem = match setting {
        None if SYSTEM_SETTINGS.is_empty() || key == "check" => None,
        None => {
            let names = SYSTEM_SETTINGS.iter().map(|setting| setting.name.as_ref());
            let near = perhaps(key, names);
            Some(format!("glibc has no tunable `glibc.malloc.{key}`{near}; it ignores it without a word"))
        }
        Some(setting) => {
            let leading = value.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            match number(value) {
                None if leading.is_empty() => refused(setting, value, false),
                None => Some(format!("{key}: glibc reads no units and takes {leading} from `{value}`")),
                Some(number) => refused(setting, &number.to_string(), true),
            }
        }
    };
    Assignment { family: Family::Glibc, variable: variable.into(), key: key.into(), value: value.into(), problem }
}

fn mimalloc(variable: &str, key: &str, value: &str) -> Assignment {
    let key = MIMALLOC_OLD.iter().find(|(old, _)| *old == key).map_or(key, |(_, new)| new);
    let problem = match MIMALLOC_SETTINGS.iter().find(|setting| setting.name == key) {
        None if MIMALLOC_SETTINGS.is_empty() => None,
        None => {
            let near = perhaps(key, MIMALLOC_SETTINGS.iter().map(|setting| setting.name.as_ref()));
            Some(format!("mimalloc v3 has no option `{key}`{near}; it ignores it without a word"))
        }
        // Its parser takes these words for 1 and 0 wherever a number may stand, and nothing at all for 1.
        Some(_) if ["", "true", "yes", "on", "false", "no", "off"].contains(&&*value.to_ascii_lowercase()) => None,
        Some(setting) => refused(setting, value, true),
    };
    Assignment { family: Family::Mimalloc, variable: variable.into(), key: key.into(), value: value.into(), problem }
}

/// What is wrong with a value that the allocator's parser does not take, or that is out of its range.
fn refused(setting: &Setting, value: &str, taken: bool) -> Option<String> {
    let fits = match (taken, number(value)) {
        (false, _) => false,
        (true, Some(number)) if value.starts_with("0x") => setting.kind.canonical(&number.to_string()).is_ok(),
        _ => setting.kind.canonical(value).is_ok(),
    };
    let wanted = match setting.kind {
        Kind::Size { min: 0, max } if max > 1 << 40 => "a number of bytes".to_string(),
        _ => setting.kind.wanted(),
    };
    (!fits).then(|| format!("{}: wanted {wanted}, found `{value}`", setting.name))
}

/// A whole number as C's strtol reads it, without a unit behind it.
fn number(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `; perhaps narenas`, or nothing.
pub fn perhaps<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(wanted, names).first() {
        Some(near) => format!("; perhaps {near}"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(variable: &str, text: &str) -> Vec<String> {
        let variables = Variables::from([(variable.to_string(), text.to_string())]);
        assignments(&variables).into_iter().filter_map(|one| one.problem).collect()
    }

    #[cfg(feature = "jemalloc")]
    #[test]
    fn jemalloc_takes_what_its_own_parser_takes() {
        let ratio = "narenas:default,narenas_ratio:0.5";
        for good in ["narenas:2,tcache:false", ratio, "prof:true", "tcache_max:0x1000", "", "narenas:4094"] {
            assert_eq!(problems("MALLOC_CONF", good), [""; 0], "{good}");
        }
        for (text, said) in [
            ("narena:2", "jemalloc has no setting `narena`; perhaps narenas"),
            ("background_thread:1", "background_thread: wanted true or false, found `1`: jemalloc keeps"),
            ("oversize_threshold:8MiB", "oversize_threshold: wanted a number of bytes, found `8MiB`"),
            ("narenas:5000", "narenas: wanted a whole number from 1 to 4094"),
            ("tcache_max:1048576", "becomes 32768"),
            ("thp:sometimes", "wanted one of default, always, never"),
            ("narenas_ratio:1e3", "narenas_ratio: wanted a number such as 4 or 0.5, found `1e3`"),
        ] {
            assert!(problems("MALLOC_CONF", text)[0].contains(said), "{text}: {:?}", problems("MALLOC_CONF", text));
        }
        let stopped = problems("MALLOC_CONF", "narenas:2, tcache:1,tcache:1");
        assert_eq!(stopped, ["` tcache:1` is not `name:value`: jemalloc reads no further"]);
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

    #[cfg(feature = "mimalloc")]
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
        assert_eq!(settings(&assignments(&variables), Family::Glibc)["arena_max"], "5");
    }
}
