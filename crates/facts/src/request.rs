//! The request of an `install!` to an allocator, and how it is written before the first allocation. In: names and
//! values. Out: texts on the stack or in static memory.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use crate::setting::PerCore;
use allocanary_sys::container::Cpus;
use allocanary_sys::sys;

/// The settings of an `install!`.
pub struct Request {
    /// Names and values, as in the source.
    pub settings: &'static [(&'static str, Value)],
    /// The symbol from which jemalloc reads its configuration.
    pub conf: Option<&'static Conf>,
}

/// A setting's value in an `install!`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text, as in the source.
    Text(&'static str),
    /// A number; a value with a unit is in bytes.
    Number(u64),
    /// This number per CPU available to the process.
    PerCpu(u32),
    /// The result of the allocator's own rule for the CPUs available to the process.
    Auto,
}

/// A pointer to a text that ends in NUL, or null: the type of jemalloc's `malloc_conf`.
pub type Conf = AtomicPtr<c_char>;

/// Whether a setting did not fit the buffer for jemalloc's configuration.
pub(crate) static CUT: AtomicBool = AtomicBool::new(false);

impl Value {
    /// Calls `with` with the value as text; numbers are written on the stack. `rule` is the allocator's rule for
    /// `auto`. Without a rule, `auto` means one per CPU.
    pub fn with_text<T>(self, rule: Option<&PerCore>, with: impl FnOnce(&str) -> T) -> T {
        let number = match (self, rule) {
            (Value::Text(text), _) => return with(text),
            (Value::Number(number), _) => number,
            (Value::PerCpu(ratio), _) => u64::from(Cpus::here().arenas(ratio)),
            (Value::Auto, Some(rule)) => u64::from(arenas_by(rule, Cpus::here())),
            (Value::Auto, None) => u64::from(Cpus::here().arenas(1)),
        };
        Decimal::of(number.into()).with(with)
    }
}

/// A number as text, on the stack.
pub(crate) struct Decimal {
    digits: [u8; 40],
    first: usize,
}

impl Decimal {
    /// The text of a number.
    #[inline]
    pub fn of(number: i128) -> Self {
        let mut text = Decimal { digits: [0; 40], first: 40 };
        let mut rest = number.unsigned_abs();
        while rest > 0 || text.first == text.digits.len() {
            text.first -= 1;
            text.digits[text.first] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        if number < 0 {
            text.first -= 1;
            text.digits[text.first] = b'-';
        }
        text
    }

    /// Calls `with` with the text.
    #[inline]
    pub fn with<T>(&self, with: impl FnOnce(&str) -> T) -> T {
        with(std::str::from_utf8(&self.digits[self.first..]).unwrap_or("1"))
    }
}

/// Applies the allocator's own rule to the CPUs available to this process.
fn arenas_by(rule: &PerCore, cpus: Cpus) -> u32 {
    match rule.on_one {
        Some(on_one) if cpus.count() == 1 => on_one as u32,
        _ => cpus.arenas(rule.ratio as u32),
    }
}

/// Writes `settings`, then the texts of the variables in `earlier`, into a static buffer, `narenas:2,tcache:false`, and
/// points jemalloc's symbol at it. Later settings take precedence. jemalloc itself reads its own variables after these.
#[cfg_attr(not(feature = "jemalloc"), allow(dead_code))] // jemalloc alone is configured by a text
#[inline]
pub(crate) fn compose(request: &Request, rule: &PerCore, earlier: &[&CStr]) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_the_allocators_own_rule() {
        let cpus = |affinity| Cpus::new(affinity, None);
        let jemalloc = PerCore { setting: "narenas".into(), ratio: 4, on_one: Some(1) };
        let glibc = PerCore { setting: "arena_max".into(), ratio: 8, on_one: None };
        let of = |rule: &PerCore| [1, 2, 40, 8000].map(|count| arenas_by(rule, cpus(count)));
        assert_eq!(of(&jemalloc), [1, 8, 160, 4094]);
        assert_eq!(of(&glibc), [8, 16, 320, 4094]);
        // A quota below one CPU counts as one.
        assert_eq!(arenas_by(&jemalloc, Cpus::new(40, Some(500))), 1);
        assert_eq!([1, 2].map(|cores| jemalloc.on(cores)), [1, 8]);
    }
}
