//! The allocators that a program can have, with the name of each as a page shows it.

use allocanary_facts::descriptor::Descriptor;
use allocanary_facts::{ALL, jemalloc, system};

/// An allocator in a program. Builds that read different variables are different flavours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// jemalloc with the prefix `_rjem_`, as tikv-jemallocator builds it. C's malloc is still the system's.
    RustJemalloc {
        /// Whether the program passes `MALLOC_CONF` and `JE_MALLOC_CONF` on to jemalloc, as `install!` does.
        installs: bool,
    },
    /// jemalloc under C's own names.
    PlainJemalloc,
    /// jemalloc with the prefix `je_`.
    PrefixedJemalloc,
    /// An allocator whose builds do not differ, by its name.
    Named(&'static str),
    /// glibc's malloc.
    Glibc,
    /// Another C library's malloc.
    OtherLibc,
    /// The allocator of Go's runtime.
    Go,
    /// A malloc that is not the C library's; its origin is unknown.
    Unknown,
}

impl Flavour {
    /// The allocator's name, as candidates and the page use it.
    pub fn name(self) -> &'static str {
        match self {
            Flavour::OtherLibc => "the C library's malloc",
            Flavour::Go => "Go's runtime",
            Flavour::Unknown => "an unknown allocator",
            known => known.allocator().map_or("an unknown allocator", |one| one.title),
        }
    }

    /// Its descriptor in the crate `facts`; `None` for the allocator of a runtime, and for an unknown one.
    pub fn allocator(self) -> Option<&'static Descriptor> {
        let name = match self {
            Flavour::RustJemalloc { .. } | Flavour::PlainJemalloc | Flavour::PrefixedJemalloc => jemalloc::NAME,
            Flavour::Named(name) => name,
            Flavour::Glibc => system::NAME,
            Flavour::OtherLibc | Flavour::Go | Flavour::Unknown => return None,
        };
        ALL.iter().copied().find(|one| one.name == name)
    }

    /// Whether it has settings that we know.
    pub fn has_settings(self) -> bool {
        self.allocator().is_some_and(|one| one.ours.is_some())
    }

    /// Whether it is a jemalloc.
    pub fn is_jemalloc(self) -> bool {
        matches!(self, Flavour::RustJemalloc { .. } | Flavour::PlainJemalloc | Flavour::PrefixedJemalloc)
    }
}
