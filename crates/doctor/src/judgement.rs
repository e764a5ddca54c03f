//! The types for what the doctor says about an allocator on a host: its defaults, and the advice as lines to paste.

use allocanary_facts::paste;

/// The behaviour of an allocator here without any settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Default {
    /// The allocator: `jemalloc`.
    pub allocator: &'static str,
    /// The maximum number of arenas, if it has arenas.
    pub arenas: Option<u32>,
    /// A text with the defaults, and what they ignore.
    pub text: String,
    /// Whether it is sized for more CPUs than the process can use.
    pub oversized: bool,
}

/// What limits the arenas of an allocator that has some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArenaLimit {
    /// The processors of the host, of which the process may use only some. This default is in force.
    Host(Default),
    /// A setting, or the processors that the process may use. Also if the process has one thread, because this uses only one arena.
    Fits,
}

/// `1 arena`, `2 arenas`.
pub(crate) fn count(arenas: u32) -> String {
    if arenas == 1 { "1 arena".into() } else { format!("{arenas} arenas") }
}

/// A change for one allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The allocator: `jemalloc`.
    pub allocator: &'static str,
    /// The reasons, one sentence each.
    pub reasons: Vec<String>,
    /// The variable to set, and its value. The value includes the valid settings that the variable already had.
    pub variable: (String, String),
    /// Another variable for the same settings: `MALLOC_CONF`, for a jemalloc with C's own names.
    pub also: Option<&'static str>,
    /// The lines for the root of a Rust program; `None` if it is not a Rust program.
    pub install: Option<String>,
    /// Whether it reduces the number of arenas, which may reduce speed.
    pub fewer_arenas: bool,
    /// Other settings that a search has proved, with the study that shows it. They should be tried first, not pasted at once.
    pub proven: Option<&'static str>,
}

impl Advice {
    /// The name of the variable. If another variable takes the same settings, its name too.
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.variable.0.as_str()).chain(self.also)
    }

    /// The lines for a shell, or for a file of variables.
    pub fn environment(&self) -> Vec<String> {
        self.names().map(|name| paste::shell(name, &self.variable.1)).collect()
    }

    /// The lines for a Dockerfile.
    pub fn dockerfile(&self) -> Vec<String> {
        self.names().map(|name| paste::dockerfile(name, &self.variable.1)).collect()
    }

    /// The lines for a Kubernetes container's `env`.
    pub fn kubernetes(&self) -> Vec<String> {
        self.names().flat_map(|name| paste::kubernetes(name, &self.variable.1)).collect()
    }
}

/// `1 arena`, `4 arenas`.
pub(crate) fn arenas_of(count: usize) -> String {
    if count == 1 { "1 arena".into() } else { format!("{count} arenas") }
}

/// `1 processor`, `4 processors`.
pub(crate) fn processors_of(count: usize) -> String {
    if count == 1 { "1 processor".into() } else { format!("{count} processors") }
}
