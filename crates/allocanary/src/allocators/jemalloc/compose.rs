//! The text that configures jemalloc, written before the first allocation. In: a request. Out: a text in static memory.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::expected::CUT;
use allocanary_facts::request::InstallSettings;
use allocanary_facts::setting::PerCore;
use allocanary_sys::sys;

/// Writes the settings of `request` into a static buffer (`narenas:2,tcache:false`), then the texts of the variables in
/// `earlier`, and points jemalloc's symbol at the buffer. A later setting takes precedence, and jemalloc reads its own
/// variables after this text.
#[inline]
pub(crate) fn compose(request: &InstallSettings, rule: &PerCore, earlier: &[&CStr]) {
    static TEXT: [AtomicU8; 4096] = [const { AtomicU8::new(0) }; 4096];
    let mut length = 0;
    let mut add = |parts: &[&[u8]]| {
        let comma: &[u8] = if length == 0 { b"" } else { b"," };
        let bytes = || comma.iter().chain(parts.iter().copied().flatten());
        // The last byte stays 0. A setting is written as a whole or not at all, because half of it would be another
        // setting.
        if length + bytes().count() >= TEXT.len() {
            CUT.store(true, Ordering::Relaxed);
            return;
        }
        for byte in bytes() {
            TEXT[length].store(*byte, Ordering::Relaxed);
            length += 1;
        }
    };
    for (name, value) in request.settings {
        value.with_text(Some(rule), |value| add(&[name.as_bytes(), b":", value.as_bytes()]));
    }
    for variable in earlier {
        // SAFETY: `boot` runs before `main`.
        if let Some(text) = unsafe { sys::variable(variable) }.filter(|text| !text.is_empty()) {
            add(&[text]);
        }
    }
    if let Some(conf) = request.conf.filter(|_| length > 0) {
        conf.store(TEXT.as_ptr().cast::<c_char>().cast_mut(), Ordering::Release);
    }
}
