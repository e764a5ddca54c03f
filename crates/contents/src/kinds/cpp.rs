//! Recognises objects of C++ classes with virtual functions, and finds the names of their classes.
//!
//! The first word of such an object is the address V of a table of functions. The word before V has the address T of the class's type
//! information, whose second word is the address of the class's name. This is verified: T itself begins with the address of a table of
//! functions, of a class whose name begins with `N10__cxxabiv1`. No symbol is needed. (Itanium C++ ABI, 2.9.4.)

use std::collections::HashMap;

use allocanary_heap::Memory;

use super::heap::TypedBlocks;
use super::table::Kinds;
use crate::names;

/// The most bytes of a name that are read.
const LONGEST: usize = 5000;
/// The names of the classes of type information begin with this.
const PROOF: &str = "N10__cxxabiv1";

/// Gives objects and arrays of objects their kinds.
pub fn mark(heap: &TypedBlocks, kinds: &mut Kinds) {
    let mut classes = Classes { heap, known: HashMap::new() };
    for (index, block) in heap.blocks.iter() {
        let words = heap.words(index);
        let Some(first) = words.get(0) else { continue };
        if let Some(name) = classes.class(first) {
            let kind = kinds.named(&name.object, false);
            kinds.set(index, kind);
        } else if let Some(second) = words.get(1)
            && let Some(name) = classes.class(second)
            && is_count(first, block.bytes)
            // The last element is an object of a class too.
            && last_is_object(heap, &mut classes, index, first)
        {
            let kind = kinds.named(&format!("{}[]", name.object), false);
            kinds.set(index, kind);
        }
    }
}

/// Whether the word before the elements of an array can be their count.
fn is_count(count: u64, bytes: u64) -> bool {
    count > 0 && count.checked_mul(8).is_some_and(|least| least + 8 <= bytes)
}

/// Whether an array of `count` objects ends with an object, for some size of the elements that fits in the block.
fn last_is_object(heap: &TypedBlocks, classes: &mut Classes, block: u32, count: u64) -> bool {
    let words = heap.words(block);
    let most = (words.len() as u64 - 1) / count;
    count == 1
        || (1..=most).rev().any(|size| {
            let of = |element: u64| words.get((1 + element * size) as usize).is_some_and(|word| classes.known(word));
            [1, count / 2, count - 1].into_iter().all(of)
        })
}

/// The name of a class, as it is shown for its objects.
#[derive(Clone)]
struct Name {
    object: String,
}

struct Classes<'a> {
    heap: &'a TypedBlocks<'a>,
    /// The class for each address of a table of functions.
    known: HashMap<u64, Option<Name>>,
}

/// The most addresses that are remembered: each block of a hostile program could have another one.
const MOST: usize = 1 << 20;

impl Classes<'_> {
    fn class(&mut self, table: u64) -> Option<Name> {
        if !table.is_multiple_of(8) || !self.is_constant(table) {
            return None;
        }
        if let Some(known) = self.known.get(&table) {
            return known.clone();
        }
        let found = self.name(table).map(|text| Name { object: shown(&names::of_type(&text)) });
        if self.known.len() < MOST {
            self.known.insert(table, found.clone());
        }
        found
    }

    /// Whether this is the table of functions of a class that was already found.
    fn known(&self, table: u64) -> bool {
        matches!(self.known.get(&table), Some(Some(_)))
    }

    /// Whether an address is in the constants of a program or library.
    fn is_constant(&self, at: u64) -> bool {
        let mapping = || self.heap.copy.mapping(at).is_some_and(|mapping| mapping.readable && !mapping.executable);
        self.heap.modules.find(at).is_some() && mapping()
    }

    /// The name in the type information before a table of functions.
    fn name(&self, table: u64) -> Option<String> {
        let information = self.heap.constant(table.checked_sub(8)?)?;
        let of_information = self.heap.constant(information)?;
        let of_class = self.heap.constant(of_information.checked_sub(8)?)?;
        let class = self.text(self.heap.constant(of_class.checked_add(8)?)?)?;
        if !class.starts_with(PROOF) {
            return None;
        }
        // The name of a type that is visible only in its source file begins with `*`.
        let text = self.text(self.heap.constant(information.checked_add(8)?)?)?;
        Some(text.strip_prefix('*').unwrap_or(&text).to_string())
    }

    /// The text at an address, up to the zero at its end.
    fn text(&self, at: u64) -> Option<String> {
        let mut bytes = Vec::new();
        // Reads do not cross the end of a mapping, since there may be nothing behind it.
        while bytes.len() < LONGEST {
            let from = at.checked_add(bytes.len() as u64)?;
            let count = 64 - from as usize % 64;
            let start = bytes.len();
            bytes.resize(start + count, 0);
            let part = &mut bytes[start..];
            if !self.heap.copy.read(from, part) && !self.heap.modules.read_file(from, part, self.heap.open) {
                return None;
            }
            if let Some(end) = bytes[start..].iter().position(|byte| *byte == 0) {
                bytes.truncate(start + end);
                break;
            }
        }
        let text = String::from_utf8(bytes).ok()?;
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')).then_some(text)
    }
}

/// Shortens the type names of blocks that `make_shared` has made. Other names stay.
fn shown(name: &str) -> String {
    const MADE: &str = "std::_Sp_counted_ptr_inplace<";
    let Some(rest) = name.strip_prefix(MADE) else { return name.into() };
    let mut depth = 0;
    let end = rest.find(|c: char| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        depth == 0 && c == ',' || depth < 0
    });
    format!("{} (by make_shared)", &rest[..end.unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_make_shared_made_is_named_after_the_class() {
        let long =
            "std::_Sp_counted_ptr_inplace<std::map<int, app::Peer>, std::allocator<void>, (__gnu_cxx::_Lock_policy)2>";
        assert_eq!(shown(long), "std::map<int, app::Peer> (by make_shared)");
        assert_eq!(shown("app::Peer"), "app::Peer");
        assert_eq!(shown("std::_Sp_counted_ptr_inplace<"), " (by make_shared)");
    }

    #[test]
    fn a_count_fits_in_its_array() {
        assert!(is_count(3, 40) && is_count(1, 16));
        assert!(!is_count(0, 40) && !is_count(5, 40) && !is_count(u64::MAX, 40));
    }
}
