//! The description of an allocator, without its code: plain data, and functions where allocators differ. The crates that use this one loop
//! over these descriptions, and so name no allocator themselves.
//!
//! Code that runs in a service never refers to a whole descriptor. So a service's binary contains only the tables that its own allocator
//! reads. Some data must not be in a service or a cell at all, such as the texts that identify an allocator. The crate that needs such data
//! has it, in a folder or a file with the allocator's name.

use std::collections::BTreeMap;

use crate::dimension::Dimension;
use crate::environment::Environment;
use crate::library::LibraryKind;
use crate::remedy::ReleaseCall;
use crate::request::Value;
use crate::setting::Setting;

/// An allocator.
#[derive(Debug)]
pub struct Descriptor {
    /// The name that candidates use: `jemalloc`.
    pub name: &'static str,
    /// The name in readings of a heap, if it differs: `glibc` for `system`.
    pub heap: &'static str,
    /// The name in sentences: `glibc's malloc`.
    pub title: &'static str,
    /// The description of an allocator that has an `install!`, a cell and a preload; `None` for the others.
    pub ours: Option<&'static Ours>,
    /// The libraries of this allocator that distributions and users build.
    pub libraries: &'static [LibraryKind],
    /// The call that makes a running process give back memory, if it has one.
    pub remedy: Option<ReleaseCall>,
}

/// An allocator that has an `install!`, a cell and a preload.
#[derive(Debug)]
pub struct Ours {
    /// Whether this build contains its code. The C library's malloc is always there.
    pub is_built: bool,
    /// The feature of the crate `allocanary` that adds this allocator's crates as dependencies; `None` for the C library's malloc.
    pub feature: Option<&'static str>,
    /// How it reads settings from the environment.
    pub environment: Environment,
    /// Another variable for the same settings. The allocator's builds in Linux distributions read it.
    pub also: Option<&'static str>,
    /// Every setting that the allocator reads at start.
    pub settings: fn() -> &'static [Setting],
    /// What a program's own code can set.
    pub in_code: InCode,
    /// What the variable of its preload can set.
    pub in_preload: InCode,
    /// The settings that are worth a search.
    pub dimensions: &'static [Dimension],
    /// The candidates that are compared if the user names none.
    pub candidates: &'static [Suggested],
    /// Whether a recorded trace is checked under this allocator if the user names none.
    pub verifies: bool,
    /// Settings as lines of C; `None` if C code cannot set one of them.
    pub c: fn(&BTreeMap<String, String>) -> Option<String>,
}

/// The settings that code can give an allocator before the first allocation, without the allocator's own variables.
#[derive(Clone, Copy, Debug)]
pub struct InCode {
    /// These settings. Every other setting needs the environment.
    pub settings: &'static [Setting],
    /// The settings and values that the word `tuned` stands for.
    pub tuned: &'static [(&'static str, Value)],
}

/// A candidate that is compared if the user names none.
#[derive(Clone, Copy, Debug)]
pub struct Suggested {
    /// The candidate: `jemalloc:narenas=1`.
    pub candidate: &'static str,
    /// Whether `replay` of a trace also compares this candidate. A replay under each candidate takes as long as the program.
    pub replayed: bool,
}

impl Suggested {
    /// A candidate for programs and traces.
    pub(crate) const fn always(candidate: &'static str) -> Self {
        Suggested { candidate, replayed: true }
    }

    /// A candidate for programs only.
    pub(crate) const fn for_programs(candidate: &'static str) -> Self {
        Suggested { candidate, replayed: false }
    }
}

impl Descriptor {
    /// An allocator with a name, and nothing else.
    pub(crate) const fn named(name: &'static str) -> Self {
        Descriptor { name, heap: name, title: name, ours: None, libraries: &[], remedy: None }
    }
}

impl Ours {
    /// Whether every program contains it, because it is the C library's malloc.
    pub fn is_everywhere(&self) -> bool {
        self.feature.is_none()
    }

    /// Whether only the environment, and not a program's code, can set a setting.
    pub fn only_environment(&self, setting: &str) -> bool {
        setting != crate::MEMORY_BUDGET && !self.in_code.settings.iter().any(|settable| settable.name == setting)
    }
}
