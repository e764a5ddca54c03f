//! What is known of an allocator without having it: plain data, and functions where allocators differ. In: nothing. Out: tables that the
//! crates above loop over, and so name no allocator themselves.
//!
//! Nothing that runs in a service refers to a whole descriptor: its binary has the tables that its own allocator reads, and no others.
//! What must not be in a service or a cell at all, such as texts by which an allocator is recognized, is in the crate that needs it, in
//! a folder or a file with the allocator's name.

use std::collections::BTreeMap;

use crate::dimension::Dimension;
use crate::environment::Environment;
use crate::library::Library;
use crate::remedy::Remedy;
use crate::request::Value;
use crate::setting::Setting;

/// An allocator.
#[derive(Debug)]
pub struct Descriptor {
    /// The name that candidates use: `jemalloc`.
    pub name: &'static str,
    /// The name in readings of a heap, where that is another one: `glibc` for `system`.
    pub heap: &'static str,
    /// The name in sentences: `glibc's malloc`.
    pub title: &'static str,
    /// What there is of an allocator for which there is an `install!`, a cell and a preload; `None` for the others.
    pub ours: Option<&'static Ours>,
    /// Libraries of it that distributions and users build.
    pub libraries: &'static [Library],
    /// The call that makes a running process give back memory, if it has one.
    pub remedy: Option<Remedy>,
}

/// An allocator for which there is an `install!`, a cell and a preload.
#[derive(Debug)]
pub struct Ours {
    /// Whether this build has its code. The C library's is always there.
    pub is_built: bool,
    /// The feature of the front door that brings its crates; `None` for the C library's.
    pub feature: Option<&'static str>,
    /// How it reads settings from the environment.
    pub environment: Environment,
    /// Another variable for the same settings, which builds of other packagers read.
    pub also: Option<&'static str>,
    /// Every setting that it takes at start.
    pub settings: fn() -> &'static [Setting],
    /// What a program's own code can set.
    pub in_code: InCode,
    /// What the variable of its preload can set.
    pub in_preload: InCode,
    /// The settings that are worth a search.
    pub dimensions: &'static [Dimension],
    /// The candidates that are compared where the user names none.
    pub candidates: &'static [Suggested],
    /// Whether a recorded trace is checked under it where the user names none.
    pub verifies: bool,
    /// Settings as lines of C; `None` if C's code cannot set one of them.
    pub c: fn(&BTreeMap<String, String>) -> Option<String>,
}

/// A setting of `install!` itself, with each allocator.
const BUDGET: &str = "budget";

/// What can be set before the first allocation, without the allocator's own variables.
#[derive(Clone, Copy, Debug)]
pub struct InCode {
    /// The settings. A name that is not here needs the environment.
    pub settings: &'static [Setting],
    /// The set that `tuned` stands for.
    pub tuned: &'static [(&'static str, Value)],
}

/// A candidate that is compared where the user names none.
#[derive(Clone, Copy, Debug)]
pub struct Suggested {
    /// The candidate: `jemalloc:narenas=1`.
    pub candidate: &'static str,
    /// Whether it is one for a trace, too. A replay under each takes as long as the program.
    pub replayed: bool,
}

impl Suggested {
    /// One for programs and traces.
    pub(crate) const fn always(candidate: &'static str) -> Self {
        Suggested { candidate, replayed: true }
    }

    /// One for programs only.
    pub(crate) const fn for_programs(candidate: &'static str) -> Self {
        Suggested { candidate, replayed: false }
    }
}

impl Descriptor {
    /// An allocator of which only the name is known.
    pub(crate) const fn named(name: &'static str) -> Self {
        Descriptor { name, heap: name, title: name, ours: None, libraries: &[], remedy: None }
    }
}

impl Ours {
    /// Whether every program has it: it is the C library's.
    pub fn is_everywhere(&self) -> bool {
        self.feature.is_none()
    }

    /// Whether only the environment can set a setting, and not a program's code.
    pub fn only_environment(&self, setting: &str) -> bool {
        setting != BUDGET && !self.in_code.settings.iter().any(|settable| settable.name == setting)
    }
}
