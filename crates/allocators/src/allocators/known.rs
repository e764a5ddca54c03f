//! How each allocator of this crate reads its settings. In: an allocator's name. Out: plain data. A report of saved rows
//! needs it where the allocator itself is not linked.

use std::borrow::Cow;

#[cfg(target_env = "gnu")]
use super::glibc as libc_malloc;
#[cfg(not(target_env = "gnu"))]
use super::other_libc as libc_malloc;
use crate::environment::Environment;

/// How an allocator is configured.
#[derive(Debug)]
pub struct Known {
    /// The allocator's name: `jemalloc`.
    pub name: &'static str,
    /// How it reads settings from the environment.
    pub environment: Environment,
    /// Another variable for the same settings, which builds of other packagers read.
    pub also: Option<&'static str>,
    /// The settings that only the environment can set, and not `install!`.
    pub only_environment: fn(&str) -> bool,
}

/// Every allocator of this crate.
pub const KNOWN: &[Known] = &[SYSTEM, JEMALLOC, MIMALLOC];

/// Whether this build has an allocator of this crate: the C library's is always there.
pub fn is_built(name: &str) -> bool {
    match name {
        "jemalloc" => cfg!(feature = "jemalloc"),
        "mimalloc" => cfg!(feature = "mimalloc"),
        _ => known(name).is_some(),
    }
}

/// The C library's malloc.
pub const SYSTEM: Known = Known {
    name: "system",
    environment: Environment::Joined {
        variable: Cow::Borrowed("GLIBC_TUNABLES"),
        earlier: Cow::Borrowed(&[]),
        single: Cow::Borrowed(libc_malloc::VARIABLES),
        prefix: Cow::Borrowed("glibc.malloc."),
        assign: Cow::Borrowed("="),
        separator: Cow::Borrowed(":"),
    },
    also: None,
    only_environment: |setting| !libc_malloc::SETTABLE.iter().any(|settable| settable.name == setting),
};

/// jemalloc, as its Rust crate builds it.
pub const JEMALLOC: Known = Known {
    name: "jemalloc",
    environment: Environment::Joined {
        variable: Cow::Borrowed("_RJEM_MALLOC_CONF"),
        // Variables that people set, and that the prefixed build ignores: `install!` passes both on.
        earlier: Cow::Borrowed(&[Cow::Borrowed("JE_MALLOC_CONF"), Cow::Borrowed("MALLOC_CONF")]),
        single: Cow::Borrowed(&[]),
        prefix: Cow::Borrowed(""),
        assign: Cow::Borrowed(":"),
        separator: Cow::Borrowed(","),
    },
    also: Some("MALLOC_CONF"),
    only_environment: |_| false,
};

/// mimalloc.
pub const MIMALLOC: Known = Known {
    name: "mimalloc",
    environment: Environment::Each { prefix: Cow::Borrowed("MIMALLOC_") },
    also: None,
    only_environment: |_| false,
};

/// The allocator with this name, if it is one of this crate's.
pub fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}
