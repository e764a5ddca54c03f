//! Reads gperftools' tcmalloc by its C functions and its exported flags. In: the name of a setting. Out: its value, and the version.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::{self, Write};

use super::next::next;
use super::value::ReadBack;

/// Settings that are properties of `MallocExtension`.
const PROPERTIES: [(&str, &CStr, bool); 3] = [
    ("max_total_thread_cache_bytes", c"tcmalloc.max_total_thread_cache_bytes", false),
    ("aggressive_decommit", c"tcmalloc.aggressive_memory_decommit", true),
    ("heap_limit_mb", c"tcmalloc.heap_limit_mb", false),
];

/// Settings that are flags in the library's memory: gperftools declares them by macros that make these names.
const FLAGS: [(&str, &CStr, Flag); 4] = [
    (
        "release_rate",
        c"_ZN62FLAG__namespace_do_not_use_directly_use_DECLARE_double_instead27FLAGS_tcmalloc_release_rateE",
        Flag::Double,
    ),
    (
        "disable_memory_release",
        c"_ZN60FLAG__namespace_do_not_use_directly_use_DECLARE_bool_instead35FLAGS_malloc_disable_memory_releaseE",
        Flag::Bool,
    ),
    (
        "skip_mmap",
        c"_ZN60FLAG__namespace_do_not_use_directly_use_DECLARE_bool_instead22FLAGS_malloc_skip_mmapE",
        Flag::Bool,
    ),
    (
        "skip_sbrk",
        c"_ZN60FLAG__namespace_do_not_use_directly_use_DECLARE_bool_instead22FLAGS_malloc_skip_sbrkE",
        Flag::Bool,
    ),
];

#[derive(Clone, Copy)]
enum Flag {
    Double,
    Bool,
}

/// Writes the version: `2.10` of `gperftools 2.10`.
pub fn write_version(out: &mut impl Write) -> fmt::Result {
    type Version = unsafe extern "C" fn(*mut c_int, *mut c_int, *mut *const c_char) -> *const c_char;
    let found = next(c"tc_version");
    if found.is_null() {
        return Ok(());
    }
    let (mut major, mut minor, mut patch) = (0, 0, std::ptr::null());
    // SAFETY: gperftools' function of that name has had that type since 1.0; it writes two numbers and a static text.
    let text = unsafe {
        let version = std::mem::transmute::<*mut c_void, Version>(found);
        CStr::from_ptr(version(&mut major, &mut minor, &mut patch))
    };
    let text = text.to_str().unwrap_or_default();
    out.write_str(text.strip_prefix("gperftools ").unwrap_or(text))
}

/// The value of a setting.
pub fn read(name: &str) -> Option<ReadBack<'static>> {
    property(name).or_else(|| flag(name))
}

fn property(name: &str) -> Option<ReadBack<'static>> {
    type Get = unsafe extern "C" fn(*const c_char, *mut usize) -> c_int;
    let (_, property, is_flag) = PROPERTIES.iter().find(|(setting, _, _)| *setting == name)?;
    let found = next(c"MallocExtension_GetNumericProperty");
    if found.is_null() {
        return None;
    }
    let mut value = 0;
    // SAFETY: gperftools' function of that name has had that type since 1.0; 0 is a property that it does not know.
    let known = unsafe { std::mem::transmute::<*mut c_void, Get>(found)(property.as_ptr(), &mut value) };
    (known != 0).then_some(if *is_flag { ReadBack::Flag(value != 0) } else { ReadBack::Number(value as i128) })
}

fn flag(name: &str) -> Option<ReadBack<'static>> {
    let (_, symbol, kind) = FLAGS.iter().find(|(setting, _, _)| *setting == name)?;
    let found = next(symbol);
    if found.is_null() {
        return None;
    }
    match kind {
        // SAFETY: the variable has the type that its name says. The library writes it before its constructors end.
        Flag::Bool => Some(ReadBack::Flag(unsafe { found.cast::<u8>().read() } != 0)),
        // SAFETY: as above.
        Flag::Double => match unsafe { found.cast::<f64>().read() } {
            value if value.fract() == 0.0 => Some(ReadBack::Number(value as i128)),
            _ => None,
        },
    }
}
