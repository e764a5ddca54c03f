//! The linked jemalloc, from tikv-jemallocator. Its functions have a prefix, so that C's malloc stays the system's.
//! In: mallctl. Out: settings (`opt.*`), counters (`stats.*`), purge.

mod chunks;
mod compose;
mod decaying;
mod idle;
mod keeping;
mod read_back;

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fmt;
use std::time::Duration;

#[cfg(feature = "stats")]
use tikv_jemalloc_ctl::stats;
use tikv_jemalloc_ctl::{epoch, raw, version};

use crate::allocator::{Allocator, Cannot, Counters, Keeping, PerCore, sealed};
use crate::allocators::effect::{unless_thp_is, without_effect};
use crate::budget::decays::Decays;
use crate::error::{self, Pages};
use crate::idle::{IdleThread, Uncached};
use allocanary_facts::environment::Environment;
use allocanary_facts::jemalloc::{ALSO, ENVIRONMENT, NAME, PER_CORE, SETTINGS};
use allocanary_facts::request::InstallSettings;
use allocanary_facts::setting::Setting;
#[cfg(feature = "stats")]
use allocanary_sys::sys::page_bytes;
use compose::compose;

/// The jemalloc that tikv-jemalloc-sys builds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jemalloc;

/// The error text for a service that is built without the statistics.
#[cfg(not(feature = "stats"))]
const NO_STATS: &str = "jemalloc was built without its statistics: turn on allocanary's feature `stats`";

/// The arena index that stands for all arenas in `arena.<i>.purge` (`MALLCTL_ARENAS_ALL`).
const ALL_ARENAS: usize = 4096;

impl sealed::Sealed for Jemalloc {}

impl Allocator for Jemalloc {
    #[inline]
    fn name(&self) -> &'static str {
        NAME
    }

    #[inline]
    fn write_version(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        // The full version is "5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8". Only the release is kept.
        let full = version::read().unwrap_or("unknown");
        out.write_str(full.split('-').next().unwrap_or(full))
    }

    #[inline]
    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    #[inline]
    fn also(&self) -> &'static str {
        ALSO
    }

    #[inline]
    fn environment(&self) -> Environment {
        ENVIRONMENT
    }

    #[inline]
    fn per_core(&self) -> Option<PerCore> {
        Some(PER_CORE)
    }

    #[inline]
    fn effective(&self, wanted: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        read_back::effective(wanted)
    }

    #[inline]
    fn each_effective(&self, each: &mut dyn FnMut(&str, &str)) {
        read_back::each_effective(each)
    }

    /// The decay times and whether there are background threads: jemalloc lets a running process change only these for all arenas. A value
    /// of a single arena or thread is not included.
    #[inline]
    fn changed(&self) -> BTreeMap<String, String> {
        let decay = |pages| self.decay(pages).ok().map(|millis| millis.to_string());
        // SAFETY: `background_thread` is a `bool`.
        let threads = unsafe { raw::read::<bool>(b"background_thread\0") }.ok().map(|on| on.to_string());
        let now = [
            ("dirty_decay_ms", decay(Pages::Dirty)),
            ("muzzy_decay_ms", decay(Pages::Muzzy)),
            ("background_thread", threads),
        ];
        now.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect()
    }

    #[inline]
    fn unproven(&self, settings: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let is = |name: &str, value: &str| settings.get(name).is_some_and(|found| found == value);
        // SAFETY: `background_thread` and `opt.tcache` are a `bool`.
        let on = |key: &[u8]| unsafe { raw::read::<bool>(key) }.unwrap_or(false);
        without_effect(settings, |name, _| match name {
            "thp" if !is("thp", "default") => unless_thp_is(&["madvise", "always"]),
            "metadata_thp" if !is("metadata_thp", "disabled") => unless_thp_is(&["madvise", "always"]),
            "max_background_threads" if !on(b"background_thread\0") => Some("background_thread is off".into()),
            name if name != "tcache" && name.contains("tcache_") && !on(b"opt.tcache\0") => {
                Some("tcache is off".into())
            }
            _ => None,
        })
    }

    #[inline]
    fn counters(&self) -> Counters {
        // Statistics are a snapshot that only a new epoch refreshes.
        if epoch::advance().is_err() {
            return Counters::default();
        }
        #[cfg(not(feature = "stats"))]
        return Counters { arenas: arenas(), ..Counters::default() };
        #[cfg(feature = "stats")]
        let bytes = |read: Result<usize, _>| read.ok().map(|bytes: usize| bytes as u64);
        // SAFETY: the keys below are of `size_t`. 4096 stands for all arenas (`MALLCTL_ARENAS_ALL`).
        #[cfg(feature = "stats")]
        let of_all = |key: &[u8]| bytes(unsafe { raw::read(key) });
        #[cfg(feature = "stats")]
        Counters {
            allocated: bytes(stats::allocated::read()),
            active: bytes(stats::active::read()),
            resident: bytes(stats::resident::read()),
            mapped: bytes(stats::mapped::read()),
            metadata: bytes(stats::metadata::read()),
            retained: bytes(stats::retained::read()),
            arenas: arenas(),
            cached: of_all(b"stats.arenas.4096.tcache_bytes\0"),
            dirty: of_all(b"stats.arenas.4096.pdirty\0").map(|pages| pages * page_bytes()),
            muzzy: of_all(b"stats.arenas.4096.pmuzzy\0").map(|pages| pages * page_bytes()),
        }
    }

    #[cfg(not(feature = "stats"))]
    #[inline]
    fn counts(&self) -> error::Result<()> {
        self.cannot(NO_STATS)
    }

    #[inline]
    fn boot(&self, request: &InstallSettings) {
        // jemalloc reads the variable of its prefixed build itself, after the symbol. So that variable wins.
        compose(request, &PER_CORE, &[c"JE_MALLOC_CONF", c"MALLOC_CONF"]);
    }

    #[inline]
    fn most_arenas(&self) -> error::Result<Option<u32>> {
        // SAFETY: `opt.narenas` is an `unsigned`.
        unsafe { raw::read::<u32>(b"opt.narenas\0") }.map(Some).map_err(refused("reading opt.narenas"))
    }

    #[inline]
    fn bind_thread(&self, arena: u32) -> error::Result<()> {
        // An index beyond the automatic arenas would be an arena that the program has created, or the one for huge
        // blocks.
        let most = self.most_arenas()?.unwrap_or(1);
        if arena >= most {
            let why = format!("wanted an arena below {most}, found {arena}");
            return Err(error::Error::Refused { allocator: NAME, what: "binding a thread", why });
        }
        // SAFETY: `thread.arena` is an `unsigned`.
        unsafe { raw::write(b"thread.arena\0", arena) }.map_err(refused("binding a thread"))
    }

    #[inline]
    fn set_thread_cache(&self, on: bool) -> error::Result<bool> {
        // SAFETY: `thread.tcache.enabled` is a `bool`.
        unsafe { raw::update(b"thread.tcache.enabled\0", on) }.map_err(refused("switching a thread's cache"))
    }

    #[inline]
    fn set_thread_cache_max(&self, bytes: usize) -> error::Result<()> {
        // SAFETY: `thread.tcache.max` is a `size_t`.
        unsafe { raw::write(b"thread.tcache.max\0", bytes) }.map_err(refused("limiting a thread's cache"))
    }

    #[inline]
    fn flush_thread_cache(&self) -> error::Result<()> {
        match void_ctl(c"thread.tcache.flush") {
            0 => Ok(()),
            _ => self.cannot("this thread has no cache to flush: it is turned off"),
        }
    }

    #[inline]
    fn set_decay(&self, pages: Pages, millis: i64) -> error::Result<()> {
        let millis = millis as isize;
        let (default, live) = decaying::keys(pages);
        // The default, for arenas that are made later, must be set first: an arena that is made during this call then has it too.
        // SAFETY: both keys are an `ssize_t`.
        unsafe { raw::write(default, millis) }.map_err(refused("setting decay"))?;
        // This key has no index for all arenas (4096 is EFAULT), so each existing arena is set separately.
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
    fn decay(&self, pages: Pages) -> error::Result<i64> {
        let (key, _) = decaying::keys(pages);
        // SAFETY: the key is an `ssize_t`.
        unsafe { raw::read::<isize>(key) }.map(|millis| millis as i64).map_err(refused("reading decay"))
    }

    #[inline]
    fn stop_decay(&self, pages: Pages, before: &mut Decays) {
        decaying::stop(pages, before);
    }

    #[inline]
    fn decay_again(&self, pages: Pages, before: &mut Decays) {
        decaying::again(self, pages, before);
    }

    #[inline]
    fn set_background_threads(&self, on: bool) -> error::Result<bool> {
        // SAFETY: `background_thread` is a `bool`.
        unsafe { raw::update(b"background_thread\0", on) }.map_err(refused("switching background threads"))
    }

    #[inline]
    fn thread_idle(&self, thread: &IdleThread, every: Duration) -> error::Result<bool> {
        idle::give_back(thread, every)
    }

    #[inline]
    fn each_chunk(&self, every: u64, call: fn(u64, u64)) -> error::Result<()> {
        chunks::tell(every, call)
    }

    #[inline]
    fn uncached(&self) -> Uncached {
        idle::uncached()
    }

    #[inline]
    fn keep(&self, _bytes: u64) -> error::Result<Keeping> {
        keeping::keep(self)
    }

    #[inline]
    fn stop_keeping(&self, keeping: &Keeping) {
        keeping::stop(self, keeping);
    }

    #[cfg(feature = "stats")]
    #[inline]
    fn settle(&self, bytes: u64) -> error::Result<u64> {
        keeping::settle(bytes)
    }

    /// Without its statistics, jemalloc does not report the freed pages of an arena.
    #[cfg(not(feature = "stats"))]
    #[inline]
    fn settle(&self, _bytes: u64) -> error::Result<u64> {
        self.cannot(NO_STATS)
    }

    #[inline]
    fn purge(&self) -> error::Result<()> {
        const { assert!(ALL_ARENAS == 4096) };
        // Flush this thread's cache first, so that the purge can return it. The answer is EFAULT if the thread has no cache. A void mallctl
        // cannot go through tikv_jemalloc_ctl (it passes jemalloc a pointer and a length, which is EPERM here).
        void_ctl(c"thread.tcache.flush");
        match void_ctl(c"arena.4096.purge") {
            0 => Ok(()),
            errno => Err(error::Error::Refused {
                allocator: NAME,
                what: "the purge of all arenas",
                why: std::io::Error::from_raw_os_error(errno).to_string(),
            }),
        }
    }
}

#[inline]
fn refused(what: &'static str) -> impl Fn(tikv_jemalloc_ctl::Error) -> error::Error {
    move |error| error::Error::Refused { allocator: NAME, what, why: error.to_string() }
}

/// The number of initialised arenas: those that some thread was ever bound to.
#[inline]
fn arenas() -> Option<u64> {
    let mut used = 0;
    for_each_known_arena(|_| used += 1);
    (used > 0).then_some(used)
}

/// Calls `each` with the index of every arena that has been initialised.
#[inline]
fn for_each_arena(each: impl FnMut(usize)) -> Option<()> {
    // `arena.<i>.initialized` is part of the snapshot: without a new epoch, a new arena would be missed.
    epoch::advance().ok()?;
    for_each_known_arena(each)
}

/// Like [`for_each_arena`], but without a new epoch, for a caller that has just begun one.
#[inline]
fn for_each_known_arena(mut each: impl FnMut(usize)) -> Option<()> {
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

/// Calls a mallctl without input and output; returns 0 or an `errno`.
#[inline]
fn void_ctl(name: &CStr) -> i32 {
    let (null, none) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the name ends in NUL and a void mallctl reads and writes nothing through the null pointers.
    unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), null, none, std::ptr::null_mut(), 0) }
}
