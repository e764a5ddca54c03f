//! Functions of a process, as a search of its files has found them.

use std::collections::BTreeSet;

use allocanary_heap::Mapping;
use serde::{Deserialize, Serialize};

use crate::give_back::ReleaseCall;
use crate::give_back::remedy;

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeFunction {
    /// Its name.
    pub name: String,
    /// Its address in the process.
    pub at: u64,
    /// Its length in bytes; 0 if it is not known.
    pub bytes: u64,
    /// The path of its file.
    pub file: String,
    /// The inode of its file.
    pub inode: u64,
}

/// Functions of a process, in the order of its mappings, and the files that were searched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeFunctions {
    /// The functions.
    pub all: Vec<CodeFunction>,
    /// The files.
    pub looked: Vec<String>,
}

/// The most functions of a file that may be an allocator's under an unusual name. The file may be hostile.
const CANDIDATES: usize = 1000;
/// The most prefixes of a file.
const PREFIXES: usize = 16;

/// Which functions are searched for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSearch {
    /// Functions with these names.
    pub names: Vec<String>,
    /// Also functions whose names have these endings: a build may put a prefix before them.
    pub endings: Vec<String>,
    /// Also the functions that are needed to borrow a thread.
    pub to_borrow: bool,
}

impl FunctionSearch {
    /// A search for the function of a remedy.
    pub fn of(remedy: &ReleaseCall, to_borrow: bool) -> FunctionSearch {
        let endings = remedy.beside.map(|beside| vec![remedy.function.to_string(), beside.to_string()]);
        FunctionSearch { names: remedy.names().collect(), endings: endings.unwrap_or_default(), to_borrow }
    }

    /// The prefixes with which all endings occur among these names of one file. Other functions with such a prefix belong to the same
    /// allocator.
    pub fn prefixes<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> BTreeSet<&'a str> {
        let Some((first, others)) = self.endings.split_first() else { return BTreeSet::new() };
        let with = |end: &str| -> BTreeSet<&'a str> {
            let prefixes = names.clone().filter_map(|name| name.strip_suffix(end)).filter(|prefix| prefix.len() > 1);
            prefixes.take(CANDIDATES).collect()
        };
        let mut found = with(first);
        others.iter().for_each(|end| {
            let also = with(end);
            found.retain(|prefix| also.contains(prefix));
        });
        found.into_iter().take(PREFIXES).collect()
    }

    /// Whether a name has one of the endings.
    pub fn ends_alike(&self, name: &str) -> bool {
        self.endings.iter().any(|end| name.ends_with(end.as_str()))
    }

    /// Whether a function with this name is wanted, in a file with these prefixes.
    pub fn has(&self, name: &str, prefixes: &BTreeSet<&str>) -> bool {
        self.names.iter().any(|one| one == name)
            || prefixes
                .iter()
                .any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| self.endings.iter().any(|end| end == rest)))
    }
}

impl CodeFunctions {
    /// Removes functions that are not in these mappings: the process may run another program by now.
    pub fn within(mut self, mappings: &[Mapping]) -> CodeFunctions {
        let is_there = |function: &CodeFunction| {
            let is_its = |one: &&Mapping| {
                one.executable
                    && one.inode == function.inode
                    && one.name == function.file
                    && (one.from..one.to).contains(&function.at)
            };
            mappings.iter().any(|one| is_its(&one))
        };
        self.all.retain(is_there);
        self
    }

    /// The functions that may be the one of a remedy, each address once.
    pub fn of(&self, remedy: &ReleaseCall) -> Vec<&CodeFunction> {
        let others: BTreeSet<u64> = self.others(remedy).into_iter().map(|(function, _)| function.at).collect();
        let is_it = |one: &&CodeFunction| remedy.names().any(|name| name == one.name) || others.contains(&one.at);
        let mut known = BTreeSet::new();
        self.all.iter().filter(is_it).filter(|one| known.insert(one.at)).collect()
    }

    /// The unusual prefixes of allocators' functions, each with its file.
    pub fn prefixes(&self) -> Vec<(&str, &str)> {
        let of = |remedy| self.others(remedy).into_iter().map(|(one, prefix)| (prefix, one.file.as_str()));
        remedy::all().flat_map(of).collect()
    }

    /// The functions of a remedy under an unusual name, with their prefixes. The same file must have the function `beside` with the same
    /// prefix.
    fn others(&self, remedy: &ReleaseCall) -> Vec<(&CodeFunction, &str)> {
        let Some(beside) = remedy.beside else { return Vec::new() };
        let of = |one: &'_ CodeFunction| Some((one.file.clone(), one.name.strip_suffix(beside)?.to_string()));
        let known: BTreeSet<(String, String)> = self.all.iter().filter_map(of).collect();
        let is_known = |file: &str, prefix: &str| known.contains(&(file.to_string(), prefix.to_string()));
        let prefixed = self.all.iter().filter_map(|one| Some((one, remedy.other_prefix(&one.name)?)));
        prefixed.filter(|(one, prefix)| is_known(&one.file, prefix)).take(CANDIDATES).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_another_program_is_left_out() {
        let function = |at, inode| CodeFunction { name: "f".into(), at, bytes: 0, file: "/a".into(), inode };
        let mapping = |executable| Mapping {
            from: 0x1000,
            to: 0x2000,
            executable,
            inode: 7,
            name: "/a".into(),
            ..Mapping::default()
        };
        let found = CodeFunctions {
            all: vec![function(0x1100, 7), function(0x1100, 8), function(0x2100, 7)],
            looked: Vec::new(),
        };
        assert_eq!(found.clone().within(&[mapping(true)]).all, [function(0x1100, 7)]);
        assert_eq!(found.within(&[mapping(false)]).all, []);
    }

    #[test]
    fn a_function_with_an_unusual_prefix_is_known_by_the_one_beside_it() {
        let function =
            |name: &str, at, file: &str| CodeFunction { name: name.into(), at, bytes: 0, file: file.into(), inode: 7 };
        let jemalloc = remedy::of("jemalloc").unwrap();
        let all = vec![
            function("duckdb_je_mallctl", 1, "/duckdb.so"),
            function("duckdb_je_mallctlbymib", 2, "/duckdb.so"),
            // Neither a helper of a program, nor a C++ name, nor one whose neighbour is in another file.
            function("my_mallctl", 3, "/bin/server"),
            function("_ZN6duckdb7mallctl", 4, "/duckdb.so"),
            function("other_mallctl", 5, "/other.so"),
            function("other_mallctlbymib", 6, "/duckdb.so"),
        ];
        let found = CodeFunctions { all, looked: Vec::new() };
        assert_eq!(found.of(jemalloc).iter().map(|one| one.at).collect::<Vec<_>>(), [1]);
        assert_eq!(found.prefixes(), [("duckdb_je_", "/duckdb.so")]);
        let search = FunctionSearch::of(jemalloc, false);
        let names = ["duckdb_je_mallctl", "duckdb_je_mallctlbymib", "my_mallctl", "my_other"];
        let prefixes = search.prefixes(names.into_iter());
        assert_eq!(prefixes.iter().copied().collect::<Vec<_>>(), ["duckdb_je_"], "what stands alone is no allocator's");
        let has = |name: &str| search.has(name, &prefixes);
        assert!(has("duckdb_je_mallctl") && has("_rjem_mallctl") && !has("mallctl_x") && !has("my_mallctl"));
        let collect = FunctionSearch::of(remedy::of("mimalloc").unwrap(), false);
        assert!(collect.prefixes(["my_mi_collect"].into_iter()).is_empty(), "mimalloc has no prefix");
    }
}
