//! What each allocator offers: its name, its settings, its memory counters, and how to make it return memory.
//!
//! The entries are in [`allocators`](crate::allocators). An entry's functions are `#[inline]`, so that they are
//! compiled only into the binary that names the entry. A function in this library that called jemalloc would link
//! jemalloc, and its constructor, into every binary that uses the library.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::budget::decays::Decays;
use crate::error;
use crate::idle::{IdleThread, Uncached};
use allocanary_facts::environment::Environment;
use allocanary_facts::request::InstallSettings;
pub use allocanary_facts::setting::PerCore;
use allocanary_facts::setting::Setting;

/// Keeps the trait private to this crate. So this crate alone has to keep the promises of an entry, and any release may add a method.
pub(crate) mod sealed {
    /// An entry of [`allocators`](crate::allocators).
    pub trait Sealed {}
}

/// An allocator that is linked into this process. Only this crate implements it.
pub trait Allocator: sealed::Sealed + Sync {
    /// The name that candidates use: `jemalloc`.
    fn name(&self) -> &'static str;

    /// The version of the linked code, from the allocator itself.
    fn version(&self) -> String {
        let mut version = String::new();
        let _ = self.write_version(&mut version);
        version
    }

    /// Writes [`version`](Allocator::version) without an allocation.
    fn write_version(&self, out: &mut dyn fmt::Write) -> fmt::Result;

    /// Every setting that this allocator takes at start, with the allocator's own names.
    fn settings(&self) -> &'static [Setting];

    /// More settings that it takes at start, in the notation of [`also`](allocanary_facts::setting::also). They are neither studied nor
    /// read back.
    fn also(&self) -> &'static str {
        ""
    }

    /// How the environment passes settings to the allocator. They must be in the environment before its first
    /// allocation.
    fn environment(&self) -> Environment;

    /// The setting that the allocator derives from the number of cores; `None` if it has no such setting.
    fn per_core(&self) -> Option<PerCore>;

    /// Returns the value of each setting since the start, in the spelling of
    /// [`Kind::canonical`](allocanary_facts::setting::SettingKind::canonical). A setting that cannot be read back is missing. `wanted` has
    /// the requested values, because a few settings can be read back only in the form of the request.
    ///
    /// May allocate and may start a process: do not call it between two readings.
    fn effective(&self, wanted: &BTreeMap<String, String>) -> BTreeMap<String, String>;

    /// Calls `each` with every setting and its value since the start. Unlike [`effective`](Allocator::effective), it allocates nothing and
    /// starts no process. The few settings that can be read back only in the form of a request are missing.
    fn each_effective(&self, each: &mut dyn FnMut(&str, &str));

    /// The settings that were changed while the process ran, as far as the allocator or this crate knows them.
    fn changed(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Returns the settings that have no visible effect in this process, each with the reason, although the allocator reports all of them
    /// as in force. Call it at the end of a run, when the requested pages exist.
    fn unproven(&self, _settings: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// The bytes that a block of 16 bytes takes.
    fn small_block(&self) -> usize {
        16
    }

    /// The allocator's memory counters. Does not allocate after its first call.
    fn counters(&self) -> Counters;

    /// What the allocator does with its memory, as far as it counts this. Does not allocate. All other threads must be
    /// paused: mimalloc's pages are read without a lock.
    fn uses(&self) -> Uses {
        self.counters().uses()
    }

    /// Fails if this build of the allocator does not count its memory.
    fn counts(&self) -> error::Result<()> {
        Ok(())
    }

    /// See [`tuning::purge`](crate::tuning::purge).
    fn purge(&self) -> error::Result<()>;

    /// Applies the settings of an [`install!`](macro@crate::install). It runs before the first allocation, so it must not allocate.
    fn boot(&self, request: &InstallSettings);

    /// See [`tuning::most_arenas`](crate::tuning::most_arenas).
    fn most_arenas(&self) -> error::Result<Option<u32>>;

    /// See [`tuning::bind_current_thread`](crate::tuning::bind_current_thread).
    fn bind_thread(&self, _arena: u32) -> error::Result<()> {
        self.cannot("threads cannot be bound to arenas")
    }

    /// See [`tuning::set_thread_cache`](crate::tuning::set_thread_cache).
    fn set_thread_cache(&self, _on: bool) -> error::Result<bool> {
        self.cannot("thread caches cannot be turned on or off in a running process")
    }

    /// See [`tuning::set_thread_cache_max`](crate::tuning::set_thread_cache_max).
    fn set_thread_cache_max(&self, _bytes: usize) -> error::Result<()> {
        self.cannot("thread caches cannot be limited in a running process")
    }

    /// See [`tuning::flush_thread_cache`](crate::tuning::flush_thread_cache).
    fn flush_thread_cache(&self) -> error::Result<()> {
        self.cannot("a thread's cache cannot be flushed; purge() gives back what can be had")
    }

    /// See [`tuning::set_decay`](crate::tuning::set_decay); -1 means never.
    fn set_decay(&self, _pages: error::Pages, _millis: i64) -> error::Result<()> {
        self.cannot("freed pages do not go back by time; purge() gives them back")
    }

    /// See [`tuning::decay`](crate::tuning::decay); -1 means never.
    fn decay(&self, _pages: error::Pages) -> error::Result<i64> {
        self.cannot("freed pages do not go back by time")
    }

    /// Sets decay to zero until [`decay_again`](Allocator::decay_again), and writes the previous times to `before`. Allocates nothing.
    fn stop_decay(&self, pages: error::Pages, before: &mut Decays) {
        if let Some(millis) = self.decay(pages).ok().and_then(|now| before.stop_to_come(now)) {
            let _ = self.set_decay(pages, millis); // no error is expected, because the decay was read just now
        }
    }

    /// Restores what [`stop_decay`](Allocator::stop_decay) changed. If the program has set another time meanwhile, that time stays.
    fn decay_again(&self, pages: error::Pages, before: &mut Decays) {
        if let Some(millis) = self.decay(pages).ok().and_then(|now| before.again_to_come(now)) {
            let _ = self.set_decay(pages, millis);
        }
    }

    /// See [`tuning::set_background_threads`](crate::tuning::set_background_threads).
    fn set_background_threads(&self, _on: bool) -> error::Result<bool> {
        self.cannot("it has no background threads")
    }

    /// See [`tuning::thread_idle`](crate::tuning::thread_idle): returns to the system the memory that the calling thread keeps, if `thread`
    /// says that a return is due. `every` is the minimum time between two returns. The result says whether memory was returned.
    fn thread_idle(&self, _thread: &IdleThread, _every: Duration) -> error::Result<bool> {
        self.cannot("what a thread keeps cannot be given back")
    }

    /// Makes the allocator call `call` in each thread each time the thread has allocated `every` more bytes. The first argument is the
    /// number of bytes allocated since the last call. The second is this number minus the bytes that the thread has freed in this time, and
    /// at least 0. Only an allocator that counts these bytes anyway can do it. Use it once, before there is a second thread.
    fn each_chunk(&self, _every: u64, _call: fn(u64, u64)) -> error::Result<()> {
        self.cannot("it does not tell how much a thread has allocated: a wrapper counts")
    }

    /// Ends the calling thread's cache, with the cache's own structures, for a long wait. Dropping the result brings the
    /// cache back.
    fn uncached(&self) -> Uncached {
        Uncached::NOTHING
    }

    /// See [`Ballast::keep`](crate::ballast::Ballast::keep): keeps up to `bytes` freed bytes, or all of them if the allocator cannot
    /// count them.
    fn keep(&self, _bytes: u64) -> error::Result<Keeping> {
        self.cannot("it has no means to keep freed memory")
    }

    /// Restores what [`keep`](Allocator::keep) changed.
    fn stop_keeping(&self, _keeping: &Keeping) {}

    /// See [`Kept::settle`](crate::ballast::Kept::settle).
    fn settle(&self, _bytes: u64) -> error::Result<u64> {
        self.cannot("it does not tell how much of its memory is free; purge() gives back all")
    }
}

/// How an allocator keeps freed memory, and what it restores afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    /// The maximum of freed bytes that stay, over all arenas together; `None` if it keeps all.
    pub at_most: Option<u64>,
    /// What cannot be restored, if anything.
    pub lost: Option<&'static str>,
    /// The previous values: which setting (the allocator's own numbering) and its value.
    pub before: Vec<(usize, i64)>,
}

/// Makes the error of a call that an allocator cannot serve.
pub(crate) trait Cannot {
    fn cannot<T>(&self, what: &'static str) -> error::Result<T>;
}

impl<A: Allocator + ?Sized> Cannot for A {
    fn cannot<T>(&self, what: &'static str) -> error::Result<T> {
        Err(error::Error::Unsupported { allocator: self.name(), what })
    }
}

/// The allocator's own memory counters, in bytes; a field is `None` if the allocator does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Bytes in live blocks, rounded up to size classes.
    pub allocated: Option<u64>,
    /// Bytes in pages with at least one live block.
    pub active: Option<u64>,
    /// Bytes in pages that are in memory (mimalloc: committed, touched or not), including free pages not yet returned.
    /// jemalloc does not notice pages that the kernel took back by itself.
    pub resident: Option<u64>,
    /// Bytes of mappings in which the allocator has pages: all memory that it has from the system, touched or not.
    pub mapped: Option<u64>,
    /// Bytes in the allocator's own structures.
    pub metadata: Option<u64>,
    /// Bytes of addresses kept for later, without memory.
    pub retained: Option<u64>,
    /// The number of arenas that have been used at least once.
    pub arenas: Option<u64>,
    /// Bytes in blocks that are free and in a thread's cache. They also count as allocated.
    pub cached: Option<u64>,
    /// Bytes in freed pages that were not yet returned.
    pub dirty: Option<u64>,
    /// Bytes in freed pages that the kernel may take when it needs memory.
    pub muzzy: Option<u64>,
}

impl Counters {
    /// Bytes in pages with blocks, divided by bytes in blocks: 1 without fragmentation. `None` if the allocator does not
    /// report both, or has no block.
    pub fn fragmentation(&self) -> Option<f64> {
        let both = self.active.zip(self.allocated).filter(|(_, allocated)| *allocated > 0);
        both.map(|(active, allocated)| active as f64 / allocated as f64)
    }

    /// What the memory is for, as far as the counters say it.
    pub fn uses(&self) -> Uses {
        let less = |(from, bytes): (u64, u64)| from.saturating_sub(bytes);
        Uses {
            live: self.allocated.map(|allocated| allocated.saturating_sub(self.cached.unwrap_or(0))),
            cached: self.cached,
            free: self.active.zip(self.allocated).map(less),
            dirty: self.dirty,
            muzzy: self.muzzy,
        }
    }
}

/// What an allocator does with its memory, in bytes, by its own count. It counts addresses: pages that were never
/// touched are not resident, and are counted here. A field is `None` if the allocator does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// In blocks that the program holds, rounded up to size classes. In glibc these include the blocks in thread caches.
    pub live: Option<u64>,
    /// In blocks that are free and in a thread's cache.
    pub cached: Option<u64>,
    /// In free blocks, within pages that also have used blocks. In glibc also the tops of the arenas.
    pub free: Option<u64>,
    /// In freed pages that were not yet returned.
    pub dirty: Option<u64>,
    /// In freed pages that the kernel may take when it needs memory.
    pub muzzy: Option<u64>,
}
