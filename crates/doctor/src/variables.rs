//! What the variables that configure allocators say, setting by setting. In: an environment. Out: every assignment in
//! the order in which it is read, with what is wrong with it.
//!
//! Stricter than [`Kind::canonical`], which takes what people mean: here it counts what the allocator's own parser takes.

use std::collections::BTreeMap;

use super::Variables;
use super::links::{A_FILE, LINKS};
use super::seen::Libraries;
#[cfg(feature = "mimalloc")]
use allocanary_allocators::MIMALLOC_SETTINGS;
use allocanary_allocators::SYSTEM_SETTINGS;
use allocanary_allocators::setting::{Kind, Setting, also, c_number as number};
#[cfg(feature = "jemalloc")]
use allocanary_allocators::{JEMALLOC_ALSO, JEMALLOC_SETTINGS};
use allocanary_cell::spec::nearest;
#[cfg(not(feature = "jemalloc"))]
const JEMALLOC_SETTINGS: &[Setting] = &[];
#[cfg(not(feature = "jemalloc"))]
const JEMALLOC_ALSO: &str = "";
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
    /// The value that the allocator takes: this one, another where it clips, or none.
    pub becomes: Option<String>,
    /// Why it will not be taken as it is, if so.
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

/// Settings that jemalloc 5.3.1 has and 5.3.0 has not.
const SINCE_5_3_1: [&str; 3] = ["experimental_tcache_gc", "process_madvise_max_batch", "tcache_ncached_max"];

/// Settings that jemalloc clips to what it takes, where it refuses other values.
const CLIPPED: [&str; 8] = [
    "lg_tcache_flush_large_div",
    "lg_tcache_flush_small_div",
    "max_background_threads",
    "narenas",
    "tcache_gc_incr_bytes",
    "tcache_nslots_large",
    "tcache_nslots_small_max",
    "tcache_nslots_small_min",
];

/// mimalloc's older names for its options, which it still reads.
const MIMALLOC_OLD: [(&str, &str); 6] = [
    ("abandoned_reclaim_on_free", "page_reclaim_on_free"),
    ("eager_region_commit", "arena_eager_commit"),
    ("large_os_pages", "allow_large_os_pages"),
    ("limit_os_alloc", "disallow_os_alloc"),
    ("reset_decommits", "purge_decommits"),
    ("reset_delay", "purge_delay"),
];

/// Every setting in the environment, those that are read earlier first. `libraries` is what is known of the allocators that
/// will read them.
pub fn assignments(variables: &Variables, libraries: &Libraries) -> Vec<Assignment> {
    let mut found = Vec::new();
    // A link is read right before the variable of the same build.
    for name in LINKS.into_iter().flat_map(|(link, variable)| [link, variable]) {
        if let Some(text) = variables.get(name).filter(|text| *text != A_FILE) {
            jemalloc(name, text, libraries, &mut found);
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
            found.push(mimalloc(name, key, value, libraries));
        }
    }
    found
}

/// The settings of a family that are taken, the later over the earlier, each with the value that it has then.
pub fn settings(assignments: &[Assignment], family: Family) -> BTreeMap<String, String> {
    let own = assignments.iter().filter(|one| one.family == family);
    own.filter_map(|one| Some((one.key.clone(), one.becomes.clone()?))).collect()
}

/// jemalloc stops at the first thing that is not `name:value`; what is merely unknown it skips.
fn jemalloc(variable: &str, text: &str, libraries: &Libraries, found: &mut Vec<Assignment>) {
    let mut add = |key: &str, value: &str, problem: Option<Problem>| {
        let (family, variable) = (Family::Jemalloc, variable.to_string());
        let (problem, becomes) = match problem {
            Some(Problem { text, becomes }) => (Some(text), becomes),
            None => (None, Some(value.to_string())),
        };
        found.push(Assignment { family, variable, key: key.into(), value: value.into(), becomes, problem });
    };
    for pair in text.split(',') {
        let name = |key: &str| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match pair.split_once(':') {
            Some((key, value)) if name(key) => add(key, value, jemalloc_problem(key, value, libraries)),
            _ if pair.is_empty() && text.is_empty() => {}
            _ => {
                let problem = format!("`{pair}` is not `name:value`: jemalloc reads no further");
                return add(pair, "", Some(problem.into()));
            }
        }
    }
}

/// What is wrong with a setting, and the value that the allocator takes all the same.
struct Problem {
    text: String,
    becomes: Option<String>,
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Problem { text, becomes: None }
    }
}

fn jemalloc_problem(key: &str, value: &str, libraries: &Libraries) -> Option<Problem> {
    let release = libraries.jemalloc_release();
    let Some(setting) = JEMALLOC_SETTINGS.iter().find(|setting| setting.name == key) else {
        if JEMALLOC_SETTINGS.is_empty() {
            return None;
        }
        return match also(JEMALLOC_ALSO, key, value) {
            Some(Ok(())) => None,
            Some(Err(wanted)) => Some(format!("{key}: {wanted}, found `{value}`: jemalloc keeps its default").into()),
            None => {
                let others = JEMALLOC_ALSO.split_ascii_whitespace().filter_map(|row| row.split('=').next());
                let names = JEMALLOC_SETTINGS.iter().map(|setting| setting.name.as_ref()).chain(others);
                let near = perhaps(key, names);
                // Our table is that of the newest release.
                let of = match libraries.jemalloc.as_deref() {
                    Some(version) if release != Some([5, 3, 1]) => format!(" 5.3.1 (this program has {version})"),
                    _ => String::new(),
                };
                let held = if release.is_none() { " (as of 5.3.1)" } else { "" };
                Some(format!("jemalloc{of} has no setting `{key}`{near}{held}").into())
            }
        };
    };
    if SINCE_5_3_1.contains(&key) && release.is_some_and(|release| release < [5, 3, 1]) {
        let version = libraries.jemalloc.as_deref().unwrap_or_default();
        return Some(format!("this program's jemalloc, {version}, has no setting `{key}`: it came with 5.3.1").into());
    }
    let taken = match setting.kind {
        Kind::Flag => matches!(value, "true" | "false"),
        Kind::Number { .. } if key == "narenas" && value == "default" => return None,
        Kind::Number { .. } | Kind::Size { .. } => number(value).is_some(),
        Kind::Choice { .. } | Kind::Text => true,
    };
    if key == "narenas_ratio" && (value.contains(|c| !matches!(c, '0'..='9' | '.')) || value.parse::<f64>().is_err()) {
        let wanted = format!("{key}: wanted a number such as 4 or 0.5, found `{value}`: jemalloc keeps its default");
        return Some(wanted.into());
    }
    if key == "tcache_max"
        && let Some(bytes) = number(value)
    {
        return tcache_max_problem(bytes, value, release);
    }
    if CLIPPED.contains(&key)
        && let Some(bound) = number(value).and_then(|number| clipped(setting, number))
    {
        let text = format!("{key}: {value} becomes {bound}: jemalloc clips it");
        return Some(Problem { text, becomes: Some(bound.to_string()) });
    }
    refused(setting, value, taken).map(|wanted| format!("{wanted}: jemalloc keeps its default").into())
}

/// The bound that a number out of range becomes. jemalloc refuses 0 arenas, and clips what is too many.
fn clipped(setting: &Setting, number: i128) -> Option<i128> {
    let (min, max) = match setting.kind {
        Kind::Number { min, max } => (i128::from(min), i128::from(max)),
        Kind::Size { min, max } => (i128::from(min), i128::from(max)),
        _ => return None,
    };
    match number {
        _ if number > max => Some(max),
        _ if number < min && setting.name != "narenas" => Some(min),
        _ => None,
    }
}

/// What is wrong with a limit of the thread caches, with pages of 4 KiB: 5.3.0 takes more than later releases do.
fn tcache_max_problem(bytes: i128, value: &str, release: Option<[u32; 3]>) -> Option<Problem> {
    const MOST_5_3_0: i128 = 8 << 20;
    const MOST: i128 = 32 << 10;
    let (most, of) = match release {
        Some(release) if release < [5, 3, 0] => {
            return Some(
                "this program's jemalloc has no setting `tcache_max`; perhaps lg_tcache_max".to_string().into(),
            );
        }
        Some([5, 3, 0]) => (MOST_5_3_0, "jemalloc 5.3.0 clips it".to_string()),
        Some([major, minor, patch]) => (MOST, format!("jemalloc {major}.{minor}.{patch} clips it")),
        None if bytes > MOST_5_3_0 => (MOST, format!("jemalloc clips it from 5.3.1 on, and 5.3.0 to {MOST_5_3_0}")),
        None => (MOST, "jemalloc clips it from 5.3.1 on; 5.3.0 takes it as it is".to_string()),
    };
    (bytes > most).then(|| Problem {
        text: format!("tcache_max: {value} becomes {most}: {of}, without a word"),
        // Where the release is not known the user's value stays.
        becomes: Some(if release.is_some() { most.to_string() } else { value.to_string() }),
    })
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
    assignment(Family::Glibc, variable, key, value, problem)
}

fn assignment(family: Family, variable: &str, key: &str, value: &str, problem: Option<String>) -> Assignment {
    let becomes = problem.is_none().then(|| value.to_string());
    Assignment { family, variable: variable.into(), key: key.into(), value: value.into(), becomes, problem }
}

fn mimalloc(variable: &str, key: &str, value: &str, libraries: &Libraries) -> Assignment {
    let key = MIMALLOC_OLD.iter().find(|(old, _)| *old == key).map_or(key, |(_, new)| new);
    let problem = match MIMALLOC_SETTINGS.iter().find(|setting| setting.name == key) {
        Some(_) if libraries.has_option(key) == Some(false) => {
            Some(format!("this program's mimalloc has no option `{key}`; it ignores it without a word"))
        }
        None if MIMALLOC_SETTINGS.is_empty() => None,
        // Another version's, which our table does not have.
        None if libraries.has_option(key) == Some(true) => None,
        None => {
            let near = perhaps(key, MIMALLOC_SETTINGS.iter().map(|setting| setting.name.as_ref()));
            Some(format!("mimalloc v3 has no option `{key}`{near}; it ignores it without a word"))
        }
        // Its parser takes these words for 1 and 0 wherever a number may stand, and nothing at all for 1.
        Some(_) if ["", "true", "yes", "on", "false", "no", "off"].contains(&&*value.to_ascii_lowercase()) => None,
        Some(setting) => refused(setting, value, true),
    };
    assignment(Family::Mimalloc, variable, key, value, problem)
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
        assignments(&variables, &Libraries::default()).into_iter().filter_map(|one| one.problem).collect()
    }

    #[cfg(any(feature = "jemalloc", feature = "mimalloc"))]
    fn problem_of(variable: &str, text: &str, libraries: &Libraries) -> Option<String> {
        let variables = Variables::from([(variable.to_string(), text.to_string())]);
        assignments(&variables, libraries).remove(0).problem
    }

    #[cfg(feature = "jemalloc")]
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

    #[cfg(feature = "jemalloc")]
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

    #[cfg(feature = "jemalloc")]
    #[test]
    fn what_is_clipped_counts_with_the_value_that_it_becomes() {
        let of = |text: &str, jemalloc: Option<&str>| {
            let variables = Variables::from([("MALLOC_CONF".to_string(), text.to_string())]);
            let libraries = Libraries { jemalloc: jemalloc.map(str::to_string), ..Libraries::default() };
            settings(&assignments(&variables, &libraries), Family::Jemalloc).into_values().collect::<Vec<_>>()
        };
        assert_eq!(of("narenas:99999", None), ["4094"]);
        assert_eq!(of("tcache_max:1048576", Some("5.3.1")), ["32768"]);
        assert_eq!(of("tcache_max:1048576", None), ["1048576"]);
        assert_eq!(of("narenas:0", None), [""; 0]);
    }

    #[cfg(feature = "mimalloc")]
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
        assert_eq!(settings(&assignments(&variables, &Libraries::default()), Family::Glibc)["arena_max"], "5");
    }
}
