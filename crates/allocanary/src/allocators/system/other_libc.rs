//! The malloc of a C library that is not glibc (musl): it has no settings and no counters.

use std::collections::BTreeMap;

use crate::allocator::{Counters, Keeping, PerCore, Uses};
use crate::error;
use allocanary_facts::request::InstallSettings;

#[inline]
pub fn each_effective(_each: &mut dyn FnMut(&str, &str)) {}

#[inline]
pub fn per_core() -> Option<PerCore> {
    None
}

#[inline]
pub fn effective() -> BTreeMap<String, String> {
    BTreeMap::new()
}

#[inline]
pub fn changed() -> BTreeMap<String, String> {
    BTreeMap::new()
}

#[inline]
pub fn unproven(_settings: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    BTreeMap::new()
}

#[inline]
pub fn counters() -> Counters {
    Counters::default()
}

pub fn uses() -> Uses {
    Uses::default()
}

/// There is no call that gives freed memory back.
pub const PURGES: bool = false;

#[inline]
pub fn purge() {}

#[inline]
pub fn give_back() {}

#[inline]
pub fn boot(_request: &InstallSettings) {}

#[inline]
pub fn most_arenas() -> error::Result<Option<u32>> {
    Ok(None)
}

#[inline]
pub fn keep(_bytes: u64) -> Option<Keeping> {
    None
}

#[inline]
pub fn stop_keeping(_keeping: &Keeping) {}

#[inline]
pub fn keep_little() {}
