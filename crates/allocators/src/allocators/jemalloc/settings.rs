//! jemalloc's settings: the table, and how each setting is read back. In: `opt.*` by mallctl. Out: values as canonical
//! texts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};

use tikv_jemalloc_ctl::raw;

use crate::request::{Decimal, Value};
use crate::setting::{Kind, Setting};
use allocanary_kernel::sys;

/// With more automatic arenas than this, jemalloc lowers the number by itself (`MALLOCX_ARENA_LIMIT` minus two).
const MOST_ARENAS: i64 = 4094;

const COUNT: Kind = Kind::Number { min: 0, max: i64::MAX };
/// jemalloc takes as many milliseconds as its clock of nanoseconds can count, and refuses more.
const DECAY: Kind = Kind::Number { min: -1, max: 18_446_744_072_000 };
const SPINS: Kind = Kind::Number { min: -1, max: i64::MAX };
/// jemalloc silently clips values to this range.
const SLOTS: Kind = Kind::Number { min: 1, max: 2048 };
const FLUSHED: Kind = Kind::Number { min: 1, max: 16 };
/// The largest size class of a 64-bit address space (`SC_LARGE_MAXCLASS`).
const LARGEST: Kind = Kind::Size { min: 0, max: 7 << 60 };

const PERCPU: &[Cow<str>] = &[Cow::Borrowed("disabled"), Cow::Borrowed("percpu"), Cow::Borrowed("phycpu")];
const METADATA_THP: &[Cow<str>] = &[Cow::Borrowed("disabled"), Cow::Borrowed("auto"), Cow::Borrowed("always")];
const THP: &[Cow<str>] = &[Cow::Borrowed("default"), Cow::Borrowed("always"), Cow::Borrowed("never")];
/// Without `auto`: at the start it becomes one of these by the kernel, so that it cannot be read back.
const HUGIFY: &[Cow<str>] = &[Cow::Borrowed("none"), Cow::Borrowed("eager"), Cow::Borrowed("lazy")];
/// From a page to a huge page: jemalloc clips what is beyond without a word.
const OF_HUGE_PAGE: Kind = Kind::Size { min: 4096, max: 2 << 20 };
const DSS: &[Cow<str>] = &[Cow::Borrowed("disabled"), Cow::Borrowed("primary"), Cow::Borrowed("secondary")];

/// The type of a setting's value in mallctl.
#[derive(Clone, Copy)]
enum Ctl {
    Bool,
    Unsigned,
    Size,
    Signed,
    Name,
    /// Read by size class from the calling thread's cache; there is no `opt` key.
    CacheSlots,
    /// Read from the resulting number of arenas; there is no `opt` key.
    Ratio,
}

use Ctl::{Bool, CacheSlots, Name, Ratio, Signed, Size, Unsigned};

/// Every setting that jemalloc takes; `CTLS` says, in the same order, how to read each back.
pub const SETTINGS: &[Setting] = &[
    Setting::new("narenas", Kind::Number { min: 1, max: MOST_ARENAS }, "arenas that threads share; default 4 per core"),
    Setting::new("narenas_ratio", Kind::Text, "arenas per core where narenas is not set: 4, 0.5; none on one core"),
    Setting::new("tcache", Kind::Flag, "a cache of free blocks for each thread"),
    Setting::new("tcache_max", Kind::SIZE, "largest block that a thread cache holds; above 32 KiB it is clipped"),
    Setting::new("tcache_ncached_max", Kind::Text, "blocks a cache holds by size: 8-1024:100|2048-4096:10"),
    Setting::new("dirty_decay_ms", DECAY, "time over which freed pages go back; 0 at once, -1 never"),
    Setting::new("muzzy_decay_ms", DECAY, "time over which lazily freed pages go back; 0 at once, -1 never"),
    Setting::new("background_thread", Kind::Flag, "threads that purge, so that an idle process shrinks too"),
    Setting::new("max_background_threads", Kind::Number { min: 1, max: MOST_ARENAS }, "most such threads"),
    Setting::new("percpu_arena", Kind::words(PERCPU), "an arena for each processor instead of for threads"),
    Setting::new("metadata_thp", Kind::words(METADATA_THP), "huge pages for the allocator's own structures"),
    Setting::new("thp", Kind::words(THP), "transparent huge pages for the program's data"),
    Setting::new("oversize_threshold", LARGEST, "blocks above it come from an arena of their own and go back at once"),
    Setting::new("retain", Kind::Flag, "keep unused addresses instead of unmapping them"),
    Setting::new("dss", Kind::words(DSS), "use of sbrk as well as mmap"),
    Setting::new("cache_oblivious", Kind::Flag, "shift large blocks by a random number of cache lines"),
    Setting::new("trust_madvise", Kind::Flag, "believe that MADV_DONTNEED zeroes pages"),
    Setting::new("mutex_max_spin", SPINS, "spins before a lock sleeps; -1 for ever"),
    Setting::new(
        "lg_extent_max_active_fit",
        Kind::Number { min: 0, max: 64 },
        "how much larger (power of two) a reused extent may be",
    ),
    Setting::new("process_madvise_max_batch", COUNT, "ranges purged by one call; 0 is one by one"),
    Setting::new("experimental_tcache_gc", Kind::Flag, "the thread cache's newer garbage collection"),
    Setting::new("tcache_nslots_small_min", SLOTS, "least slots of a cache bin for small blocks"),
    Setting::new("tcache_nslots_small_max", SLOTS, "most slots of a cache bin for small blocks"),
    Setting::new("tcache_nslots_large", SLOTS, "slots of a cache bin for large blocks"),
    Setting::new(
        "lg_tcache_nslots_mul",
        Kind::Number { min: -16, max: 16 },
        "slots per slab region, as a power of two",
    ),
    Setting::new(
        "tcache_gc_incr_bytes",
        Kind::Size { min: 1024, max: i64::MAX as u64 },
        "bytes allocated between two collections of a thread cache",
    ),
    Setting::new("tcache_gc_delay_bytes", Kind::SIZE, "bytes a cache bin is spared after it was collected"),
    Setting::new(
        "lg_tcache_flush_small_div",
        FLUSHED,
        "share (power of two) of small blocks flushed when a bin is full",
    ),
    Setting::new(
        "lg_tcache_flush_large_div",
        FLUSHED,
        "share (power of two) of large blocks flushed when a bin is full",
    ),
    Setting::new("hpa", Kind::Flag, "the huge page aware allocator"),
    Setting::new("hpa_slab_max_alloc", OF_HUGE_PAGE, "largest block that it serves"),
    Setting::new("hpa_hugification_threshold", OF_HUGE_PAGE, "bytes in use before a range becomes a huge page"),
    Setting::new("hpa_hugify_delay_ms", COUNT, "time before a range becomes a huge page"),
    Setting::new("hpa_hugify_sync", Kind::Flag, "become huge pages at once (MADV_COLLAPSE)"),
    Setting::new("hpa_hugify_style", Kind::words(HUGIFY), "when ranges become huge pages"),
    Setting::new("hpa_min_purge_interval_ms", COUNT, "least time between two purges"),
    Setting::new("hpa_min_purge_delay_ms", COUNT, "least time before a free range is purged"),
    Setting::new("hpa_purge_threshold", OF_HUGE_PAGE, "free bytes of a huge page before it is purged"),
    Setting::new("hpa_sec_nshards", COUNT, "shards of its cache; 0 is no cache"),
    Setting::new("hpa_sec_batch_fill_extra", Kind::Number { min: 1, max: 512 }, "extents taken at once to fill it"),
    Setting::new("experimental_hpa_max_purge_nhp", SPINS, "most huge pages purged at once; -1 no limit"),
    Setting::new("huge_arena_pac_thp", Kind::Flag, "huge pages for blocks above oversize_threshold"),
];

/// `tuned` in an `install!`, for a small service in a container. The study `tuned` shows what it saves and costs. Thread
/// caches are the other half of what idle threads keep: without any, programs of small blocks need twice the processor
/// time; up to 4 KiB they need what they need by default, and the caches of larger blocks are what weighs.
pub const TUNED: &[(&str, Value)] = &[
    ("narenas", Value::PerCpu(1)),
    ("tcache_max", Value::Text("4096")),
    ("dirty_decay_ms", Value::Text("1000")),
    // Without it an idle process keeps its dirty pages: decay happens in allocations. The last: preloads leave it out.
    ("background_thread", Value::Text("true")),
];

const CTLS: &[Ctl] = &[
    Unsigned, Ratio, Bool, Size, CacheSlots, Signed, Signed, Bool, Size, Name, Name, Name, Size, Bool, Name, Bool,
    Bool, Signed, Size, Size, Bool, Unsigned, Unsigned, Unsigned, Signed, Size, Size, Unsigned, Unsigned, Bool, Size,
    Size, Size, Bool, Name, Size, Size, Size, Size, Size, Signed, Bool,
];

const _: () = assert!(SETTINGS.len() == CTLS.len());

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
    // At least one NUL stays.
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

/// `tcache_ncached_max` in the form of `wanted`, with the numbers that the thread cache really has: for
/// `8-64:100|128-256:7`, the slots of the first and of the last size of each range.
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

/// `narenas_ratio` as requested, if the number of arenas is that many times the processors; else the numbers of both.
/// jemalloc 5.3.1 has no key for it. On one processor jemalloc does not look at it, and neither do we.
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

/// Whether jemalloc makes `arenas` from a ratio in millionths: it keeps the ratio in 65536ths, rounds the product, and
/// makes at least one.
const fn led_to(ratio: u64, processors: u64, arenas: u64) -> bool {
    let goal = ratio.saturating_mul(processors);
    let slack = 500_000 + processors * 1_000_000 / 65_536;
    (arenas * 1_000_000).abs_diff(goal) <= slack || (arenas == 1 && goal < 500_000)
}

/// `0.5` as 500000; `None` if it is no such number.
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
    use crate::JEMALLOC_ALSO;

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
        // The first three are the texts that were read.
        names.filter(|name| !["global_var", "symlink", "env_var"].contains(name)).map(str::to_string).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "jemalloc is C")]
    fn the_table_has_every_option_of_the_linked_version() {
        let printed = printed();
        assert!(printed.len() > 40, "{printed:?}");
        let also = |name: &str| JEMALLOC_ALSO.split_whitespace().any(|row| row.split('=').next() == Some(name));
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
