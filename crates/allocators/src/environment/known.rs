//! How each allocator of this crate reads its settings. In: an allocator's name. Out: the values of its entry, as plain
//! data: a report of saved rows needs them where the allocator itself is not linked.

use std::borrow::Cow;

use super::Environment;
use crate::allocators::{SYSTEM_SETTABLE, SYSTEM_SETTINGS, SYSTEM_VARIABLES};

/// How an allocator is configured, without its code.
#[derive(Debug)]
pub struct Known {
    /// The allocator's name: `jemalloc`.
    pub name: &'static str,
    /// How it reads settings from the environment.
    pub environment: Environment,
    /// Another variable for the same settings, which builds of other packagers read.
    pub also: Option<&'static str>,
}

impl Known {
    /// Whether `install!` can set this setting. Some settings of glibc can only come from the environment.
    pub fn installs(&self, setting: &str) -> bool {
        let has = |table: &[crate::setting::Setting]| table.iter().any(|known| known.name == setting);
        self.name != "system" || !has(SYSTEM_SETTINGS) || has(SYSTEM_SETTABLE)
    }
}

/// Every allocator of this crate. Each entry returns the environment in this table.
pub const KNOWN: &[Known] = &[
    Known {
        name: "system",
        environment: Environment::Joined {
            variable: Cow::Borrowed("GLIBC_TUNABLES"),
            earlier: Cow::Borrowed(&[]),
            single: Cow::Borrowed(SYSTEM_VARIABLES),
            prefix: Cow::Borrowed("glibc.malloc."),
            assign: Cow::Borrowed("="),
            separator: Cow::Borrowed(":"),
        },
        also: None,
    },
    Known {
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
    },
    Known {
        name: "mimalloc",
        environment: Environment::Each { prefix: Cow::Borrowed("MIMALLOC_") },
        also: None,
    },
];

/// The allocator with this name, if it is one of this crate's.
pub fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}
