//! The settings that an `install!` asks of an allocator, and their values as texts on the stack.

use std::ffi::c_char;
use std::sync::atomic::AtomicPtr;

use crate::setting::PerCore;
use allocanary_sys::container::Cpus;

/// The settings of an `install!`.
pub struct InstallSettings {
    /// Names and values, as in the source.
    pub settings: &'static [(&'static str, Value)],
    /// The symbol from which jemalloc reads its configuration.
    pub conf: Option<&'static Conf>,
}

/// A setting's value in an `install!`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text, written as in the source.
    Text(&'static str),
    /// A number; a value with a unit is in bytes.
    Number(u64),
    /// This number for each CPU that the process may use.
    PerCpu(u32),
    /// The result of the allocator's own rule for the CPUs that the process may use.
    Auto,
}

/// A pointer to a text that ends in NUL, or null: the type of jemalloc's `malloc_conf`.
pub type Conf = AtomicPtr<c_char>;

impl Value {
    /// Calls `with` with the value as text. Numbers are written on the stack. `rule` is the allocator's rule for `auto`. Without a rule,
    /// `auto` means one per CPU.
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
pub struct Decimal {
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

/// The number of arenas that the allocator's own rule gives for these CPUs.
fn arenas_by(rule: &PerCore, cpus: Cpus) -> u32 {
    match rule.on_one {
        Some(on_one) if cpus.count() == 1 => on_one as u32,
        _ => cpus.arenas(rule.ratio as u32),
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
