//! The system's malloc, which on Linux with glibc is ptmalloc. In: the loader's tunables, mallinfo2, malloc_info. Out:
//! settings, counters, purge.
//!
//! With another C library (musl) the entry has no settings and no counters; only the values from /proc remain.

#[cfg(target_env = "gnu")]
mod glibc;
#[cfg(not(target_env = "gnu"))]
mod other_libc;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::allocator::{Allocator, Cannot, Counters, Keeping, PerCore, Uses, sealed};
use crate::budget::decays::Decays;
use crate::error;
use crate::idle::IdleThread;
use allocanary_facts::environment::Environment;
use allocanary_facts::request::InstallSettings;
use allocanary_facts::setting::Setting;

use allocanary_facts::system::{ENVIRONMENT, NAME};

#[cfg(target_env = "gnu")]
use glibc as libc_malloc;
#[cfg(not(target_env = "gnu"))]
use other_libc as libc_malloc;

/// The C library's malloc, as [`std::alloc::System`] calls it.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl sealed::Sealed for System {}

impl Allocator for System {
    #[inline]
    fn name(&self) -> &'static str {
        NAME
    }

    #[inline]
    fn write_version(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        allocanary_facts::system::write_version(out)
    }

    #[inline]
    fn settings(&self) -> &'static [Setting] {
        allocanary_facts::system::settings()
    }

    #[inline]
    fn also(&self) -> &'static str {
        allocanary_facts::system::also()
    }

    #[inline]
    fn environment(&self) -> Environment {
        ENVIRONMENT
    }

    /// The bytes include the block's header, in glibc and in musl.
    #[inline]
    fn small_block(&self) -> usize {
        32
    }

    #[inline]
    fn per_core(&self) -> Option<PerCore> {
        libc_malloc::per_core()
    }

    #[inline]
    fn effective(&self, _wanted: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        libc_malloc::effective()
    }

    #[inline]
    fn each_effective(&self, each: &mut dyn FnMut(&str, &str)) {
        libc_malloc::each_effective(each)
    }

    #[inline]
    fn changed(&self) -> BTreeMap<String, String> {
        libc_malloc::changed()
    }

    #[inline]
    fn unproven(&self, settings: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        libc_malloc::unproven(settings)
    }

    #[inline]
    fn counters(&self) -> Counters {
        libc_malloc::counters()
    }

    #[inline]
    fn uses(&self) -> Uses {
        libc_malloc::uses()
    }

    #[inline]
    fn purge(&self) -> error::Result<()> {
        if libc_malloc::PURGES {
            libc_malloc::purge();
            return Ok(());
        }
        self.cannot("this C library has no call that gives freed memory back; it does so by itself")
    }

    #[inline]
    fn thread_idle(&self, thread: &IdleThread, every: Duration) -> error::Result<bool> {
        if !libc_malloc::PURGES {
            return self.cannot("this C library has no call that gives freed memory back; it does so by itself");
        }
        let due = thread.is_due(every, None);
        if due {
            libc_malloc::give_back();
        }
        Ok(due)
    }

    #[inline]
    fn keep(&self, bytes: u64) -> error::Result<Keeping> {
        let Some(keeping) = libc_malloc::keep(bytes) else {
            return self.cannot("freed memory is kept with M_TRIM_THRESHOLD of glibc, up to 2 GiB less a byte");
        };
        Ok(keeping)
    }

    #[inline]
    fn stop_keeping(&self, keeping: &Keeping) {
        libc_malloc::stop_keeping(keeping);
    }

    /// Sets glibc's trim threshold for good: glibc has no call that restores its own rule.
    #[inline]
    fn stop_decay(&self, pages: error::Pages, _before: &mut Decays) {
        if pages == error::Pages::Dirty {
            libc_malloc::keep_little();
        }
    }

    #[inline]
    fn settle(&self, _bytes: u64) -> error::Result<u64> {
        Ok(0) // glibc keeps to its limit by itself
    }

    #[inline]
    fn boot(&self, request: &InstallSettings) {
        libc_malloc::boot(request);
    }

    #[inline]
    fn most_arenas(&self) -> error::Result<Option<u32>> {
        libc_malloc::most_arenas()
    }
}
