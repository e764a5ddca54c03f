//! jemalloc, asked by `mallctl`. In: the name of an option. Out: its value, and the version.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::{self, Write};
use std::ptr::null_mut;

use super::next;
use super::reader::Read;

type Mallctl = unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

/// The names of `mallctl`: as distributions build it, and with the prefixes of others.
const NAMES: [&CStr; 3] = [c"mallctl", c"_rjem_mallctl", c"je_mallctl"];

fn mallctl() -> Option<Mallctl> {
    let found = NAMES.iter().map(|name| next(name)).find(|found| !found.is_null())?;
    // SAFETY: jemalloc's function of that name has had that type since 3.0.
    Some(unsafe { std::mem::transmute::<*mut c_void, Mallctl>(found) })
}

/// Reads a key as a value of this type; an error is its length in bytes. `key` ends in NUL.
fn get<T: Default>(mallctl: Mallctl, key: &[u8]) -> Result<T, usize> {
    let (mut value, mut length) = (T::default(), size_of::<T>());
    let place: *mut T = &mut value;
    // SAFETY: the key ends in NUL; jemalloc writes at most the length we give, and refuses another type's.
    match unsafe { mallctl(key.as_ptr().cast(), place.cast(), &mut length, null_mut(), 0) } {
        0 => Ok(value),
        _ => Err(length),
    }
}

/// A text of jemalloc's own.
fn text(mallctl: Mallctl, key: &[u8]) -> Option<&'static str> {
    let found = get::<usize>(mallctl, key).ok().filter(|address| *address != 0)?;
    // SAFETY: keys that are read by this function are static strings that end in NUL.
    unsafe { CStr::from_ptr(std::ptr::with_exposed_provenance(found)) }.to_str().ok()
}

/// `5.3.0` of `5.3.0-0-g54eaed1d8b56`.
pub fn write_version(out: &mut impl Write) -> fmt::Result {
    let version = mallctl().and_then(|mallctl| text(mallctl, b"version\0")).unwrap_or_default();
    out.write_str(version.split('-').next().unwrap_or_default())
}

/// The value of `opt.NAME`.
pub fn read(name: &str, kind: &[u8]) -> Option<Read<'static>> {
    let mallctl = mallctl()?;
    let mut key = [0; 64];
    key[..4].copy_from_slice(b"opt.");
    key[4..63].get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    match kind {
        b"flag" => get::<u8>(mallctl, &key).ok().map(|byte| Read::Flag(byte != 0)),
        b"word" => text(mallctl, &key).map(Read::Word),
        // `size_t`, `ssize_t`, `int64_t`: none of them is beyond what `i64` has. The others are `unsigned`.
        _ => match get::<i64>(mallctl, &key) {
            Ok(number) => Some(Read::Number(number.into())),
            Err(4) => get::<u32>(mallctl, &key).ok().map(|number| Read::Number(number.into())),
            Err(_) => None,
        },
    }
}
