//! Functions of a process. In: what a search of its files has found. Out: those that are still there, by their names.

use allocanary_heap::Mapping;
use serde::{Deserialize, Serialize};

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

    /// The functions with these names, each address once.
    pub fn of(&self, names: &[String]) -> Vec<&CodeFunction> {
        let mut found: Vec<&CodeFunction> = Vec::new();
        for function in self.all.iter().filter(|one| names.contains(&one.name)) {
            if found.iter().all(|known| known.at != function.at) {
                found.push(function);
            }
        }
        found
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
}
