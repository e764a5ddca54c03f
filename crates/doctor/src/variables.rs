//! What the variables that configure allocators say, setting by setting. In: an environment. Out: every assignment in
//! the order in which it is read, with what is wrong with it.
//!
//! Stricter than [`Kind::canonical`], which takes what people mean: here it counts what the allocator's own parser takes.

mod jemalloc;

use std::collections::BTreeMap;

use super::Variables;
use super::links::{A_FILE, LINKS};
use super::seen::Libraries;
#[cfg(feature = "mimalloc")]
use allocanary_allocators::MIMALLOC_SETTINGS;
use allocanary_allocators::SYSTEM_SETTINGS;
use allocanary_allocators::setting::{Kind, Setting, c_number as number};
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
            jemalloc::read(name, text, libraries, &mut found);
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
mod tests;
