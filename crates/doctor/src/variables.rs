//! The settings in the variables that configure allocators. In: an environment. Out: every assignment in the order in
//! which it is read, with its problem if it has one.
//!
//! It is stricter than [`Kind::canonical`], which also accepts other spellings. Here the allocator's own parser
//! decides.

mod jemalloc;

use std::collections::BTreeMap;

use super::Variables;
use super::links::{A_FILE, LINKS};
use super::seen::Libraries;
#[cfg(feature = "mimalloc")]
use allocanary_allocators::MIMALLOC_SETTINGS;
use allocanary_allocators::setting::{Kind, Setting, c_number as number};
use allocanary_allocators::system_settings;
#[cfg(feature = "jemalloc")]
use allocanary_allocators::{JEMALLOC_ALSO, JEMALLOC_SETTINGS};
use allocanary_spec::nearest;
#[cfg(not(feature = "jemalloc"))]
const JEMALLOC_SETTINGS: &[Setting] = &[];
#[cfg(not(feature = "jemalloc"))]
const JEMALLOC_ALSO: &str = "";
#[cfg(not(feature = "mimalloc"))]
const MIMALLOC_SETTINGS: &[Setting] = &[];

/// The allocator of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Any build of jemalloc.
    Jemalloc,
    /// glibc's malloc.
    Glibc,
    /// mimalloc.
    Mimalloc,
}

/// One setting in a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The allocator that has this setting.
    pub family: Family,
    /// The variable that contains it.
    pub variable: String,
    /// The allocator's name for it.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The value that the allocator uses: this one, a clipped one, or `None` if it uses none.
    pub becomes: Option<String>,
    /// Why it is not used unchanged, if so.
    pub problem: Option<String>,
}

/// jemalloc's variables, in the order in which a program with `install!` reads them.
pub const JEMALLOC_VARIABLES: [&str; 3] = ["JE_MALLOC_CONF", "MALLOC_CONF", "_RJEM_MALLOC_CONF"];

/// The older variables of glibc, each with its tunable.
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

/// Every setting in the environment, in the order in which they are read. `libraries` is what is known about the
/// allocators that will read them.
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
    // The tunable takes precedence over the older variable, in any order.
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

/// The effective settings of a family with their values. A later setting replaces an earlier one.
pub fn settings(assignments: &[Assignment], family: Family) -> BTreeMap<String, String> {
    let own = assignments.iter().filter(|one| one.family == family);
    own.filter_map(|one| Some((one.key.clone(), one.becomes.clone()?))).collect()
}

fn glibc(variable: &str, key: &str, value: &str) -> Assignment {
    let all = system_settings();
    let setting = all.iter().find(|setting| setting.name == key);
    let problem = match setting {
        None if all.is_empty() || key == "check" => None,
        // Of glibc 2.43 and later.
        None if key == "mxfast" => Some("mxfast: this glibc has no fast bins: it sets nothing".into()),
        None => {
            let names = all.iter().map(|setting| setting.name.as_ref());
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
        // An option of another version, which is not in our table.
        None if libraries.has_option(key) == Some(true) => None,
        None => {
            let near = perhaps(key, MIMALLOC_SETTINGS.iter().map(|setting| setting.name.as_ref()));
            Some(format!("mimalloc v3 has no option `{key}`{near}; it ignores it without a word"))
        }
        // Its parser accepts these words as 1 and 0 for any number, and an empty text as 1.
        Some(_) if ["", "true", "yes", "on", "false", "no", "off"].contains(&&*value.to_ascii_lowercase()) => None,
        Some(setting) => refused(setting, value, true),
    };
    assignment(Family::Mimalloc, variable, key, value, problem)
}

/// The problem of a value that the allocator's parser refuses, or that is out of range.
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
