//! Functions of a process. In: what a search of its files has found. Out: those that are still there, by their names.

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
    /// The number of its file.
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

/// Which functions are searched for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSearch {
    /// Those with these names.
    pub names: Vec<String>,
    /// All whose name ends so: a build may have put a prefix before it.
    pub endings: Vec<String>,
    /// Also those that are needed to borrow a thread.
    pub to_borrow: bool,
}

impl FunctionSearch {
    /// For the function of a remedy.
    pub fn of(remedy: &ReleaseCall, to_borrow: bool) -> FunctionSearch {
        let endings = remedy.beside.map(|beside| vec![remedy.function.to_string(), beside.to_string()]);
        FunctionSearch { names: remedy.names().collect(), endings: endings.unwrap_or_default(), to_borrow }
    }

    /// The prefix of a name that has one of the endings: other functions with this prefix are of the same allocator.
    pub fn prefix<'a>(&self, name: &'a str) -> Option<&'a str> {
        self.endings.iter().find_map(|end| name.strip_suffix(end.as_str())).filter(|prefix| prefix.len() > 1)
    }

    /// Whether a function of this name is searched for by its name.
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|one| one == name) || self.endings.iter().any(|end| name.ends_with(end.as_str()))
    }
}

impl CodeFunctions {
    /// Without those that are not in these mappings: the process may run another program by now.
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

    /// The functions that may be that of a remedy, each address once.
    pub fn of(&self, remedy: &ReleaseCall) -> Vec<&CodeFunction> {
        let is_it =
            |one: &&CodeFunction| remedy.names().any(|name| name == one.name) || self.prefix(remedy, one).is_some();
        let mut found: Vec<&CodeFunction> = Vec::new();
        for function in self.all.iter().filter(is_it) {
            if found.iter().all(|known| known.at != function.at) {
                found.push(function);
            }
        }
        found
    }

    /// The unusual prefixes of allocators' functions, each with its file.
    pub fn prefixes(&self) -> Vec<(&str, &str)> {
        let of = |remedy| self.all.iter().filter_map(move |one| Some((self.prefix(remedy, one)?, one.file.as_str())));
        remedy::all().flat_map(of).collect()
    }

    /// The prefix of a function that is a remedy's under an unusual name: its file has the function beside it with the same prefix.
    fn prefix<'a>(&self, remedy: &ReleaseCall, function: &'a CodeFunction) -> Option<&'a str> {
        let prefix = remedy.other_prefix(&function.name)?;
        let beside = format!("{prefix}{}", remedy.beside?);
        self.all.iter().any(|one| one.file == function.file && one.name == beside).then_some(prefix)
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
        assert!(search.has("duckdb_je_mallctl") && search.has("_rjem_mallctl") && !search.has("mallctl_x"));
        let collect = remedy::of("mimalloc").unwrap();
        assert!(!FunctionSearch::of(collect, false).has("my_mi_collect"), "mimalloc has no prefix");
    }
}
