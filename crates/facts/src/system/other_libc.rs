//! The malloc of a C library other than glibc, such as musl. It has no settings.

use std::borrow::Cow;
use std::fmt;

use crate::request::Value;
use crate::setting::Setting;

/// There are no older variables.
pub const VARIABLES: &[(Cow<str>, Cow<str>)] = &[];

/// `tuned` has no settings.
pub const TUNED: &[(&str, Value)] = &[];

/// A program's own code can set nothing.
pub const SETTABLE: &[Setting] = &[];

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

/// Writes the name of this process's C library, with its version if it has one.
#[inline]
pub fn write_version(out: &mut dyn fmt::Write) -> fmt::Result {
    out.write_str(if cfg!(target_env = "musl") { "musl libc" } else { "unknown libc" })
}
