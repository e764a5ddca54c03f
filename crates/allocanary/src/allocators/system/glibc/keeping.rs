//! Keeping freed memory by a higher trim threshold. In: how much. Out: the previous thresholds restored, as far as they
//! were known.
//!
//! `mallopt` can only write. The previous value is the one that `boot` has set, or the environment, or else glibc's
//! default.

use std::sync::atomic::Ordering;

use super::{APPLIED, MALLOPT, NOW, SETTABLE, loader_table};
use crate::allocator::Keeping;

/// glibc's default of the trim threshold, of the mmap threshold and of the pad: in bytes (malloc.c, the same since 2.7).
pub(super) const DEFAULT: i64 = 128 << 10;

/// The three settings that `keep` changes, with glibc's defaults.
const KEPT: [(&str, i64); 3] = [("trim_threshold", DEFAULT), ("mmap_threshold", DEFAULT), ("top_pad", DEFAULT)];

/// The largest mmap threshold that glibc takes: half of one of its heaps (HEAP_MAX_SIZE).
const MOST_MAPPED: i64 = 32 << 20;

const LOST: &str = "glibc's thresholds adapt no more: from now on blocks above M_MMAP_THRESHOLD (128 KiB unless set) are \
                    mapped and unmapped one by one";

/// Keeps up to `bytes` at the top of each arena; `None` if `bytes` does not fit `mallopt`'s `int`.
#[inline]
pub fn keep(bytes: u64) -> Option<Keeping> {
    let most = i64::from(i32::try_from(bytes).ok()?);
    let before = KEPT.map(|(name, default)| (place(name), in_force(place(name)).unwrap_or(default)));
    // Trimming leaves the pad. A pad as large as the threshold would cause a trim at every later free.
    let wanted = [most, MOST_MAPPED, most - most / 8];
    // `arena_max` if it is set, otherwise glibc's own limit.
    // SAFETY: sysconf reads a number.
    let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1);
    let arenas = in_force(place("arena_max")).unwrap_or(cores * 8) as u64;
    for ((at, _), value) in before.iter().zip(wanted) {
        set(*at, value);
    }
    Some(Keeping { at_most: Some(bytes.saturating_mul(arenas)), lost: Some(LOST), before: before.to_vec() })
}

/// Restores the thresholds, and gives the memory at the top of the calling thread's arena back to the system. No call
/// reaches the top of another thread's arena from here. That memory stays until that thread gives it back
/// (`thread_idle`) or frees 64 KiB or more there.
#[inline]
pub fn stop(keeping: &Keeping) {
    for (at, value) in &keeping.before {
        set(*at, *value);
    }
    super::own_arena::give_back();
}

/// Ends glibc's own rule for the trim threshold. By this rule, after large blocks were freed, glibc keeps up to 64 MiB at the top of each
/// arena, which no call from another thread can return. From now on the threshold is 128 KiB, as at the start of a process, and each free
/// above it returns memory. A threshold that somebody has set stays. No call turns the rule on again. Allocates nothing.
#[inline]
pub fn keep_little() {
    let at = place("trim_threshold");
    let mut is_set = [&APPLIED[at], &NOW[at]].into_iter().any(|value| value.load(Ordering::Relaxed) >= 0);
    // The loader has the values of the environment; 0 means that a tunable is not set.
    loader_table::each(|name, value| is_set |= name == "glibc.malloc.trim_threshold" && value != 0);
    if !is_set {
        set(at, DEFAULT);
    }
}

/// The position of a setting in `SETTABLE`.
#[inline]
fn place(name: &str) -> usize {
    SETTABLE.iter().position(|setting| setting.name == name).unwrap_or_else(|| panic!("no setting `{name}`"))
}

#[inline]
fn set(at: usize, value: i64) {
    // SAFETY: takes two numbers. Every value is one that glibc takes.
    unsafe { libc::mallopt(MALLOPT[at].0, i32::try_from(value).unwrap_or(i32::MAX)) };
    NOW[at].store(value, Ordering::Relaxed);
}

/// The value of the setting, as far as this process knows it; `None` if it was never set.
#[inline]
fn in_force(at: usize) -> Option<i64> {
    let applied = Some(APPLIED[at].load(Ordering::Relaxed)).filter(|applied| *applied >= 0);
    // `boot` sets a value only if the environment sets none.
    applied.or_else(|| {
        let variable = |name: &str| std::env::var_os(name).unwrap_or_default().into_encoded_bytes();
        let own_variable = MALLOPT[at].1.to_str().unwrap_or_default();
        tunable(&variable("GLIBC_TUNABLES"), &SETTABLE[at].name).or_else(|| number(&variable(own_variable)))
    })
}

/// The value of `glibc.malloc.<name>` in the text of `GLIBC_TUNABLES`; the last one counts.
#[inline]
fn tunable(tunables: &[u8], name: &str) -> Option<i64> {
    let value = |pair: &'_ [u8]| {
        number(pair.strip_prefix(b"glibc.malloc.")?.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?)
    };
    tunables.rsplit(|byte| *byte == b':').find_map(value)
}

/// A number as the loader reads it: decimal, or in base 16 after `0x`.
#[inline]
fn number(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_environment_sets_is_known() {
        let text =
            b"glibc.malloc.top_pad=4096:glibc.rtld.nns=4:glibc.malloc.trim_threshold=0x10:glibc.malloc.top_pad=8192";
        assert_eq!(tunable(text, "top_pad"), Some(8192));
        assert_eq!(tunable(text, "trim_threshold"), Some(16));
        assert_eq!(tunable(text, "mmap_threshold"), None);
        assert_eq!(tunable(b"", "top_pad"), None);
        assert_eq!((number(b"131072"), number(b"much")), (Some(131_072), None));
    }

    #[test]
    fn more_than_mallopt_can_count_is_refused_before_anything_is_set() {
        assert_eq!(keep(2 << 30), None);
    }
}
