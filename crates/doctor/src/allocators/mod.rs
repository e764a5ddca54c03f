//! What this crate knows of each allocator, a folder each by its name: by what it is found in a file or a process, who reads its
//! variables, what it does without settings, and what to advise. In: nothing. Out: functions that the rest of the crate loops over.

pub mod jemalloc;
mod mimalloc;
mod musl;
mod snmalloc;
mod system;
mod tcmalloc;

use std::collections::BTreeSet;

use allocanary_allocators::descriptor::Descriptor;
use allocanary_heap::Heap;

use crate::advice::Advice;
use crate::defaults::Default;
use crate::host::Surroundings;
use crate::remedies::{Remedy, Subject};
use crate::seen::{Libraries, Seen};
use crate::variables::Assignment;
use crate::{Effect, Flavour, Variables};

/// What is known of one allocator.
pub(crate) struct Part {
    /// What the crate of allocators knows of it.
    pub of: &'static Descriptor,
    /// The flavour that a program has if no more is known: its usual build.
    pub usual: Flavour,
    /// By what it is found.
    pub marks: Marks,
    /// How its variables are read.
    pub variables: Reads,
    /// What it does without settings; `None` if that does not depend on the host.
    pub defaults: Option<fn(&Surroundings) -> Default>,
    /// What to change in general; `None` if no setting is judged.
    pub advice: Option<fn(&Case) -> Option<Advice>>,
    /// What settings would give to a process with this heap; `None` if none is judged.
    pub remedies: Option<Remedies>,
}

/// The remedies for a heap of a process.
pub(crate) type Remedies = fn(&Case, &Subject, &Heap) -> Vec<Remedy>;

/// A symbol, and the flavour that it shows in a program that calls the hook of `install!`, or not.
pub(crate) type Symbol = (&'static str, fn(bool) -> Flavour);

/// By what an allocator is found in a file.
pub(crate) struct Marks {
    /// Symbols that only it defines. The first one is in each usual build.
    pub symbols: &'static [Symbol],
    /// Texts that survive stripping, besides the one by which `heap` knows it, each with a name. They are reversed, so that this command
    /// does not contain the texts that it searches.
    pub texts: &'static [(&'static str, &'static [u8])],
    /// The flavour that a stripped file with these texts shows, and what it is known by.
    pub by_texts: fn(&BTreeSet<&'static str>) -> Option<(Flavour, &'static str)>,
    /// A word of its library's name, and what the library has.
    pub library: Option<(&'static str, Flavour)>,
    /// What our preload of it has; `None` if there is none.
    pub preload: Option<Flavour>,
    /// The beginnings of its file's name, if it is a C library.
    pub c_library: &'static [&'static str],
    /// Whether it leaves `malloc` to the C library where it is linked into a program.
    pub leaves_malloc: bool,
}

impl Marks {
    /// Whether it is a C library's.
    pub fn is_c_library(&self) -> bool {
        !self.c_library.is_empty()
    }

    const NONE: Marks = Marks {
        symbols: &[],
        texts: &[],
        by_texts: |_| None,
        library: None,
        preload: None,
        c_library: &[],
        leaves_malloc: false,
    };
}

/// Who reads a variable with a value, in a program with these allocators.
pub(crate) type Reader = fn(&str, &str, Option<&[Flavour]>) -> Option<(Effect, String)>;
/// A problem of all settings together in a variable, of which the function says whether the program reads it.
pub(crate) type Problem = fn(&[Assignment], &str, &dyn Fn(&str) -> bool) -> Option<String>;

/// How an allocator's variables are read.
pub(crate) struct Reads {
    /// Who reads a variable; `None` if it is none of this allocator's.
    pub reader: Reader,
    /// Adds every setting in its variables, in the order in which they are read.
    pub assignments: fn(&Variables, &Libraries, &mut Vec<Assignment>),
    /// A further problem of the settings in a variable.
    pub problem: Problem,
    /// In which programs one of its variables overrules another; empty for all.
    pub overruled_in: &'static str,
    /// Its variables, to which a name that nobody reads may be near.
    pub names: fn() -> Vec<&'static str>,
    /// The beginnings of names that were meant for it.
    pub suspects: &'static [&'static str],
}

impl Reads {
    const NONE: Reads = Reads {
        reader: |_, _, _| None,
        assignments: |_, _, _| {},
        problem: |_, _, _| None,
        overruled_in: "",
        names: Vec::new,
        suspects: &[],
    };
}

/// What advice depends on.
pub(crate) struct Case<'a> {
    pub at: &'a Surroundings,
    pub variables: &'a Variables,
    pub flavour: Flavour,
    pub subject: Option<&'a [Flavour]>,
    pub seen: &'a Seen,
}

/// All of them, in the order of pages.
pub(crate) const ALL: &[&Part] =
    &[&jemalloc::PART, &system::PART, &mimalloc::PART, &tcmalloc::PART, &snmalloc::PART, &musl::PART];

/// What is known of the allocator with this name.
pub(crate) fn part(name: &str) -> Option<&'static Part> {
    ALL.iter().copied().find(|part| part.of.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_allocators::allocators::ours;

    #[test]
    fn each_of_ours_is_known_by_its_preload_and_has_defaults_and_advice() {
        for (one, _) in ours() {
            let part =
                part(one.name).unwrap_or_else(|| panic!("{}: wanted a folder here, and a line of ALL", one.name));
            assert!(part.marks.preload.is_some() && part.defaults.is_some() && part.advice.is_some(), "{}", one.name);
            assert_eq!(part.usual.allocator().map(|of| of.name), Some(one.name));
        }
    }

    #[test]
    fn a_symbol_belongs_to_one_allocator() {
        let mut symbols: Vec<&str> = ALL.iter().flat_map(|part| part.marks.symbols).map(|(name, _)| *name).collect();
        let count = symbols.len();
        symbols.sort();
        symbols.dedup();
        assert_eq!(symbols.len(), count);
    }
}
