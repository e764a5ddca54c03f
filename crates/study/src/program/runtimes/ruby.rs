//! Ruby: its collector's variables. In: the program `ruby3.1`. Out: its version.
//!
//! Which variables a version reads is in the manual page of `ruby` (RUBY_GC_*). These are in all versions since 2.1; the slots at the
//! start of a heap have other names since 3.3, and are not here.

use std::path::Path;

use super::knob::{Also, Knob, Usual, Way};
use super::runtime::{RuntimeKind, Traits, never};
use allocanary_facts::setting::SettingKind;

/// A size in bytes.
const fn size(name: &'static str, about: &'static str, variable: &'static str, usual: &'static str) -> Knob {
    let kind = SettingKind::Size { min: 1 << 10, max: i64::MAX as u64 };
    Knob::new(name, kind, about, Way::Variable(variable), Usual::Text(usual), Also::Nothing)
}

/// A factor.
const fn factor(
    name: &'static str,
    about: &'static str,
    variable: &'static str,
    usual: &'static str,
    least: f64,
) -> Knob {
    let also = Also::Fraction(least, 100.0);
    Knob::new(name, SettingKind::Text, about, Way::Variable(variable), Usual::Text(usual), also)
}

/// Ruby.
pub const RUBY: RuntimeKind = RuntimeKind {
    name: "Ruby",
    knobs: &[
        factor(
            "gc_heap_growth_factor",
            "Ruby: the heap of slots grows by this factor",
            "RUBY_GC_HEAP_GROWTH_FACTOR",
            "1.8",
            1.01,
        ),
        factor(
            "gc_heap_oldobject_limit_factor",
            "Ruby: a full collection begins at this many times the old objects of the last one",
            "RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR",
            "2.0",
            0.1,
        ),
        size("gc_malloc_limit", "Ruby: bytes of malloc until a collection", "RUBY_GC_MALLOC_LIMIT", "16777216"),
        size("gc_malloc_limit_max", "Ruby: the most to which that limit grows", "RUBY_GC_MALLOC_LIMIT_MAX", "33554432"),
        size(
            "gc_oldmalloc_limit",
            "Ruby: bytes of malloc in old objects until a full collection",
            "RUBY_GC_OLDMALLOC_LIMIT",
            "16777216",
        ),
        size(
            "gc_oldmalloc_limit_max",
            "Ruby: the most to which that limit grows",
            "RUBY_GC_OLDMALLOC_LIMIT_MAX",
            "134217728",
        ),
    ],
    tried: &[],
    recognise,
    ignores: never,
    is_changeable: false,
};

fn recognise(file: &Path) -> Option<Traits> {
    let version = file.file_name()?.to_str()?.strip_prefix("ruby")?;
    let is_version = version.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_version.then(|| Traits { version: version.to_string(), ..Traits::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ruby_is_known_by_its_name() {
        let version = |name: &str| recognise(&Path::new("/usr/bin").join(name)).map(|found| found.version);
        assert_eq!((version("ruby3.1").as_deref(), version("ruby").as_deref()), (Some("3.1"), Some("")));
        assert_eq!(version("ruby-build"), None);
    }
}
