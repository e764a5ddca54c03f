//! glibc's settings, by the version of the running library. One row describes one setting: its valid values, the name of its option in
//! `mallopt`, and its older variable.
//!
//! glibc silently ignores each value out of bounds: see `do_set_tcache_max` and the other `do_set_...` in malloc/malloc.c. Source of the
//! bounds and names: malloc/malloc.c and elf/dl-tunables.list of glibc 2.36, 2.42, 2.43 and 2.44.

use std::borrow::Cow;
use std::ffi::{CStr, c_int};
use std::fmt;
use std::mem::{ManuallyDrop, replace};

use crate::request::Value;
use crate::setting::{Setting, SettingKind};
use allocanary_sys::sys::glibc_version;

/// The meaning of `tuned` in an `install!` and a preload, for a small service in a container. The study `tuned` shows what it saves and
/// costs. The threshold is glibc's own first value. Once it is set, glibc no longer raises it when a program frees large blocks.
pub const TUNED: &[(&str, Value)] = &[("arena_max", Value::PerCpu(1)), ("trim_threshold", Value::Text("131072"))];

struct Row {
    /// Its name, its valid values and its meaning.
    setting: Setting,
    /// The first release that has this setting, and the first later release without it.
    since: Release,
    until: Release,
    /// How a program's own code sets it, if it can.
    mallopt: Option<Mallopt>,
}

/// How `mallopt` sets a setting.
struct Mallopt {
    option: c_int,
    /// The option's name in C.
    name: &'static str,
    /// The values that `mallopt` takes. They must fit an `int`.
    kind: SettingKind,
    /// The older variable for the same setting, such as `MALLOC_ARENA_MAX`; empty if there is none.
    variable: &'static CStr,
}

type Release = (u32, u32);

const FIRST: Release = (2, 0);
const NEVER: Release = (u32::MAX, 0);

const fn row(name: &'static str, kind: SettingKind, about: &'static str, mallopt: Option<Mallopt>) -> Row {
    versioned(FIRST, NEVER, name, kind, about, mallopt)
}

const fn versioned(
    since: Release,
    until: Release,
    name: &'static str,
    kind: SettingKind,
    about: &'static str,
    mallopt: Option<Mallopt>,
) -> Row {
    Row { setting: Setting::new(name, kind, about), since, until, mallopt }
}

const fn mallopt(option: c_int, name: &'static str, kind: SettingKind, variable: &'static CStr) -> Option<Mallopt> {
    Some(Mallopt { option, name, kind, variable })
}

const COUNT: SettingKind = SettingKind::Number { min: 0, max: i32::MAX as i64 };
const ARENAS: SettingKind = SettingKind::Number { min: 1, max: i32::MAX as i64 };
const BYTE: SettingKind = SettingKind::Number { min: 0, max: 255 };
const MAPPED: SettingKind = SettingKind::Size { min: 0, max: 32 << 20 };
const FAST: SettingKind = SettingKind::Size { min: 0, max: 160 };
const INT_SIZE: SettingKind = SettingKind::Size { min: 0, max: i32::MAX as u64 };
/// `MAX_TCACHE_SIZE`: 64 sizes of 16 bytes each, less a header.
const CACHED: SettingKind = SettingKind::Size { min: 0, max: 1032 };
/// Since 2.42 there are twelve more sizes, powers of two up to `MAX_TCACHE_LARGE_SIZE`. By default a thread cache still ends at 1032
/// bytes.
const CACHED_SINCE_2_42: SettingKind = SettingKind::Size { min: 0, max: 4 << 20 };

const LARGEST: &str = "largest block that a thread cache holds";

/// Every tunable of malloc.
const ROWS: &[Row] = &[
    row(
        "arena_max",
        ARENAS,
        "most arenas; default 8 per core up to glibc 2.43",
        mallopt(libc::M_ARENA_MAX, "M_ARENA_MAX", ARENAS, c"MALLOC_ARENA_MAX"),
    ),
    row(
        "arena_test",
        ARENAS,
        "arenas before the cores are counted",
        mallopt(libc::M_ARENA_TEST, "M_ARENA_TEST", ARENAS, c"MALLOC_ARENA_TEST"),
    ),
    row("tcache_count", SettingKind::Number { min: 0, max: 65535 }, "blocks of a size that a thread cache holds", None),
    versioned(FIRST, (2, 42), "tcache_max", CACHED, LARGEST, None),
    versioned((2, 42), NEVER, "tcache_max", CACHED_SINCE_2_42, LARGEST, None),
    row(
        "trim_threshold",
        SettingKind::SIZE,
        "free bytes at the top before they go back; ends adaptation",
        mallopt(libc::M_TRIM_THRESHOLD, "M_TRIM_THRESHOLD", INT_SIZE, c"MALLOC_TRIM_THRESHOLD_"),
    ),
    row(
        "mmap_threshold",
        MAPPED,
        "blocks from this size are mapped; ends adaptation",
        mallopt(libc::M_MMAP_THRESHOLD, "M_MMAP_THRESHOLD", MAPPED, c"MALLOC_MMAP_THRESHOLD_"),
    ),
    row(
        "top_pad",
        SettingKind::SIZE,
        "bytes asked of the system beyond need; ends adaptation",
        mallopt(libc::M_TOP_PAD, "M_TOP_PAD", INT_SIZE, c"MALLOC_TOP_PAD_"),
    ),
    row(
        "mmap_max",
        COUNT,
        "most mapped blocks at a time; ends adaptation",
        mallopt(libc::M_MMAP_MAX, "M_MMAP_MAX", COUNT, c"MALLOC_MMAP_MAX_"),
    ),
    row("hugetlb", SettingKind::Number { min: 0, max: 2 }, "0 no huge pages, 1 madvise, 2 the huge page pool", None),
    row(
        "perturb",
        BYTE,
        "byte that freed memory is filled with; 0 off",
        mallopt(libc::M_PERTURB, "M_PERTURB", BYTE, c"MALLOC_PERTURB_"),
    ),
    // From 2.44 on glibc fills a thread cache without looking at unsorted blocks.
    versioned(
        FIRST,
        (2, 44),
        "tcache_unsorted_limit",
        COUNT,
        "unsorted blocks looked at to fill a thread cache; 0 no limit",
        None,
    ),
    // From 2.43 on there are no fast bins: glibc accepts the option, and it has no effect.
    versioned(
        FIRST,
        (2, 43),
        "mxfast",
        FAST,
        "largest block in the fast bins; up to glibc 2.42",
        mallopt(libc::M_MXFAST, "M_MXFAST", FAST, c""),
    ),
];

/// The settings that `mallopt` takes, so a program's own code can set them. The others need GLIBC_TUNABLES. Settings of all versions are
/// here, because `mallopt` of any version accepts them. [`settings`] says what they mean in the running version.
pub const SETTABLE: &[Setting] = &{
    let mut all = [const { Setting::NONE }; COUNT_SETTABLE];
    let (mut at, mut next) = (0, 0);
    while at < ROWS.len() {
        if let Some(mallopt) = &ROWS[at].mallopt {
            let setting = Setting::new(ROWS[at].setting.name_const(), mallopt.kind.copied(), "");
            let _ = ManuallyDrop::new(replace(&mut all[next], setting));
            next += 1;
        }
        at += 1;
    }
    all
};

/// `mallopt`'s option for each of [`SETTABLE`], in the same order, and the older variable that sets it.
pub const MALLOPT: [(c_int, &CStr); COUNT_SETTABLE] = {
    let mut all = [(0, c""); COUNT_SETTABLE];
    let (mut at, mut next) = (0, 0);
    while at < ROWS.len() {
        if let Some(mallopt) = &ROWS[at].mallopt {
            all[next] = (mallopt.option, mallopt.variable);
            next += 1;
        }
        at += 1;
    }
    all
};

const COUNT_SETTABLE: usize = {
    let (mut at, mut count) = (0, 0);
    while at < ROWS.len() {
        count += ROWS[at].mallopt.is_some() as usize;
        at += 1;
    }
    count
};

/// The older variables, each with its setting. The loader reads them as tunables; GLIBC_TUNABLES takes precedence over them.
pub const VARIABLES: &[(Cow<str>, Cow<str>)] = &{
    let mut all = [const { (Cow::Borrowed(""), Cow::Borrowed("")) }; COUNT_VARIABLES];
    let (mut at, mut next) = (0, 0);
    while at < COUNT_SETTABLE {
        let (_, variable) = MALLOPT[at];
        if let (Ok(variable), false) = (variable.to_str(), variable.is_empty()) {
            let pair = (Cow::Borrowed(variable), Cow::Borrowed(SETTABLE[at].name_const()));
            let _ = ManuallyDrop::new(replace(&mut all[next], pair));
            next += 1;
        }
        at += 1;
    }
    all
};

const COUNT_VARIABLES: usize = {
    let (mut at, mut count) = (0, 0);
    while at < COUNT_SETTABLE {
        count += !MALLOPT[at].1.is_empty() as usize;
        at += 1;
    }
    count
};

/// The name in C of a setting's option of `mallopt`: `M_ARENA_MAX` for `arena_max`.
pub fn name_in_c(setting: &str) -> Option<&'static str> {
    ROWS.iter().find(|row| row.setting.name == setting)?.mallopt.as_ref().map(|mallopt| mallopt.name)
}

static TO_2_41: [Setting; count(FIRST)] = settings_of(FIRST);
/// The settings of 2.42. Later releases use the beginning of this table, because the settings that they lack are the last rows. With a
/// table for each release, every service would contain all of them, and the loader would relocate them at start.
static FROM_2_42: [Setting; count((2, 42))] = settings_of((2, 42));

const fn is_before(one: Release, other: Release) -> bool {
    one.0 < other.0 || one.0 == other.0 && one.1 < other.1
}

const fn has(row: &Row, release: Release) -> bool {
    !is_before(release, row.since) && is_before(release, row.until)
}

const fn count(release: Release) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < ROWS.len() {
        count += has(&ROWS[at], release) as usize;
        at += 1;
    }
    count
}

const fn settings_of<const N: usize>(release: Release) -> [Setting; N] {
    let mut all = [const { Setting::NONE }; N];
    let (mut at, mut next) = (0, 0);
    while at < ROWS.len() {
        if has(&ROWS[at], release) {
            let _ = ManuallyDrop::new(replace(&mut all[next], ROWS[at].setting.copied()));
            next += 1;
        }
        at += 1;
    }
    all
}

/// Writes the name of this process's C library, with its version if it has one.
#[inline]
pub fn write_version(out: &mut dyn fmt::Write) -> fmt::Result {
    write!(out, "glibc {}", glibc_version())
}

/// The settings of the running library.
#[inline]
pub fn settings() -> &'static [Setting] {
    of(release(glibc_version()))
}

/// Names that are valid in a variable but have no effect here, in the notation of [`also`](crate::setting::also). glibc reads `check` only
/// if libc_malloc_debug.so is preloaded.
#[inline]
pub fn also() -> &'static str {
    if release(glibc_version()) < (2, 43) { "check=number" } else { "check=number mxfast=number" }
}

/// Parses `2.36` to 2 and 36. A version that cannot be parsed counts as the oldest, whose bounds are valid in all versions.
fn release(version: &str) -> Release {
    let mut numbers = version.split('.').map(|part| part.parse().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor),
        _ => FIRST,
    }
}

fn of(release: Release) -> &'static [Setting] {
    match release {
        (..=1, _) | (2, ..=41) => &TO_2_41,
        later => &FROM_2_42[..count(later)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(version: &str, name: &str) -> Option<String> {
        of(release(version)).iter().find(|setting| setting.name == name).map(|setting| setting.kind.wanted())
    }

    #[test]
    fn each_version_has_its_own_bounds_and_names() {
        for (version, tcache_max) in [("2.36", "0 to 1032"), ("2.41", "0 to 1032"), ("2.42", "0 to 4194304")] {
            assert_eq!(bound(version, "tcache_max"), Some(format!("a size from {tcache_max} bytes")), "{version}");
        }
        assert!(bound("2.42", "mxfast").is_some() && bound("2.43", "mxfast").is_none());
        assert!(bound("2.43", "tcache_unsorted_limit").is_some() && bound("2.44", "tcache_unsorted_limit").is_none());
        assert_eq!(bound("2.44.9000", "mxfast"), None);
        assert_eq!(of(release("unknown")).len(), of((2, 42)).len());
    }

    #[test]
    fn a_release_has_the_settings_of_its_rows() {
        for release in [(2, 36), (2, 41), (2, 42), (2, 43), (2, 44), (3, 0)] {
            let rows = ROWS.iter().filter(|row| has(row, release)).map(|row| &row.setting);
            assert!(rows.eq(of(release)), "glibc {release:?}: rows that a later release lacks are the last");
        }
    }

    #[test]
    fn what_code_can_set_has_the_columns_of_its_row() {
        let at = |name: &str| SETTABLE.iter().position(|setting| setting.name == name).expect(name);
        assert_eq!(MALLOPT[at("trim_threshold")], (libc::M_TRIM_THRESHOLD, c"MALLOC_TRIM_THRESHOLD_"));
        assert_eq!(MALLOPT[at("mxfast")], (libc::M_MXFAST, c""));
        assert_eq!(SETTABLE[at("top_pad")].kind, INT_SIZE);
        assert_eq!((SETTABLE.len(), VARIABLES.len()), (8, 7));
        assert!(VARIABLES.contains(&("MALLOC_PERTURB_".into(), "perturb".into())));
        assert_eq!((name_in_c("mmap_max"), name_in_c("tcache_count")), (Some("M_MMAP_MAX"), None));
    }
}
