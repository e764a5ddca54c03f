//! Finds the variables of Python's modules: the name of each, and its object.
//!
//! `sys.modules` is the dict that contains most modules. In every release, a module has the address of its dict at 16, and each entry of a
//! dict has the key just before the value.

use allocanary_heap::{HeapBlock, MemoryCopy};

use super::types::Types;
use crate::blocks::Blocks;
use crate::kinds::WordSlice;
use crate::links::Links;

/// The offsets of a dict's keys, and of a module's dict.
const KEYS: u64 = 32;
const DICT: u64 = 16;
/// No further modules are read after this many variables.
const MOST: usize = 100_000;

/// A variable of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonVariable {
    /// The name with its module, such as `CACHE of module __main__`.
    pub name: String,
    /// The address of its object.
    pub object: u64,
}

/// All variables of all modules, in the order of `sys.modules`.
pub fn find(copy: &MemoryCopy, blocks: &Blocks, types: &Types, links: &Links) -> Vec<PythonVariable> {
    let search = Search { copy, blocks, types, links };
    let dicts = blocks.iter().filter(|(index, _)| search.is(*index, "dict"));
    let modules = dicts.map(|(_, block)| search.modules(block)).max_by_key(Vec::len).unwrap_or_default();
    let mut all = Vec::new();
    for (name, module) in modules {
        let dict = copy.copied(module + DICT).and_then(|dict| search.object(dict, "dict"));
        let entries = dict.map(|dict| search.entries(dict)).unwrap_or_default();
        all.extend(
            entries
                .into_iter()
                .map(|(variable, object)| PythonVariable { name: format!("{variable} of module {name}"), object }),
        );
        if all.len() > MOST {
            break;
        }
    }
    all
}

struct Search<'a> {
    copy: &'a MemoryCopy<'a>,
    blocks: &'a Blocks,
    types: &'a Types,
    links: &'a Links,
}

impl Search<'_> {
    fn is(&self, block: u32, name: &str) -> bool {
        self.links.object(block).is_some()
            && self.types.object(self.copy, self.blocks.get(block)).is_some_and(|(_, of)| of.name == name)
    }

    /// The address, if an object of this type begins there.
    fn object(&self, at: u64, name: &str) -> Option<u64> {
        let block = self.blocks.find(at)?;
        let begins = self.links.object(block).is_some_and(|place| self.blocks.get(block).at + place == at);
        (begins && self.is(block, name)).then_some(at)
    }

    /// The modules in a dict, with their names.
    fn modules(&self, dict: HeapBlock) -> Vec<(String, u64)> {
        let Some((at, _)) = self.types.object(self.copy, dict) else { return Vec::new() };
        let mut entries = self.entries_of(dict.at + at, Some("module"));
        entries.dedup_by_key(|entry| entry.1);
        entries
    }

    fn entries(&self, dict: u64) -> Vec<(String, u64)> {
        self.entries_of(dict, None)
    }

    /// The entries of a dict whose keys are texts: only values of the type `of`, or all values.
    fn entries_of(&self, dict: u64, of: Option<&str>) -> Vec<(String, u64)> {
        let Some(keys) = self.copy.copied(dict + KEYS).and_then(|keys| self.blocks.at(keys)) else { return Vec::new() };
        let block = self.blocks.get(keys);
        let words = WordSlice(self.copy.bytes(block.at, block.bytes).unwrap_or_default());
        let mut entries = Vec::new();
        for at in 1..words.len() {
            let (Some(key), Some(value)) = (words.get(at - 1), words.get(at)) else { break };
            let Some(found) = self.blocks.find(value) else { continue };
            let begins = self.links.object(found).is_some_and(|place| self.blocks.get(found).at + place == value);
            if !begins || of.is_some_and(|of| !self.is(found, of)) {
                continue;
            }
            entries.extend(self.text(key).map(|name| (name, value)));
        }
        entries
    }

    /// The text of a `str` of ASCII characters. It is behind 40 bytes from 3.12 on, and behind 48 before.
    fn text(&self, at: u64) -> Option<String> {
        const LENGTH: u64 = 16;
        self.types.at(self.copy, at).filter(|of| of.name == "str")?;
        let length = self.copy.copied(at + LENGTH).filter(|length| (1..200).contains(length))?;
        [40, 48].into_iter().find_map(|place| {
            let (text, end) = self.copy.bytes(at + place, length + 1)?.split_at_checked(length as usize)?;
            let name = text.iter().all(|byte| byte.is_ascii_graphic());
            (name && end == [0]).then(|| String::from_utf8_lossy(text).into_owned())
        })
    }
}
