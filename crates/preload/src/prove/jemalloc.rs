//! Reads jemalloc's options by `mallctl`. In: the name of an option. Out: its value, and the version.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::{self, Write};
use std::ptr::null_mut;

use super::next::next;
use super::value::ReadBack;

type Mallctl = unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

/// The names of `mallctl`: without a prefix, as distributions have it, and with the prefixes of other builds.
const NAMES: [&CStr; 3] = [c"mallctl", c"_rjem_mallctl", c"je_mallctl"];

fn mallctl() -> Option<Mallctl> {
    let found = NAMES.iter().map(|name| next(name)).find(|found| !found.is_null())?;
    // SAFETY: jemalloc's function of that name has had that type since 3.0.
    Some(unsafe { std::mem::transmute::<*mut c_void, Mallctl>(found) })
}

/// Reads a key as a value of this type. `None` if there is no such key, or if its type has another length. `key` ends in NUL.
fn get<T: Default>(mallctl: Mallctl, key: &[u8]) -> Option<T> {
    let (mut value, mut length) = (T::default(), size_of::<T>());
    let place: *mut T = &mut value;
    // SAFETY: the key ends in NUL; jemalloc writes at most the length we give, and refuses another type's.
    let error = unsafe { mallctl(key.as_ptr().cast(), place.cast(), &mut length, null_mut(), 0) };
    (error == 0).then_some(value)
}

/// The text of a key, which jemalloc keeps.
fn text(mallctl: Mallctl, key: &[u8]) -> Option<&'static str> {
    let found = get::<usize>(mallctl, key).filter(|address| *address != 0)?;
    // SAFETY: the keys that this function reads are static strings that end in NUL.
    unsafe { CStr::from_ptr(std::ptr::with_exposed_provenance(found)) }.to_str().ok()
}

/// Writes the version: `5.3.0` of `5.3.0-0-g54eaed1d8b56`.
pub fn write_version(out: &mut impl Write) -> fmt::Result {
    let version = mallctl().and_then(|mallctl| text(mallctl, b"version\0")).unwrap_or_default();
    out.write_str(version.split('-').next().unwrap_or_default())
}

/// The value of `opt.NAME`.
pub fn read(name: &str, kind: &[u8]) -> Option<ReadBack<'static>> {
    let mallctl = mallctl()?;
    let mut key = [0; 64];
    key[..4].copy_from_slice(b"opt.");
    key[4..63].get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    match kind {
        b"flag" => get::<u8>(mallctl, &key).map(|byte| ReadBack::Flag(byte != 0)),
        b"word" => text(mallctl, &key).map(ReadBack::Word),
        // `size_t`, `ssize_t`, `int64_t`: their values fit in an `i64`. The other types are `unsigned`.
        _ => {
            let number = get::<i64>(mallctl, &key).map(i128::from);
            number.or_else(|| get::<u32>(mallctl, &key).map(i128::from)).map(ReadBack::Number)
        }
    }
}
