//! Finds wrappers in the stacks of a trace: functions that only call malloc for their caller, so that they do not say which code wanted the
//! memory.
//!
//! If a function is wrongly taken for a wrapper, a site is hidden. So the rule is strict. A function is a wrapper if all of these
//! conditions are met:
//!
//! - its name says that it allocates: the name ends in one of [`NAMES`], or it ends in `alloc` and the function makes nine in ten
//!   allocations of its module and nine in ten of their bytes;
//! - in every stack, the functions inside it are only malloc's family and other wrappers;
//! - two or more functions call it;
//! - its code has at most [`THIN`] bytes: a longer function decides something.
//!
//! `Perl_safesysmalloc` is a wrapper. `strbuf_grow` and `_sdsnewlen` are not: they decide themselves how much they need. A function of a
//! class is no wrapper: a pool's `allocate` hands out parts of the blocks that it gets.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Folding, Part, part};
use allocanary_names::NamedFrame;

/// Ends of names, in lower case, without trailing `_` and digits.
const NAMES: &[&str] = &["malloc", "calloc", "realloc", "memalign", "strdup", "strndup", "memdup"];

/// A function whose name ends only in `alloc` must make this share of its module's allocations.
const MOST: f64 = 0.9;
/// The most bytes of code. Perl's `Perl_safesysrealloc` has 138, and wrappers that only check the result have 25 to 90.
const THIN: u64 = 160;
/// The most wrappers that call each other: `luaM_malloc_` calls `l_alloc`.
const ROUNDS: usize = 4;

/// A stack, how many blocks it made, and their bytes.
pub type WrapperStack = (Vec<NamedFrame>, u64, u64);

#[derive(Default)]
struct Candidate<'a> {
    callers: HashSet<&'a str>,
    allocations: u64,
    bytes: u64,
    is_busy: bool,
    is_long: bool,
}

impl Folding {
    /// Finds the wrappers, and those that call only other wrappers.
    pub fn find_wrappers(&mut self, stacks: &[WrapperStack]) {
        for _ in 0..ROUNDS {
            let found = if self.is_off { BTreeMap::new() } else { self.next(stacks) };
            if found.is_empty() {
                return;
            }
            self.wrappers.extend(found);
        }
    }

    /// The functions that call only malloc's family and wrappers that are already found.
    fn next(&self, stacks: &[WrapperStack]) -> BTreeMap<(String, String), usize> {
        let mut of: HashMap<(&str, &str), Candidate<'_>> = HashMap::new();
        let mut modules: HashMap<&str, (u64, u64)> = HashMap::new();
        for (frames, allocations, bytes) in stacks {
            let is_inner = |frame: &NamedFrame| part(frame) == Part::Allocator || self.has(frame);
            let Some(first) = frames.iter().position(|frame| !is_inner(frame)) else { continue };
            let module = modules.entry(&frames[first].module).or_default();
            *module = (module.0 + allocations, module.1.saturating_add(*bytes));
            for (at, frame) in frames.iter().enumerate().skip(first).filter(|(_, frame)| is_called_so(frame)) {
                let candidate = of.entry((&frame.module, &frame.function)).or_default();
                if at > first {
                    candidate.is_busy = true;
                    continue;
                }
                candidate.callers.extend(frames.get(at + 1).map(|caller| caller.function.as_str()));
                candidate.is_long |= frame.code_bytes > THIN;
                candidate.allocations += allocations;
                candidate.bytes = candidate.bytes.saturating_add(*bytes);
            }
        }
        let is_most = |part: u64, all: u64| part as f64 >= MOST * all as f64;
        of.into_iter()
            .filter(|((module, function), candidate)| {
                let (allocations, bytes) = modules.get(module).copied().unwrap_or_default();
                let is_hub = is_most(candidate.allocations, allocations) && is_most(candidate.bytes, bytes);
                !candidate.is_busy
                    && !candidate.is_long
                    && candidate.callers.len() > 1
                    && (is_hub || is_of_family(function))
            })
            .map(|((module, function), candidate)| ((module.into(), function.into()), candidate.callers.len()))
            .collect()
    }
}

/// Whether a name says that the function allocates.
fn is_called_so(frame: &NamedFrame) -> bool {
    frame.is_named() && !frame.function.contains(':') && plain(&frame.function).ends_with("alloc")
        || is_of_family(&frame.function) && frame.is_named()
}

fn is_of_family(function: &str) -> bool {
    let name = plain(function);
    let is_end = |end: &str| {
        let Some(before) = name.strip_suffix(end) else { return false };
        // `GenericAlloc` and `staticalloc` do not end in the word calloc, and `prealloc` does not end in realloc: their first
        // letters belong to another word.
        let part = function.get(before.len() + 1..name.len()).unwrap_or_default();
        let is_one_word = part == part.to_lowercase() || part == part.to_uppercase();
        let is_other = end == "calloc" && before.ends_with('i') || end == "realloc" && before.ends_with('p');
        is_one_word && !is_other
    };
    !function.contains(':') && NAMES.iter().any(|end| is_end(end))
}

/// A name in lower case, without a compiler's suffix, such as `.part.0`.
fn plain(function: &str) -> String {
    let name = function.split('.').next().unwrap_or_default();
    name.trim_end_matches(|letter: char| letter == '_' || letter.is_ascii_digit()).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::site;
    use allocanary_names::NameSource;

    fn made(functions: &[&str], allocations: u64) -> WrapperStack {
        let frame = |function: &&str| NamedFrame {
            function: (*function).into(),
            source: NameSource::Symbols,
            module: "app".into(),
            ..NamedFrame::default()
        };
        (functions.iter().map(frame).collect(), allocations, allocations * 100)
    }

    /// The wrappers that are found, with their callers.
    fn found(stacks: &[WrapperStack]) -> Vec<(String, usize)> {
        let mut folding = Folding::default();
        folding.find_wrappers(stacks);
        folding.wrappers.into_iter().map(|((_, name), callers)| (name, callers)).collect()
    }

    #[test]
    fn a_function_that_only_passes_on_is_found_and_the_site_is_its_caller() {
        let perl = [
            made(&["malloc", "Perl_safesysmalloc", "Perl_sv_grow", "main"], 10),
            made(&["malloc", "Perl_safesysmalloc", "S_new_body", "main"], 20),
            made(&["malloc", "S_parse", "main"], 20),
        ];
        let mut folding = Folding::default();
        folding.find_wrappers(&perl);
        assert_eq!(folding.wrappers[&("app".into(), "Perl_safesysmalloc".into())], 2);
        let name = |folding: &Folding| perl[0].0[site(&perl[0].0, folding).unwrap()].function.clone();
        assert_eq!(name(&folding), "Perl_sv_grow");
        let mut off = Folding { is_off: true, ..Folding::default() };
        off.find_wrappers(&perl);
        assert_eq!(name(&off), "Perl_safesysmalloc");
    }

    /// A buffer's `realloc` decides how much it needs. A wrapper is short.
    #[test]
    fn a_long_function_is_a_site_whatever_its_name() {
        let with_code = |bytes| {
            let mut stacks = ["read_line", "read_body"].map(|caller| made(&["realloc", "buffer_realloc", caller], 9));
            stacks.iter_mut().for_each(|(frames, ..)| frames[1].code_bytes = bytes);
            found(&stacks)
        };
        assert_eq!(with_code(THIN), [("buffer_realloc".to_string(), 2)]);
        assert_eq!(with_code(THIN + 1), []);
    }

    #[test]
    fn one_that_passes_on_to_another_is_found_too() {
        let lua = [
            made(&["realloc", "l_alloc", "luaM_malloc_", "luaC_newobj", "main"], 10),
            made(&["realloc", "l_alloc", "luaM_malloc_", "luaH_resize", "main"], 10),
            made(&["realloc", "l_alloc", "luaM_realloc_", "luaH_resize", "main"], 10),
            made(&["realloc", "l_alloc", "luaM_realloc_", "luaD_growstack", "main"], 10),
        ];
        let names = [("l_alloc".to_string(), 2), ("luaM_malloc_".into(), 2), ("luaM_realloc_".into(), 2)];
        assert_eq!(found(&lua), names);
    }

    #[test]
    fn a_function_that_decides_itself_is_a_site() {
        // Other names; called by only one function; another function inside it; a function of a class; not most of the
        // module.
        for function in ["strbuf_grow", "_sdsnewlen", "newObject", "Pool::alloc", "Pool::malloc"] {
            let stacks = [made(&["malloc", function, "a"], 9), made(&["malloc", function, "b"], 9)];
            assert_eq!(found(&stacks), [], "{function}");
        }
        assert_eq!(found(&[made(&["malloc", "my2malloc", "a"], 9)]), []);
        for name in ["PyType_GenericAlloc", "staticalloc", "strbuf_prealloc", "mallocate"] {
            assert!(!is_of_family(name), "{name}");
        }
        for name in ["Perl_safesyscalloc", "PyMem_Malloc", "MY_REALLOC", "luaM_malloc_", "my_strdup.part.0", "xmalloc2"]
        {
            assert!(is_of_family(name), "{name}");
        }
        let busy = [
            made(&["malloc", "a_realloc2", "a"], 9),
            made(&["malloc", "a_realloc2", "b"], 9),
            made(&["malloc", "log", "a_realloc2", "b"], 1),
        ];
        assert_eq!(found(&busy), []);
        let part = [
            made(&["malloc", "jvp_string_alloc", "a"], 9),
            made(&["malloc", "jvp_string_alloc", "b"], 9),
            made(&["malloc", "jvp_object_new", "b"], 9),
        ];
        assert_eq!(found(&part), []);
    }
}
