//! The types that the folder of an allocator offers to the rest of this crate, and those with which its functions are called.

use std::collections::{BTreeMap, BTreeSet};

use allocanary_facts::descriptor::Descriptor;
use allocanary_heap::Heap;

use crate::flavour::Flavour;
use crate::host::Surroundings;
use crate::judgement::{Advice, ArenaLimit, Default};
use crate::remedy::{PasteLine, Remedy, variable};
use crate::seen::{Libraries, ProcessTraits};
use crate::subject::Subject;
use crate::variables::{VariableEffect, VariableSetting, Variables, settings};

/// The knowledge about one allocator.
pub(crate) struct Part {
    /// Its descriptor in the crate `facts`.
    pub of: &'static Descriptor,
    /// The flavour to assume if nothing else is known: its usual build.
    pub usual: Flavour,
    /// How it is found in a file.
    pub marks: Marks,
    /// How its variables are read.
    pub variables: Reads,
    /// Its defaults on a host; `None` if these do not depend on the host.
    pub defaults: Option<fn(&Surroundings) -> Default>,
    /// The settings that decide how many arenas it makes.
    pub arena_settings: &'static [&'static str],
    /// What to change in general; `None` if this crate gives no advice about its settings.
    pub advice: Option<fn(&Case) -> Option<Advice>>,
    /// What a process with this heap would save by its settings; `None` if this crate does not know.
    pub remedies: Option<Remedies>,
}

impl Part {
    /// The settings in force: those of code, and of each variable that the program reads.
    fn in_force(&self, case: &Case) -> BTreeMap<String, String> {
        let is_read = |name: &str, value: &str| {
            (self.variables.reader)(name, value, case.subject).is_some_and(|(effect, _)| effect == VariableEffect::Read)
        };
        let read: Variables = case.variables.clone().into_iter().filter(|(name, value)| is_read(name, value)).collect();
        let mut in_force = case.seen.code.clone();
        in_force.extend(settings(&(self.variables.assignments)(&read, &case.seen.libraries), self.of.name));
        in_force
    }

    /// What limits its arenas in this case; `None` if it has none.
    pub fn arena_limit(&self, case: &Case) -> Option<ArenaLimit> {
        let default = self.defaults?(case.at);
        default.arenas?;
        let in_force = self.in_force(case);
        let is_set = self.arena_settings.iter().any(|name| in_force.contains_key(*name));
        Some(match default.oversized && !is_set && !case.seen.is_single() {
            true => ArenaLimit::Host(default),
            false => ArenaLimit::Fits,
        })
    }

    /// A sentence and a space that say why it makes more arenas than the process may use. Empty if it does not.
    pub fn why_of_arenas(&self, case: &Case) -> String {
        match self.arena_limit(case) {
            Some(ArenaLimit::Host(default)) => format!("It makes {}. ", default.text),
            _ => String::new(),
        }
    }
}

/// The remedies for a heap of a process.
pub(crate) type Remedies = fn(&Case, &Subject, &Heap) -> Vec<Remedy>;

/// A symbol, and the flavour that it shows. The argument says whether the program calls the hook of `install!`.
pub(crate) type Symbol = (&'static str, fn(bool) -> Flavour);

/// The marks by which an allocator is found in a file.
pub(crate) struct Marks {
    /// Symbols that only this allocator defines. Each usual build has the first one.
    pub symbols: &'static [Symbol],
    /// Texts that survive stripping, each with a name. They are used in addition to the text by which `heap` finds the allocator. They
    /// are stored reversed, because this command must not contain the texts that it searches for.
    pub texts: &'static [(&'static str, &'static [u8])],
    /// The flavour of a stripped file that contains these texts, and the text that shows it.
    pub by_texts: fn(&BTreeSet<&'static str>) -> Option<(Flavour, &'static str)>,
    /// A word in its library's name, and the flavour of that library.
    pub library: Option<(&'static str, Flavour)>,
    /// The flavour of our preload of it; `None` if there is none.
    pub preload: Option<Flavour>,
    /// The beginnings of its file's name, if it is a C library.
    pub c_library: &'static [&'static str],
    /// Whether `malloc` remains the C library's in a program that has this allocator linked in.
    pub leaves_malloc: bool,
}

impl Marks {
    /// Whether it is a C library's malloc.
    pub fn is_c_library(&self) -> bool {
        !self.c_library.is_empty()
    }

    /// No marks.
    pub const NONE: Marks = Marks {
        symbols: &[],
        texts: &[],
        by_texts: |_| None,
        library: None,
        preload: None,
        c_library: &[],
        leaves_malloc: false,
    };
}

/// Says which of a program's allocators read a variable with this value.
pub(crate) type Reader = fn(&str, &str, Option<&[Flavour]>) -> Option<(VariableEffect, String)>;
/// A problem of all settings in a variable together. The function argument says whether the program reads a variable.
pub(crate) type Problem = fn(&[VariableSetting], &str, &dyn Fn(&str) -> bool) -> Option<String>;

/// How an allocator's variables are read.
pub(crate) struct Reads {
    /// Which programs read a variable; `None` if the variable is not one of this allocator's.
    pub reader: Reader,
    /// Every setting in its variables, in the order in which they are read.
    pub assignments: fn(&Variables, &Libraries) -> Vec<VariableSetting>,
    /// A further problem of the settings in a variable.
    pub problem: Problem,
    /// The programs in which one of its variables overrules another; empty means in all.
    pub overruled_in: &'static str,
    /// The names of its variables. A name that nobody reads may be a misspelling of one of them.
    pub names: fn() -> Vec<&'static str>,
    /// The beginnings of names that were probably meant for it.
    pub suspects: &'static [&'static str],
}

impl Reads {
    /// No variables.
    pub const NONE: Reads = Reads {
        reader: |_, _, _| None,
        assignments: |_, _| Vec::new(),
        problem: |_, _, _| None,
        overruled_in: "",
        names: Vec::new,
        suspects: &[],
    };
}

/// The facts on which advice depends.
pub(crate) struct Case<'a> {
    pub at: &'a Surroundings,
    pub variables: &'a Variables,
    pub flavour: Flavour,
    pub subject: Option<&'a [Flavour]>,
    pub seen: &'a ProcessTraits,
}

impl Case<'_> {
    /// Whether the program may be a Rust program, so that it gets a line for Rust.
    pub fn is_rust(&self) -> bool {
        self.seen.rust != Some(false) || matches!(self.flavour, Flavour::RustJemalloc { .. })
    }

    /// The lines of an advice: its variable, and those for Rust if it may be a Rust program.
    pub fn lines(&self, advice: &Advice) -> Vec<PasteLine> {
        let code = advice.install.iter().filter(|_| self.is_rust()).flat_map(|text| text.lines());
        let (name, value) = &advice.variable;
        variable(name, value).into_iter().chain(code.map(|text| PasteLine::new("Rust", text))).collect()
    }
}
