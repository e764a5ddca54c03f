//! The malloc of a C library that is not glibc (musl): it has no settings and no counters.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use crate::allocator::{Counters, Keeping, PerCore};
use crate::error;
use crate::request::{Request, Value};
use crate::setting::Setting;

/// There are no older variables.
pub const VARIABLES: &[(Cow<str>, Cow<str>)] = &[];

/// No setting has a name in C.
pub fn name_in_c(_setting: &str) -> Option<&'static str> {
    None
}

/// There are no settings.
#[inline]
pub fn settings() -> &'static [Setting] {
    &[]
}

/// There are no further settings.
#[inline]
pub fn also() -> &'static str {
    ""
}

/// `tuned` has no settings.
pub const TUNED: &[(&str, Value)] = &[];

#[inline]
pub fn write_version(out: &mut dyn fmt::Write) -> fmt::Result {
    out.write_str(if cfg!(target_env = "musl") { "musl libc" } else { "unknown libc" })
}

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

/// There is no call that gives freed memory back.
pub const PURGES: bool = false;

#[inline]
pub fn purge() {}

#[inline]
pub fn give_back() {}

/// A program's own code can set nothing.
pub const SETTABLE: &[Setting] = &[];

#[inline]
pub fn boot(_request: &Request) {}

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
