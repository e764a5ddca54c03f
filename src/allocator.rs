//! The contract of an allocator: who it is, which settings it has, where its memory is, and how to make it give
//! memory back. In: nothing but the process that it serves. Out: names, values, counters.
//!
//! The entries are in [`allocators`](crate::allocators). An entry's functions are `#[inline]` so that they are
//! compiled into the binary that names the entry and into no other: a function in this library that called
//! jemalloc would link jemalloc, and its constructor, into every binary that uses the library.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::install::{Plan, equal};
use crate::tuning;
use crate::units::parse_bytes;

/// An allocator that is linked into this process.
pub trait Allocator: Sync {
    /// The name that candidates use: `jemalloc`.
    fn name(&self) -> &'static str;

    /// The version of the code that is linked, from the allocator itself.
    fn version(&self) -> String;

    /// Every setting that this allocator takes at start, with its own names.
    fn settings(&self) -> &'static [Setting];

    /// How settings travel to the allocator. They must be in the environment before its first allocation.
    fn environment(&self) -> Environment;

    /// The setting that the allocator derives from the number of cores, if it does.
    fn per_core(&self) -> Option<PerCore>;

    /// The values in force, by setting, each as [`Kind::canonical`] writes it. A setting that cannot be read back
    /// is missing. `wanted` are the values asked for: a few settings can only be asked about in their words.
    ///
    /// May allocate and may start a process: not for use between two readings.
    fn effective(&self, wanted: &BTreeMap<String, String>) -> BTreeMap<String, String>;

    /// Where the memory is. Does not allocate after its first call.
    fn counters(&self) -> Counters;

    /// Gives back to the system all the memory that can be given back now.
    fn purge(&self);

    /// Applies the settings of an [`install!`](crate::install), before the first allocation: must not allocate.
    fn boot(&self, plan: &Plan);

    /// See [`tuning::most_arenas`](crate::tuning::most_arenas).
    fn most_arenas(&self) -> tuning::Result<Option<u32>>;

    /// See [`tuning::bind_current_thread`](crate::tuning::bind_current_thread).
    fn bind_thread(&self, _arena: u32) -> tuning::Result<()> {
        self.cannot("threads cannot be bound to arenas")
    }

    /// See [`tuning::set_thread_cache`](crate::tuning::set_thread_cache).
    fn set_thread_cache(&self, _on: bool) -> tuning::Result<bool> {
        self.cannot("thread caches cannot be turned on or off in a running process")
    }

    /// See [`tuning::set_thread_cache_max`](crate::tuning::set_thread_cache_max).
    fn set_thread_cache_max(&self, _bytes: usize) -> tuning::Result<()> {
        self.cannot("thread caches cannot be limited in a running process")
    }

    /// See [`tuning::flush_thread_cache`](crate::tuning::flush_thread_cache).
    fn flush_thread_cache(&self) -> tuning::Result<()> {
        self.cannot("a thread's cache cannot be flushed; purge() gives back what can be had")
    }

    /// See [`tuning::set_decay`](crate::tuning::set_decay); -1 is never.
    fn set_decay(&self, _pages: tuning::Pages, _millis: i64) -> tuning::Result<()> {
        self.cannot("freed pages do not go back by time; purge() gives them back")
    }

    /// See [`tuning::decay`](crate::tuning::decay); -1 is never.
    fn decay(&self, _pages: tuning::Pages) -> tuning::Result<i64> {
        self.cannot("freed pages do not go back by time")
    }

    /// See [`tuning::set_background_threads`](crate::tuning::set_background_threads).
    fn set_background_threads(&self, _on: bool) -> tuning::Result<bool> {
        self.cannot("it has no background threads")
    }
}

/// The error of what an allocator cannot do.
pub(crate) trait Cannot {
    /// `what`, as an error.
    fn cannot<T>(&self, what: &'static str) -> tuning::Result<T>;
}

impl<A: Allocator + ?Sized> Cannot for A {
    fn cannot<T>(&self, what: &'static str) -> tuning::Result<T> {
        Err(tuning::Error::Unsupported { allocator: self.name(), what })
    }
}

/// One setting of an allocator.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "command", derive(serde::Serialize, serde::Deserialize))]
pub struct Setting {
    /// The allocator's own name for it.
    pub name: Cow<'static, str>,
    /// What values it takes.
    pub kind: Kind,
    /// What it does, in one line.
    pub about: Cow<'static, str>,
}

impl Setting {
    /// A row of an allocator's table.
    pub const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Setting { name: Cow::Borrowed(name), kind, about: Cow::Borrowed(about) }
    }

    /// The name, where a program is being compiled. A table's names are never owned.
    pub(crate) const fn name_const(&self) -> &str {
        match &self.name {
            Cow::Borrowed(name) => name,
            Cow::Owned(_) => "",
        }
    }
}

/// The values that a setting takes.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "command", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "command", serde(tag = "type", rename_all = "snake_case"))]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// A whole number from `min` to `max`.
    Number {
        /// The least value.
        min: i64,
        /// The greatest value.
        max: i64,
    },
    /// An amount of memory from `min` to `max` bytes.
    Size {
        /// The least value in bytes.
        min: u64,
        /// The greatest value in bytes.
        max: u64,
    },
    /// One of a few words.
    Choice {
        /// The words.
        names: Cow<'static, [Cow<'static, str>]>,
    },
    /// The allocator's own notation, which we pass on as it is.
    Text,
}

impl Kind {
    /// Any size that fits the address space.
    pub const SIZE: Kind = Kind::Size { min: 0, max: i64::MAX as u64 };

    /// The one way in which we write `value`, so that wanted and found can be compared as texts: `true`, `65536`.
    /// The error says what was wanted instead.
    pub fn canonical(&self, value: &str) -> Result<String, String> {
        let wanted = || format!("wanted {}", self.wanted());
        match self {
            Kind::Flag => match value {
                "true" | "1" | "yes" | "on" => Ok("true".into()),
                "false" | "0" | "no" | "off" => Ok("false".into()),
                _ => Err(wanted()),
            },
            Kind::Number { min, max } => match value.parse::<i64>() {
                Ok(number) if (*min..=*max).contains(&number) => Ok(number.to_string()),
                _ => Err(wanted()),
            },
            Kind::Size { min, max } => match parse_bytes(value) {
                Some(bytes) if (*min..=*max).contains(&bytes) => Ok(bytes.to_string()),
                _ => Err(wanted()),
            },
            Kind::Choice { names } if names.iter().any(|name| name == value) => Ok(value.to_string()),
            Kind::Choice { .. } => Err(wanted()),
            Kind::Text => Ok(value.to_string()),
        }
    }

    /// Whether `value` is one that fits, as far as can be told while a program is being compiled: sizes with a unit and
    /// the allocator's own notations are left to [`tuning::check`](crate::tuning::check).
    pub(crate) const fn takes(&self, value: &str) -> bool {
        match self {
            Kind::Flag => equal(value, "true") || equal(value, "false"),
            Kind::Number { min, max } => match whole_number(value) {
                Some(number) => *min <= number && number <= *max,
                None => false,
            },
            Kind::Size { min, max } => match whole_number(value) {
                Some(bytes) => bytes >= 0 && *min <= bytes as u64 && bytes as u64 <= *max,
                None => false,
            },
            Kind::Choice { names: Cow::Borrowed(names) } => {
                let mut at = 0;
                while at < names.len() {
                    if let Cow::Borrowed(name) = &names[at]
                        && equal(name, value)
                    {
                        return true;
                    }
                    at += 1;
                }
                false
            }
            Kind::Choice { .. } => false,
            Kind::Text => true,
        }
    }

    /// What the setting takes, for a help text: `a whole number from 1 to 4094`.
    pub fn wanted(&self) -> String {
        const FAR: i64 = i32::MAX as i64;
        match self {
            Kind::Flag => "true or false".into(),
            Kind::Number { min, max } if *max >= FAR => format!("a whole number, {min} or more"),
            Kind::Number { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Size { min: 0, max } if *max >= FAR as u64 => "a size such as 65536 or 64KiB".into(),
            Kind::Size { min, max } => format!("a size from {min} to {max} bytes"),
            Kind::Choice { names } => format!("one of {}", names.join(", ")),
            Kind::Text => "the allocator's own notation".into(),
        }
    }
}

/// A whole number, where traits cannot be called.
const fn whole_number(text: &str) -> Option<i64> {
    match i64::from_str_radix(text, 10) {
        Ok(number) => Some(number),
        Err(_) => None,
    }
}

/// How an allocator reads its settings from the environment.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "command", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "command", serde(tag = "type", rename_all = "snake_case"))]
pub enum Environment {
    /// All settings in one variable: `_RJEM_MALLOC_CONF=narenas:1,tcache:false`.
    Joined {
        /// The variable.
        variable: Cow<'static, str>,
        /// Other variables that are read before it, in order: what the later says wins.
        #[cfg_attr(feature = "command", serde(default))]
        earlier: Cow<'static, [Cow<'static, str>]>,
        /// What stands before each name: `glibc.malloc.`.
        prefix: Cow<'static, str>,
        /// What stands between a name and its value.
        assign: Cow<'static, str>,
        /// What stands between two settings.
        separator: Cow<'static, str>,
    },
    /// A variable for each setting: `MIMALLOC_PURGE_DELAY=0`.
    Each {
        /// What stands before each name, which is in upper case.
        prefix: Cow<'static, str>,
    },
}

impl Environment {
    /// The variables that make `settings` true in a new process.
    pub fn variables(&self, settings: &BTreeMap<String, String>) -> Vec<(String, String)> {
        match self {
            Environment::Joined { .. } if settings.is_empty() => Vec::new(),
            Environment::Joined { variable, prefix, assign, separator, .. } => {
                let pairs: Vec<String> =
                    settings.iter().map(|(key, value)| format!("{prefix}{key}{assign}{value}")).collect();
                vec![(variable.to_string(), pairs.join(separator))]
            }
            Environment::Each { prefix } => {
                settings.iter().map(|(key, value)| (format!("{prefix}{}", key.to_uppercase()), value.clone())).collect()
            }
        }
    }

    /// Adds `settings` to what `variables` already holds. The settings come later, and so they win.
    pub fn add_to(&self, variables: &mut BTreeMap<String, String>, settings: &BTreeMap<String, String>) {
        for (name, value) in self.variables(settings) {
            let before = match self {
                Environment::Joined { separator, .. } => {
                    variables.get(&name).map(|before| format!("{before}{separator}"))
                }
                Environment::Each { .. } => None,
            };
            variables.insert(name, before.unwrap_or_default() + &value);
        }
    }

    /// Whether a variable of the user's environment configures this allocator.
    pub fn owns(&self, variable: &str) -> bool {
        match self {
            Environment::Joined { variable: own, earlier, .. } => {
                variable == own || earlier.iter().any(|earlier| earlier == variable)
            }
            Environment::Each { prefix } => variable.starts_with(prefix.as_ref()),
        }
    }
}

/// A setting whose default grows with the number of cores.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "command", derive(serde::Serialize, serde::Deserialize))]
pub struct PerCore {
    /// The setting: `narenas`.
    pub setting: Cow<'static, str>,
    /// What one core adds to it: 4.
    pub ratio: u64,
}

/// Where an allocator says that its memory is, in bytes; `None` where it cannot say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// In blocks that the program holds, rounded up to size classes.
    pub allocated: Option<u64>,
    /// In pages that hold at least one such block.
    pub active: Option<u64>,
    /// In pages that are in memory, with free pages not yet given back. jemalloc counts no page that the kernel
    /// took back by itself.
    pub resident: Option<u64>,
    /// In the allocator's own structures.
    pub metadata: Option<u64>,
    /// Addresses kept for later, with no memory behind them.
    pub retained: Option<u64>,
    /// Arenas that have been used at least once, in number.
    pub arenas: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_one_spelling() {
        let choice = Kind::Choice { names: Cow::Borrowed(&[Cow::Borrowed("auto"), Cow::Borrowed("always")]) };
        for (kind, value, canonical) in [
            (&Kind::Flag, "yes", "true"),
            (&Kind::Flag, "0", "false"),
            (&Kind::Number { min: -1, max: 9 }, "-1", "-1"),
            (&Kind::SIZE, "64KiB", "65536"),
            (&choice, "auto", "auto"),
            (&Kind::Text, "8-64:100", "8-64:100"),
        ] {
            assert_eq!(kind.canonical(value).as_deref(), Ok(canonical));
        }
        for (kind, value, said) in [
            (&Kind::Flag, "maybe", "wanted true or false"),
            (&Kind::Number { min: 1, max: 4094 }, "0", "wanted a whole number from 1 to 4094"),
            (&Kind::Size { min: 0, max: 1032 }, "2KiB", "wanted a size from 0 to 1032 bytes"),
            (&choice, "never", "wanted one of auto, always"),
        ] {
            assert_eq!(kind.canonical(value), Err(said.to_string()));
        }
    }

    #[test]
    fn settings_become_variables() {
        let settings = BTreeMap::from([("b".to_string(), "2".to_string()), ("a".into(), "1".into())]);
        let joined = Environment::Joined {
            variable: "CONF".into(),
            earlier: vec!["OLD_CONF".into()].into(),
            prefix: "x.".into(),
            assign: "=".into(),
            separator: ":".into(),
        };
        assert_eq!(joined.variables(&settings), [("CONF".into(), "x.a=1:x.b=2".into())]);
        assert!(joined.variables(&BTreeMap::new()).is_empty());
        let each = Environment::Each { prefix: "MI_".into() };
        assert_eq!(each.variables(&settings), [("MI_A".into(), "1".into()), ("MI_B".into(), "2".into())]);
        let mut inherited = BTreeMap::from([("CONF".to_string(), "x.c=3".to_string()), ("MI_A".into(), "9".into())]);
        joined.add_to(&mut inherited, &settings);
        each.add_to(&mut inherited, &settings);
        assert_eq!(inherited["CONF"], "x.c=3:x.a=1:x.b=2");
        assert_eq!(inherited["MI_A"], "1");
        assert!(each.owns("MI_A") && !each.owns("MALLOC_A") && joined.owns("CONF") && joined.owns("OLD_CONF"));
    }
}
