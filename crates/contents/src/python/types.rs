//! Finds the object in a block: where it begins, and its type.
//!
//! An object has the address of its type at 8. In its block, it begins at 16 if the collector's two words are before it, at 32 if two more
//! words are before these (the flags of 3.11 and later say so), and otherwise at 0.
//!
//! A list of types has addresses of types at these places too. For example, the state of the module `_ssl` looked like an object of the
//! type at 24 in it, and then the module's pointer to the state looked like a link of the collector. So two more words are checked: the
//! count of references must not be an address, and the collector's link must be an address or zero.

use std::cell::RefCell;
use std::collections::HashMap;

use allocanary_heap::{HeapBlock, Memory, MemoryCopy};

use crate::modules::ModuleList;

/// Fields of `PyTypeObject`.
const TYPE: u64 = 8;
const NAME: u64 = 24;
const BASIC_SIZE: u64 = 32;
const ITEM_SIZE: u64 = 40;
const FLAGS: u64 = 168;
const BASE: u64 = 256;
const DICT_OFFSET: u64 = 288;
/// `Py_TPFLAGS_HAVE_GC`, and the two flags for words before those of the collector.
const COLLECTED: u64 = 1 << 14;
const BEFORE: u64 = 1 << 3 | 1 << 4;
/// `Py_TPFLAGS_HEAPTYPE`.
const HEAP_TYPE: u64 = 1 << 9;
/// The most bytes of a name.
const LONGEST: usize = 256;
/// The bytes of the collector's words before an object.
const HEAD: u64 = 16;
/// The most base classes of a type that are examined.
const BASES: usize = 16;
/// The types whose objects are weak references: their names before 3.13, and since.
const WEAK: [&str; 6] = [
    "weakref",
    "weakproxy",
    "weakcallableproxy",
    "weakref.ReferenceType",
    "weakref.ProxyType",
    "weakref.CallableProxyType",
];
/// The most types that are remembered.
const MOST: usize = 1 << 18;

/// The file names of interpreters begin so, and these are the known releases: 3.8 to 3.13.
const PREFIXES: [&str; 2] = ["python3", "libpython3"];
const RELEASES: std::ops::RangeInclusive<u32> = 8..=13;

/// The minor release number in a file's name: 11 for `libpython3.11.so.1.0`.
fn minor(name: &str) -> Option<u32> {
    let (_, rest) = name.split_once("python3.")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Its name.
    pub name: String,
    /// Whether the garbage collector tracks its objects.
    pub collected: bool,
    /// Whether its objects are weak references.
    pub weak: bool,
    /// Whether the type was made at run time, as every class in Python code is.
    pub is_class: bool,
    /// The bytes of an object, without its items.
    pub bytes: u64,
    /// The bytes of each item; 0 if its objects have no items.
    pub item: u64,
    /// Whether an object has its own variables in a dict.
    pub has_dict: bool,
    pub(super) before: bool,
}

/// The types of an interpreter.
pub struct Types {
    /// `PyType_Type`.
    root: u64,
    known: RefCell<HashMap<u64, Option<Type>>>,
}

impl Types {
    /// Finds the interpreter. The error is the file name of one whose release is not known.
    pub fn find(copy: &MemoryCopy, modules: &ModuleList) -> Result<Option<Types>, String> {
        let mut root = None;
        for module in modules.named(&PREFIXES) {
            if minor(&module.name).is_some_and(|minor| !RELEASES.contains(&minor)) {
                return Err(module.name.clone());
            }
            for mapping in copy.mappings().iter().filter(|one| one.writable && module.range().contains(&one.from)) {
                copy.each_word(mapping.from..mapping.to.min(module.range().end), |at, word| {
                    if root.is_none()
                        && at.checked_sub(TYPE) == Some(word)
                        && text(copy, word).as_deref() == Some("type")
                    {
                        root = Some(word);
                    }
                });
            }
        }
        Ok(root.map(|root| Types { root, known: RefCell::default() }))
    }

    /// The object in a block: its offset, and its type.
    pub fn object(&self, copy: &MemoryCopy, block: HeapBlock) -> Option<(u64, Type)> {
        self.object_in(copy, block, copy.bytes(block.at, block.bytes.min(48))?)
    }

    /// As [`Types::object`], with the first bytes of the block.
    pub fn object_in(&self, copy: &MemoryCopy, block: HeapBlock, bytes: &[u8]) -> Option<(u64, Type)> {
        let word = |at: u64| Some(u64::from_le_bytes(bytes.get(at as usize..at as usize + 8)?.try_into().ok()?));
        [16, 0, 32].into_iter().find_map(|at: u64| {
            let found = self.known(copy, word(at + TYPE)?)?;
            if is_address(copy, word(at)?) || found.collected && !is_link(copy, word(at.checked_sub(HEAD)?)?) {
                return None;
            }
            let wanted = if !found.collected {
                0
            } else if found.before {
                32
            } else {
                16
            };
            // Objects of these two types can be smaller than their type says, with their contents inside.
            let fits = at + found.bytes <= block.bytes || matches!(found.name.as_str(), "str" | "int");
            (at == wanted && fits).then_some((at, found))
        })
    }

    /// The type of the object at an address, which may be outside of blocks: some texts are in the interpreter's own data.
    pub fn at(&self, copy: &MemoryCopy, at: u64) -> Option<Type> {
        self.known(copy, copy.copied(at.checked_add(TYPE)?)?)
    }

    fn known(&self, copy: &MemoryCopy, at: u64) -> Option<Type> {
        // The address of a type is aligned, and no small number.
        if !at.is_multiple_of(8) || at < 1 << 16 {
            return None;
        }
        if let Some(known) = self.known.borrow().get(&at) {
            return known.clone();
        }
        let found = self.read(copy, at);
        let mut known = self.known.borrow_mut();
        if known.len() < MOST {
            known.insert(at, found.clone());
        }
        found
    }

    fn read(&self, copy: &MemoryCopy, at: u64) -> Option<Type> {
        let word = |at: u64, distance: u64| copy.copied(at.checked_add(distance)?);
        // The type of a type is `type`, or a class whose own type is `type`.
        let of = word(at, TYPE)?;
        if of != self.root && word(of, TYPE)? != self.root {
            return None;
        }
        let (bytes, flags) = (word(at, BASIC_SIZE)?, word(at, FLAGS)?);
        let (item, has_dict) = (word(at, ITEM_SIZE)?, word(at, DICT_OFFSET)? != 0);
        let name = text(copy, at)?;
        ((16..1 << 20).contains(&bytes)).then(|| Type {
            weak: is_weak(copy, at),
            name,
            collected: flags & COLLECTED != 0,
            before: flags & BEFORE != 0,
            is_class: flags & HEAP_TYPE != 0,
            bytes,
            item,
            has_dict,
        })
    }
}

/// Whether a word is an address. A count of references is not: it is smaller, or for an immortal object it is in no mapping.
fn is_address(copy: &MemoryCopy, word: u64) -> bool {
    word >= 1 << 16 && copy.mapping(word).is_some()
}

/// Whether a word can be the collector's link to the next object. It is zero for an object that the collector does not track. The lowest
/// two bits are flags.
fn is_link(copy: &MemoryCopy, word: u64) -> bool {
    word == 0 || is_address(copy, word & !3)
}

/// Whether the objects of a type are weak references: it is one of [`WEAK`], or a subclass of one.
fn is_weak(copy: &MemoryCopy, mut at: u64) -> bool {
    for _ in 0..BASES {
        if text(copy, at).is_some_and(|name| WEAK.contains(&name.as_str())) {
            return true;
        }
        match at.checked_add(BASE).and_then(|base| copy.copied(base)) {
            None | Some(0) => return false,
            Some(base) => at = base,
        }
    }
    false
}

/// The name of the type at an address.
fn text(copy: &MemoryCopy, of: u64) -> Option<String> {
    let at = copy.copied(of.checked_add(NAME)?)?;
    let mut bytes = Vec::new();
    while bytes.len() < LONGEST {
        let from = at.checked_add(bytes.len() as u64)?;
        let start = bytes.len();
        bytes.resize(start + 32 - from as usize % 32, 0);
        if !copy.read(from, &mut bytes[start..]) {
            return None;
        }
        if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            bytes.truncate(end);
            break;
        }
    }
    let name = String::from_utf8(bytes).ok()?;
    (!name.is_empty() && name.chars().all(|c| !c.is_control())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_in_the_name() {
        let names = ["libpython3.11.so.1.0", "python3.8", "libpython3.6m.so.1.0", "python3", "libpython3.so"];
        assert_eq!(names.map(minor), [Some(11), Some(8), Some(6), None, None]);
    }
}
