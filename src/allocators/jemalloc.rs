//! jemalloc, through tikv-jemallocator (prefixed: C's malloc stays the system's).
//! In: mallctl. Out: settings (`opt.*`), counters (`stats.*`), purge.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::ffi::c_char;

use tikv_jemalloc_ctl::{epoch, raw, stats, version};

use crate::allocator::{Allocator, Cannot, Counters, Environment, Kind, PerCore, Setting};
use crate::install::{self, Plan};
use crate::tuning::{self, Pages};

/// The jemalloc that tikv-jemalloc-sys builds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jemalloc;

/// More automatic arenas than this and jemalloc lowers the number by itself (`MALLOCX_ARENA_LIMIT` less two).
const MOST_ARENAS: i64 = 4094;

/// The arena index that stands for all arenas in `arena.<i>.purge` (`MALLCTL_ARENAS_ALL`).
const ALL_ARENAS: usize = 4096;

const COUNT: Kind = Kind::Number { min: 0, max: i64::MAX };
/// jemalloc takes as many milliseconds as its clock of nanoseconds can count, and refuses more.
const DECAY: Kind = Kind::Number { min: -1, max: 18_446_744_072_000 };
const SPINS: Kind = Kind::Number { min: -1, max: i64::MAX };
/// jemalloc silently clips to these what lies outside.
const SLOTS: Kind = Kind::Number { min: 1, max: 2048 };
const FLUSHED: Kind = Kind::Number { min: 1, max: 16 };
/// The largest size class of a 64-bit address space (`SC_LARGE_MAXCLASS`).
const LARGEST: Kind = Kind::Size { min: 0, max: 7 << 60 };

const fn words(names: &'static [Cow<'static, str>]) -> Kind {
    Kind::Choice { names: Cow::Borrowed(names) }
}

const PERCPU: &[Cow<str>] = &[Cow::Borrowed("disabled"), Cow::Borrowed("percpu"), Cow::Borrowed("phycpu")];
const METADATA_THP: &[Cow<str>] = &[Cow::Borrowed("disabled"), Cow::Borrowed("auto"), Cow::Borrowed("always")];
const THP: &[Cow<str>] = &[Cow::Borrowed("default"), Cow::Borrowed("always"), Cow::Borrowed("never")];
const DSS: &[Cow<str>] = &[Cow::Borrowed("disabled"), Cow::Borrowed("primary"), Cow::Borrowed("secondary")];

/// What the unprefixed jemalloc reads. The prefixed one ignores both, without a word.
const EARLIER: &[Cow<str>] = &[Cow::Borrowed("JE_MALLOC_CONF"), Cow::Borrowed("MALLOC_CONF")];

/// The type that mallctl gives a setting's value in.
#[derive(Clone, Copy)]
enum Ctl {
    Bool,
    Unsigned,
    Size,
    Signed,
    Name,
    /// Read by size class from the calling thread's cache; there is no `opt` key.
    CacheSlots,
}

use Ctl::{Bool, CacheSlots, Name, Signed, Size, Unsigned};

/// Every setting that jemalloc takes; [`CTLS`] tells, in the same order, how to read each back.
pub const SETTINGS: &[Setting] = &[
    Setting::new("narenas", Kind::Number { min: 1, max: MOST_ARENAS }, "arenas that threads share; default 4 per core"),
    Setting::new("tcache", Kind::Flag, "a cache of free blocks for each thread"),
    Setting::new("tcache_max", Kind::SIZE, "largest block that a thread cache holds; above 32 KiB it is clipped"),
    Setting::new("tcache_ncached_max", Kind::Text, "blocks a cache holds by size: 8-1024:100|2048-4096:10"),
    Setting::new("dirty_decay_ms", DECAY, "time over which freed pages go back; 0 at once, -1 never"),
    Setting::new("muzzy_decay_ms", DECAY, "time over which lazily freed pages go back; 0 at once, -1 never"),
    Setting::new("background_thread", Kind::Flag, "threads that purge, so that an idle process shrinks too"),
    Setting::new("max_background_threads", Kind::Number { min: 1, max: MOST_ARENAS }, "most such threads"),
    Setting::new("percpu_arena", words(PERCPU), "an arena for each processor instead of for threads"),
    Setting::new("metadata_thp", words(METADATA_THP), "huge pages for the allocator's own structures"),
    Setting::new("thp", words(THP), "transparent huge pages for the program's data"),
    Setting::new("oversize_threshold", LARGEST, "blocks above it come from an arena of their own and go back at once"),
    Setting::new("retain", Kind::Flag, "keep unused addresses instead of unmapping them"),
    Setting::new("dss", words(DSS), "use of sbrk beside mmap"),
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
];

const CTLS: &[Ctl] = &[
    Unsigned, Bool, Size, CacheSlots, Signed, Signed, Bool, Size, Name, Name, Name, Size, Bool, Name, Bool, Bool,
    Signed, Size, Size, Bool, Unsigned, Unsigned, Unsigned, Signed, Size, Size, Unsigned, Unsigned, Bool,
];

const _: () = assert!(SETTINGS.len() == CTLS.len());

impl Allocator for Jemalloc {
    #[inline]
    fn name(&self) -> &'static str {
        "jemalloc"
    }

    #[inline]
    fn version(&self) -> String {
        // "5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8": the release is enough.
        let full = version::read().unwrap_or("unknown");
        full.split('-').next().unwrap_or(full).to_string()
    }

    #[inline]
    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    #[inline]
    fn environment(&self) -> Environment {
        Environment::Joined {
            variable: "_RJEM_MALLOC_CONF".into(),
            // What people set, and the prefixed build ignores: `install!` hands both on. See `boot`.
            earlier: Cow::Borrowed(EARLIER),
            prefix: "".into(),
            assign: ":".into(),
            separator: ",".into(),
        }
    }

    #[inline]
    fn per_core(&self) -> Option<PerCore> {
        Some(PerCore { setting: "narenas".into(), ratio: 4 })
    }

    #[inline]
    fn effective(&self, wanted: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let read = |(setting, ctl): (&Setting, &Ctl)| {
            let wanted = wanted.get(setting.name.as_ref()).map(String::as_str);
            Some((setting.name.to_string(), read_back(&setting.name, *ctl, wanted)?))
        };
        SETTINGS.iter().zip(CTLS).filter_map(read).collect()
    }

    #[inline]
    fn counters(&self) -> Counters {
        // Statistics are a snapshot that only a new epoch refreshes.
        if epoch::advance().is_err() {
            return Counters::default();
        }
        let bytes = |read: Result<usize, _>| read.ok().map(|bytes: usize| bytes as u64);
        Counters {
            allocated: bytes(stats::allocated::read()),
            active: bytes(stats::active::read()),
            resident: bytes(stats::resident::read()),
            metadata: bytes(stats::metadata::read()),
            retained: bytes(stats::retained::read()),
            arenas: arenas(),
        }
    }

    #[inline]
    fn boot(&self, plan: &Plan) {
        // jemalloc itself reads the variable of its prefixed build, after the symbol, so that it wins.
        install::compose(plan, 4, &[c"JE_MALLOC_CONF", c"MALLOC_CONF"]);
    }

    #[inline]
    fn most_arenas(&self) -> tuning::Result<Option<u32>> {
        // SAFETY: `opt.narenas` is an `unsigned`.
        unsafe { raw::read::<u32>(b"opt.narenas\0") }.map(Some).map_err(refused("reading opt.narenas"))
    }

    #[inline]
    fn bind_thread(&self, arena: u32) -> tuning::Result<()> {
        // An index beyond the automatic arenas would name one that was made by hand, or the one for huge blocks.
        let most = self.most_arenas()?.unwrap_or(1);
        if arena >= most {
            let why = format!("wanted an arena below {most}, found {arena}");
            return Err(tuning::Error::Refused { allocator: "jemalloc", what: "binding a thread", why });
        }
        // SAFETY: `thread.arena` is an `unsigned`.
        unsafe { raw::write(b"thread.arena\0", arena) }.map_err(refused("binding a thread"))
    }

    #[inline]
    fn set_thread_cache(&self, on: bool) -> tuning::Result<bool> {
        // SAFETY: `thread.tcache.enabled` is a `bool`.
        unsafe { raw::update(b"thread.tcache.enabled\0", on) }.map_err(refused("switching a thread's cache"))
    }

    #[inline]
    fn set_thread_cache_max(&self, bytes: usize) -> tuning::Result<()> {
        // SAFETY: `thread.tcache.max` is a `size_t`.
        unsafe { raw::write(b"thread.tcache.max\0", bytes) }.map_err(refused("limiting a thread's cache"))
    }

    #[inline]
    fn flush_thread_cache(&self) -> tuning::Result<()> {
        match void_ctl(c"thread.tcache.flush") {
            0 => Ok(()),
            _ => self.cannot("this thread has no cache to flush: it is turned off"),
        }
    }

    #[inline]
    fn set_decay(&self, pages: Pages, millis: i64) -> tuning::Result<()> {
        let millis = millis as isize;
        let (default, live): (&[u8], &[u8]) = match pages {
            Pages::Dirty => (b"arenas.dirty_decay_ms\0", b"arena.0.dirty_decay_ms\0"),
            Pages::Muzzy => (b"arenas.muzzy_decay_ms\0", b"arena.0.muzzy_decay_ms\0"),
        };
        // The default is that of arenas to come. It must be first: an arena that is made meanwhile then has it too.
        // SAFETY: both keys are an `ssize_t`.
        unsafe { raw::write(default, millis) }.map_err(refused("setting decay"))?;
        // There is no index for all arenas here (4096 is EFAULT), so each one that lives is set by itself.
        let mut mib = [0_usize; 3];
        raw::name_to_mib(live, &mut mib).map_err(refused("setting decay"))?;
        for_each_arena(|arena| {
            mib[1] = arena;
            // SAFETY: as above. An arena that went away meanwhile has no pages to keep.
            let _ = unsafe { raw::write_mib(&mib, millis) };
        });
        Ok(())
    }

    #[inline]
    fn decay(&self, pages: Pages) -> tuning::Result<i64> {
        let key: &[u8] = match pages {
            Pages::Dirty => b"arenas.dirty_decay_ms\0",
            Pages::Muzzy => b"arenas.muzzy_decay_ms\0",
        };
        // SAFETY: the key is an `ssize_t`.
        unsafe { raw::read::<isize>(key) }.map(|millis| millis as i64).map_err(refused("reading decay"))
    }

    #[inline]
    fn set_background_threads(&self, on: bool) -> tuning::Result<bool> {
        // SAFETY: `background_thread` is a `bool`.
        unsafe { raw::update(b"background_thread\0", on) }.map_err(refused("switching background threads"))
    }

    #[inline]
    fn purge(&self) {
        // What this thread holds in its cache first, so that the purge can have it. A void mallctl cannot go through
        // tikv_jemalloc_ctl (it hands jemalloc a pointer and a length, which is EPERM here).
        void_ctl(c"thread.tcache.flush");
        void_ctl(c"arena.4096.purge");
        const { assert!(ALL_ARENAS == 4096) };
    }
}

/// The error of a mallctl that refused `what`.
#[inline]
fn refused(what: &'static str) -> impl Fn(tikv_jemalloc_ctl::Error) -> tuning::Error {
    move |error| tuning::Error::Refused { allocator: "jemalloc", what, why: error.to_string() }
}

/// How many arenas have been initialised: those that some thread was ever bound to.
#[inline]
fn arenas() -> Option<u64> {
    let mut used = 0;
    for_each_arena(|_| used += 1);
    (used > 0).then_some(used)
}

/// Calls `each` with the index of every arena that has been initialised.
#[inline]
fn for_each_arena(mut each: impl FnMut(usize)) -> Option<()> {
    // SAFETY: `arenas.narenas` is an `unsigned`.
    let most = unsafe { raw::read::<u32>(b"arenas.narenas\0") }.ok()?;
    let mut mib = [0_usize; 3];
    raw::name_to_mib(b"arena.0.initialized\0", &mut mib).ok()?;
    for arena in 0..most as usize {
        mib[1] = arena;
        // SAFETY: `arena.<i>.initialized` is a `bool`.
        if unsafe { raw::read_mib::<bool>(&mib) }.unwrap_or(false) {
            each(arena);
        }
    }
    Some(())
}

/// Calls a mallctl that takes and gives nothing; 0, or an `errno`.
#[inline]
fn void_ctl(name: &CStr) -> i32 {
    let (null, none) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the name ends in NUL and a void mallctl reads and writes nothing through the null pointers.
    unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), null, none, std::ptr::null_mut(), 0) }
}

/// The value of `opt.<name>` as a canonical text, or none where this build has no such key.
#[inline]
fn read_back(name: &str, ctl: Ctl, wanted: Option<&str>) -> Option<String> {
    let key = format!("opt.{name}\0");
    let key = key.as_bytes();
    // SAFETY (each read below): jemalloc compares the length of the type with its own and refuses a wrong one; the
    // types are those of ctl.c, and a test sets and reads every key.
    match ctl {
        // SAFETY: as above.
        Bool => unsafe { raw::read::<bool>(key) }.ok().map(|value| value.to_string()),
        // SAFETY: as above.
        Unsigned => unsafe { raw::read::<u32>(key) }.ok().map(|value| value.to_string()),
        // SAFETY: as above.
        Size => unsafe { raw::read::<usize>(key) }.ok().map(|value| value.to_string()),
        // SAFETY: as above.
        Signed => unsafe { raw::read::<isize>(key) }.ok().map(|value| value.to_string()),
        Name => {
            // SAFETY: as above.
            let text = unsafe { raw::read::<*const c_char>(key) }.ok()?;
            if text.is_null() {
                return None;
            }
            // SAFETY: jemalloc's option names are static strings that end in NUL.
            Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        }
        CacheSlots => cache_slots(wanted?),
    }
}

/// `tcache_ncached_max` in the words of `wanted`, with the numbers that the thread cache really has: for
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
