//! The settings of a program that cannot be changed: `ALLOCANARY_PRELOAD="narenas=per_cpu(1),tcache=false,thread_idle=100ms"`. `tuned`
//! means the allocator's set of settings for a small service. In: the variable's text. Out: settings like those of `install!`, or the
//! part that is wrong. Nothing is allocated.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::time::Duration;

use allocanary::__private::{Value, const_bytes, setting_of};
use allocanary::budget::{self, LimitSource};
use allocanary_facts::descriptor::InCode;
use allocanary_profile::weight;

/// The variable's name.
pub const VARIABLE: &CStr = c"ALLOCANARY_PRELOAD";

/// The setting that every preload has.
const PROFILE: &str = "profile";

const MOST_TEXT: usize = 4096;
/// The largest number of settings: more than any allocator has.
const MOST: usize = 64;

/// The text of the error if there are more settings.
const FEWER: &str = "wanted at most 64 settings, those of tuned included";

/// A copy of the text and its settings for the whole life of the process. A program may overwrite its variables.
struct Kept {
    text: [u8; MOST_TEXT],
    settings: [(&'static str, Value); MOST],
}

/// `read` fills it. If it were initialised with settings, the loader would write 64 addresses in every program, even without settings.
struct Place(UnsafeCell<MaybeUninit<Kept>>);

// SAFETY: only `read` uses it, in the constructor, before there is a second thread.
unsafe impl Sync for Place {}

static KEPT: Place = Place(UnsafeCell::new(MaybeUninit::uninit()));

/// The settings of the variable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings<'a> {
    /// The allocator's settings.
    pub allocator: &'a [(&'static str, Value)],
    /// The first wait of a thread, after which it gives its unused memory back.
    pub idle: Option<Duration>,
    /// The memory limit before which the allocator gives its unused memory back.
    pub budget: Option<LimitSource>,
    /// The mean distance of a profile's samples, in bytes.
    pub profile: Option<u64>,
}

/// A part of the text that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The part's text.
    pub part: &'static str,
    /// What was wanted.
    pub wanted: &'static str,
}

/// The settings of a text: all of them, or none if a part is wrong. `default` is added unless the text has that setting. `tuned` in
/// the text means the settings of the allocator's set.
///
/// # Safety
///
/// Called once, in the constructor.
pub unsafe fn read(
    text: &[u8],
    table: &InCode,
    default: Option<(&'static str, Value)>,
) -> Result<Settings<'static>, Problem> {
    // SAFETY: this is the only call; the constructor makes it.
    let kept = unsafe { &mut *KEPT.0.get() };
    let kept = kept.write(Kept { text: [0; MOST_TEXT], settings: [("", Value::Auto); MOST] });
    let Some(place) = kept.text.get_mut(..text.len()) else {
        return Err(Problem { part: "", wanted: "wanted at most 4096 bytes" });
    };
    place.copy_from_slice(text);
    let Ok(text) = std::str::from_utf8(place) else {
        return Err(Problem { part: "", wanted: "wanted UTF-8" });
    };
    let (mut count, besides) = parse(text, table, &mut kept.settings)?;
    if !add_missing(default.as_slice(), &mut kept.settings, &mut count) {
        return Err(Problem { part: text, wanted: FEWER });
    }
    Ok(Settings { allocator: &kept.settings[..count], ..besides })
}

/// Checks a text for the preload that only samples.
pub fn check_profile(text: &str) -> Result<(), Problem> {
    let text: &'static str = text.to_string().leak();
    match text.split(',').find(|part| !part.trim().is_empty() && part.split('=').next().map(str::trim) != Some(PROFILE))
    {
        Some(part) => Err(Problem { part, wanted: "wanted profile=, the only setting of this preload" }),
        None => profile_of(text).map(drop),
    }
}

/// Adds those settings whose names are not in `place` yet. Returns whether there was space for all of them.
fn add_missing(settings: &[(&'static str, Value)], place: &mut [(&'static str, Value)], count: &mut usize) -> bool {
    settings.iter().all(|setting| {
        if place[..*count].iter().any(|(name, _)| *name == setting.0) {
            return true;
        }
        let free = place.get_mut(*count).map(|free| *free = *setting);
        *count += usize::from(free.is_some());
        free.is_some()
    })
}

/// Checks a text before a preload gets it. `table` has the settings of the preload's allocator; without a table, the preload only samples.
/// The error has the part that is wrong, and what was wanted.
pub fn checked(text: &str, table: Option<&InCode>) -> Result<(), (&'static str, &'static str)> {
    let found = table.map_or_else(|| check_profile(text), |table| check(text, table));
    found.map_err(|wrong| (wrong.part, wrong.wanted))
}

/// Checks a text before a preload gets it. Keeps a copy of the text for the life of the process.
pub fn check(text: &str, table: &InCode) -> Result<(), Problem> {
    if text.len() > MOST_TEXT {
        return Err(Problem { part: "", wanted: "wanted at most 4096 bytes" });
    }
    let mut place = [("", Value::Auto); MOST];
    parse(text.to_string().leak(), table, &mut place).map(drop)
}

/// Puts the allocator's settings into `place`. Returns their number, and the other settings.
fn parse(
    text: &'static str,
    table: &InCode,
    place: &mut [(&'static str, Value)],
) -> Result<(usize, Settings<'static>), Problem> {
    let (mut count, mut besides, mut tuned) = (0, Settings::default(), false);
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let wrong = |wanted| Problem { part, wanted };
        if part == "tuned" {
            tuned = true;
            continue;
        }
        let (name, value) = part.split_once('=').ok_or(wrong("wanted name=value, or tuned"))?;
        let (name, value) = (name.trim_ascii(), value.trim_ascii());
        if name == allocanary_facts::THREAD_IDLE {
            besides.idle = idle_of(value).ok_or(wrong("wanted keep, or a time from 1ms to 1h such as 100ms or 2s"))?;
            continue;
        }
        if name == allocanary_facts::MEMORY_BUDGET {
            besides.budget = LimitSource::of(value).ok_or(wrong(budget::WANTED))?;
            continue;
        }
        if name == PROFILE {
            besides.profile = mean_of(value).ok_or(wrong(weight::WANTED))?;
            continue;
        }
        let setting = setting_of(name, value, table.settings).map_err(wrong)?;
        *place.get_mut(count).ok_or(wrong(FEWER))? = setting;
        count += 1;
    }
    if tuned && !add_missing(table.tuned, place, &mut count) {
        return Err(Problem { part: "tuned", wanted: FEWER });
    }
    Ok((count, besides))
}

/// The mean distance of samples that a text requests, for the preload that has no other setting. The settings of other preloads are
/// ignored. Returns `None` if the text has no such setting.
pub fn profile_of(text: &'static str) -> Result<Option<Option<u64>>, Problem> {
    let mut parts = text.split(',').filter_map(|part| Some((part.trim(), part.split_once('=')?)));
    let found = parts.rfind(|(_, (name, _))| name.trim_ascii() == PROFILE);
    let mean = |(part, (_, value)): (_, (_, &str))| {
        mean_of(value.trim_ascii()).ok_or(Problem { part, wanted: weight::WANTED })
    };
    found.map(mean).transpose()
}

/// The mean distance, such as `512KiB`; `off` means none.
fn mean_of(text: &str) -> Option<Option<u64>> {
    if text == "off" {
        return Some(None);
    }
    let mean = const_bytes(text).filter(|mean| (weight::MEANS[0]..=weight::MEANS[1]).contains(mean))?;
    Some(Some(mean))
}

/// The first wait, such as `100ms` or `2s`; `keep` means none.
fn idle_of(text: &str) -> Option<Option<Duration>> {
    if text == "keep" {
        return Some(None);
    }
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    let millis = match unit {
        "ms" => number,
        "s" => number.checked_mul(1000)?,
        "m" => number.checked_mul(60_000)?,
        "h" => number.checked_mul(3_600_000)?,
        _ => return None,
    };
    (1..=3_600_000).contains(&millis).then(|| Some(Duration::from_millis(millis)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_facts::system::IN_PRELOAD as SYSTEM;

    fn of(text: &'static str) -> Result<Settings<'static>, Problem> {
        let place = Box::leak(Box::new([("", Value::Auto); 3]));
        let (count, besides) = parse(text, &SYSTEM, place)?;
        Ok(Settings { allocator: &place[..count], ..besides })
    }

    #[test]
    fn settings_are_those_of_install() {
        let settings = of("arena_max=per_cpu(2), trim_threshold=64KiB,thread_idle=2s,").unwrap();
        assert_eq!(settings.allocator, [("arena_max", Value::PerCpu(2)), ("trim_threshold", Value::Number(65536))]);
        assert_eq!(settings.idle, Some(Duration::from_secs(2)));
        assert_eq!(of("memory_budget=container, thread_idle=keep").unwrap().budget, Some(LimitSource::Container));
        assert_eq!(of("memory_budget=1GiB").unwrap().budget, Some(LimitSource::Bytes(1 << 30)));
        assert_eq!(of("memory_budget=1GiB,memory_budget=off").unwrap(), Settings::default(), "the last one counts");
        assert_eq!(of("profile=512KiB").unwrap().profile, Some(512 << 10));
        assert_eq!(of("profile=1MiB,profile=off").unwrap(), Settings::default());
        assert_eq!(of("").unwrap(), Settings::default());
        assert_eq!(of("arena_max=auto,thread_idle=keep").unwrap().allocator, [("arena_max", Value::Auto)]);
        assert_eq!(of("arena_max=2").unwrap().allocator, [("arena_max", Value::Text("2"))]);
    }

    #[test]
    fn tuned_is_the_allocators_set_and_each_of_it_can_be_overridden() {
        let settings = of("arena_max=3,tuned").unwrap();
        assert_eq!(settings.allocator, [("arena_max", Value::Text("3")), ("trim_threshold", Value::Text("131072"))]);
        assert_eq!(of("tuned").unwrap().allocator, SYSTEM.tuned);
    }

    #[test]
    fn a_profile_is_found_among_settings_of_other_preloads() {
        assert_eq!(profile_of("narenas=2, profile = 1MiB ,tuned").unwrap(), Some(Some(1 << 20)));
        assert_eq!((profile_of("").unwrap(), profile_of("profile=off").unwrap()), (None, Some(None)));
        assert_eq!(profile_of("tuned,profile=x").unwrap_err().part, "profile=x");
        assert!(check_profile("profile=1MiB").is_ok() && check_profile("").is_ok());
        assert_eq!(check_profile("profile=1MiB,tuned").unwrap_err().part, "tuned");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part, wanted) in [
            ("arena_max", "arena_max", "wanted name=value"),
            ("mxfast=1,arena=2", "arena=2", "no such setting"),
            ("arena_max=0", "arena_max=0", "not a value"),
            ("arena_max=per_cpu(0)", "arena_max=per_cpu(0)", "not a value"),
            ("mxfast=per_cpu(1)", "mxfast=per_cpu(1)", "not a value"),
            ("thread_idle=0ms", "thread_idle=0ms", "wanted keep"),
            ("thread_idle=2h", "thread_idle=2h", "wanted keep"),
            ("thread_idle=100", "thread_idle=100", "wanted keep"),
            ("memory_budget=80%", "memory_budget=80%", "wanted container, off, or a size"),
            ("profile=12", "profile=12", "wanted off, or a mean distance"),
            ("profile=on", "profile=on", "wanted off, or a mean distance"),
            ("memory_budget=1KiB", "memory_budget=1KiB", "wanted container, off, or a size"),
            ("mxfast=1,mxfast=1,mxfast=1,mxfast=1", "mxfast=1", "at most"),
            ("tuned,mxfast=1,mxfast=1", "tuned", "at most"),
        ] {
            let problem = of(text).unwrap_err();
            assert!(problem.part == part && problem.wanted.contains(wanted), "{text}: {problem:?}");
        }
    }
}
