//! How each of jemalloc's settings is read back. In: `opt.*` by mallctl. Out: values as canonical texts.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};

use tikv_jemalloc_ctl::raw;

use allocanary_facts::jemalloc::settings::Ctl::{self, Bool, CacheSlots, Name, Ratio, Signed, Size, Unsigned};
use allocanary_facts::jemalloc::settings::{CTLS, SETTINGS};
use allocanary_facts::request::Decimal;
use allocanary_facts::setting::Setting;
use allocanary_sys::sys;

/// The values in force, by setting.
#[inline]
pub fn effective(wanted: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let read = |(setting, ctl): (&Setting, &Ctl)| {
        let wanted = wanted.get(setting.name.as_ref()).map(String::as_str);
        Some((setting.name.to_string(), read_back(&setting.name, *ctl, wanted)?))
    };
    SETTINGS.iter().zip(CTLS).filter_map(read).collect()
}

/// Calls `each` with every setting and its value, without an allocation.
#[inline]
pub fn each_effective(each: &mut dyn FnMut(&str, &str)) {
    for (setting, ctl) in SETTINGS.iter().zip(CTLS) {
        with_value(&setting.name, *ctl, |value| each(&setting.name, value));
    }
}

/// The value of `opt.<name>` as a canonical text; `None` if this build has no such key.
#[inline]
fn read_back(name: &str, ctl: Ctl, wanted: Option<&str>) -> Option<String> {
    match ctl {
        CacheSlots => cache_slots(wanted?),
        Ratio => ratio(wanted?),
        _ => with_value(name, ctl, str::to_string),
    }
}

/// Calls `with` with the value of `opt.<name>` as a canonical text; `None` if there is no such key. Allocates nothing.
#[inline]
fn with_value<T>(name: &str, ctl: Ctl, mut with: impl FnMut(&str) -> T) -> Option<T> {
    const OPT: &[u8] = b"opt.";
    let mut key = [0; 64];
    key[..OPT.len()].copy_from_slice(OPT);
    // The last byte stays NUL.
    key[OPT.len()..63].get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    let key = &key[..OPT.len() + name.len() + 1];
    let number = |number: i128, with: &mut dyn FnMut(&str) -> T| Decimal::of(number).with(with);
    // SAFETY (each read below): jemalloc compares the length of the type with its own and refuses a wrong one; the
    // types are those of ctl.c, and a test sets and reads every key.
    match ctl {
        // SAFETY: as above.
        Bool => unsafe { raw::read::<bool>(key) }.ok().map(|value| with(if value { "true" } else { "false" })),
        // SAFETY: as above.
        Unsigned => unsafe { raw::read::<u32>(key) }.ok().map(|value| number(value.into(), &mut with)),
        // SAFETY: as above.
        Size => unsafe { raw::read::<usize>(key) }.ok().map(|value| number(value as i128, &mut with)),
        // SAFETY: as above.
        Signed => unsafe { raw::read::<isize>(key) }.ok().map(|value| number(value as i128, &mut with)),
        Name => {
            // SAFETY: as above.
            let text = unsafe { raw::read::<*const c_char>(key) }.ok()?;
            if text.is_null() {
                return None;
            }
            // SAFETY: jemalloc's option names are static strings that end in NUL.
            unsafe { CStr::from_ptr(text) }.to_str().ok().map(with)
        }
        CacheSlots | Ratio => None,
    }
}

/// `tcache_ncached_max` in the form of `wanted`, with the numbers of slots that the thread cache really has. For
/// `8-64:100|128-256:7` it reads the slots of the first and of the last size of each range.
#[inline]
fn cache_slots(wanted: &str) -> Option<String> {
    let slots = |size: usize| {
        // SAFETY: the key takes a `size_t`, the size class, and gives a `size_t`, its slots.
        unsafe { raw::update::<usize>(b"thread.tcache.ncached_max.read_sizeclass\0", size) }.ok()
    };
    let range = |range: &str| {
        let (sizes, _) = range.split_once(':')?;
        let (first, last) = sizes.split_once('-')?;
        let (first, last) = (slots(first.parse().ok()?)?, slots(last.parse().ok()?)?);
        Some(if first == last { format!("{sizes}:{first}") } else { format!("{sizes}:{first}..{last}") })
    };
    wanted.split('|').map(range).collect::<Option<Vec<_>>>().map(|ranges| ranges.join("|"))
}

/// Returns the requested `narenas_ratio` if the number of arenas is the number of processors times this ratio, otherwise both numbers.
/// jemalloc 5.3.1 has no key for the ratio. On one processor jemalloc ignores the ratio, and so does this function.
#[inline]
fn ratio(wanted: &str) -> Option<String> {
    let processors = u64::from(sys::affinity());
    // SAFETY: `opt.narenas` is an `unsigned`.
    let arenas = u64::from(unsafe { raw::read::<u32>(b"opt.narenas\0") }.ok()?);
    let fits = |ratio| led_to(ratio, processors, arenas);
    match millionths(wanted) {
        _ if processors == 1 => None,
        Some(ratio) if fits(ratio) => Some(wanted.to_string()),
        _ => Some(format!("{arenas} arenas on {processors} processors")),
    }
}

/// Whether jemalloc makes this number of `arenas` from a ratio in millionths. jemalloc keeps the ratio in 65536ths,
/// rounds the product, and makes at least one arena.
const fn led_to(ratio: u64, processors: u64, arenas: u64) -> bool {
    let goal = ratio.saturating_mul(processors);
    let slack = 500_000 + processors * 1_000_000 / 65_536;
    (arenas * 1_000_000).abs_diff(goal) <= slack || (arenas == 1 && goal < 500_000)
}

/// Converts `0.5` to 500000. `None` if the text is not a decimal fraction.
fn millionths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let fraction = format!("{fraction:0<6}");
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction[..6].parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocators::jemalloc::ALSO;

    /// All options as the linked jemalloc prints them, in its statistics as JSON.
    fn printed() -> Vec<String> {
        unsafe extern "C" fn append(text: *mut std::ffi::c_void, message: *const c_char) {
            // SAFETY: the pointer below, and a string of jemalloc's that ends in NUL.
            let (text, message) = unsafe { (&mut *text.cast::<String>(), CStr::from_ptr(message)) };
            text.push_str(&message.to_string_lossy());
        }
        let mut text = String::new();
        let place: *mut String = &mut text;
        // SAFETY: `append` gets the text, which outlives the call, from this thread only. J is JSON, the others leave statistics out.
        unsafe { tikv_jemalloc_sys::malloc_stats_print(Some(append), place.cast(), c"Jmdablxeh".as_ptr()) };
        let (_, options) = text.split_once("\"opt\":{").expect("there are options");
        let (options, _) = options.split_once('}').expect("they end");
        let names = options.split(',').filter_map(|pair| Some(pair.strip_prefix('"')?.split_once('"')?.0));
        // The first three names are the texts from which jemalloc read its options.
        names.filter(|name| !["global_var", "symlink", "env_var"].contains(name)).map(str::to_string).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "jemalloc is C")]
    fn the_table_has_every_option_of_the_linked_version() {
        let printed = printed();
        assert!(printed.len() > 40, "{printed:?}");
        let also = |name: &str| ALSO.split_whitespace().any(|row| row.split('=').next() == Some(name));
        for name in &printed {
            let is_ours = SETTINGS.iter().any(|setting| setting.name == *name);
            assert!(is_ours || also(name), "jemalloc has an option {name} that no table has");
            assert!(!(is_ours && also(name)), "{name} is in both tables");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "jemalloc is C")]
    fn every_setting_of_the_table_can_be_read_by_its_type() {
        let mut read = Vec::new();
        each_effective(&mut |name, _| read.push(name.to_string()));
        for (setting, ctl) in SETTINGS.iter().zip(CTLS) {
            let is_derived = matches!(ctl, CacheSlots | Ratio);
            assert_ne!(read.iter().any(|name| *name == setting.name), is_derived, "{}", setting.name);
        }
    }

    #[test]
    fn a_ratio_is_known_by_the_arenas_that_it_led_to() {
        let arenas = |ratio: &str, processors, arenas| led_to(millionths(ratio).unwrap(), processors, arenas);
        assert!(arenas("4", 2, 8) && arenas("0.5", 2, 1) && arenas("1.25", 40, 50) && arenas("0.333", 3, 1));
        assert!(arenas("0.25", 2, 1) && arenas("0.1", 4, 1) && arenas("0", 8, 1), "a half rounds up, and one is least");
        assert!(!arenas("4", 2, 1) && !arenas("4", 2, 9) && !arenas("0.5", 40, 160));
        assert_eq!(["", ".", "four", "1e3", "-1", "1.x", "4."].map(millionths), [None; 7]);
    }
}
