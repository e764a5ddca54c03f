//! Finds which words in the blocks of CPython's objects are data and not pointers, and the same for other blocks that the objects own.
//!
//! | object | data |
//! |---|---|
//! | `bytes`, `int`, `float`, `complex` | all but the type |
//! | `str` | all but the type, and of a text that is not ASCII the pointer to its UTF-8 bytes |
//! | `set`, `frozenset` | the hashes of its entries |
//! | `tuple`; the items of a `list` | what is behind its items |
//! | `bytearray`, `array.array` | the whole block that it owns |
//! | the first and the last block of a `deque` | the places that no item uses |
//! | the keys of a `dict` | the index, and the hashes |
//! | code, and each other object of items that are smaller than a pointer | the items |
//! | an object without items | the word behind it, if its block is one word longer: allocators round up |
//!
//! The size of `str` distinguishes releases up to 3.11 from later ones.

use allocanary_heap::{HeapBlock, MemoryCopy};

use super::types::Type;
use crate::blocks::Blocks;
use crate::data::DataRule;

/// `sizeof(PyUnicodeObject)` up to 3.11.
const OLD_TEXT: u64 = 80;
/// Offsets of fields: the count of items, the flags of a `str`, the keys of a `dict`, and the items of a `list` or an `array.array`
/// (`ITEMS`), of a `bytearray` (`BYTES`) and of a `set` (`TABLE`).
const COUNT: u64 = 16;
const STATE: u64 = 32;
const KEYS: u64 = 32;
const ITEMS: u64 = 24;
const BYTES: [u64; 2] = [32, 40];
const TABLE: u64 = 40;
/// Fields of a `deque`: the first and the last block (`LINKS`), the places of the first and the last item in these (`ENDS`), and the number
/// of items of a block (`LENGTH`). A block has its left neighbour before the items, and its right neighbour behind them. Unused places were
/// never cleared.
const LINKS: [u64; 2] = [24, 32];
const ENDS: [u64; 2] = [40, 48];
const LENGTH: u64 = 64;
/// Bits in the state of a `str`: the text is directly behind the object, and the text is ASCII.
const COMPACT: u64 = 1 << 5;
const ASCII: u64 = 1 << 6;
/// The words of a `set` that are pointers: its type, its table, its own eight keys, and its weak references.
const OF_SET: [u64; 11] = [1, 5, 8, 10, 12, 14, 16, 18, 20, 22, 24];

/// The rule for the block of an object that begins at the offset `at`.
pub fn rule(copy: &MemoryCopy, block: HeapBlock, at: u64, of: &Type) -> DataRule {
    let word = |field: u64| copy.copied(block.at + at + field);
    let first = at / 8;
    // A class in Python code can have any name, also that of a built-in type.
    let name = if of.is_class { "" } else { of.name.as_str() };
    let but = |pointers: &[u64]| DataRule::but(&pointers.iter().map(|word| first + word).collect::<Vec<_>>());
    match name {
        "bytes" | "int" | "float" | "complex" => but(&[1]),
        "str" => {
            let is_old = of.bytes == OLD_TEXT;
            match word(STATE).map_or(0, |state| state & (COMPACT | ASCII)) {
                // Up to 3.11 there is one more pointer, to the same text in wide characters.
                state if state == COMPACT | ASCII => but(if is_old { &[1, 5] } else { &[1] }),
                COMPACT => but(if is_old { &[1, 5, 7] } else { &[1, 6] }),
                _ => DataRule::NONE,
            }
        }
        "set" | "frozenset" => but(&OF_SET),
        "tuple" => match word(COUNT).and_then(|count| count.checked_mul(8)) {
            Some(items) if at + of.bytes + items <= block.bytes => DataRule::from((at + of.bytes + items) / 8),
            _ => DataRule::NONE,
        },
        _ if (1..8).contains(&of.item) && !of.has_dict => DataRule::from((at + of.bytes).div_ceil(8)),
        _ if of.item == 0 && block.bytes == at + of.bytes + 8 => DataRule::from((at + of.bytes) / 8),
        _ => DataRule::NONE,
    }
}

/// Whether [`owned`] can find the blocks that objects of this type own.
pub fn owns(of: &Type) -> bool {
    match of.name.as_str() {
        "list" | "bytearray" | "set" | "frozenset" | "dict" => !of.is_class,
        // In later releases these two types are made when their modules are loaded, so they may be classes.
        name => matches!(name, "array.array" | "collections.deque"),
    }
}

/// Calls `tell` with each block that an object owns, and the rule for its words. `is_object` says whether a block has an object.
pub fn owned(
    copy: &MemoryCopy,
    blocks: &Blocks,
    object: u64,
    of: &Type,
    is_object: impl Fn(u32) -> bool,
    mut tell: impl FnMut(u32, DataRule),
) {
    let word = |field: u64| object.checked_add(field).and_then(|at| copy.copied(at)).unwrap_or(0);
    let block = |field: u64| blocks.at(word(field)).filter(|block| !is_object(*block));
    let found = match of.name.as_str() {
        "list" => block(ITEMS).map(|items| (items, DataRule::from(word(COUNT)))),
        "array.array" => block(ITEMS).map(|items| (items, DataRule::WHOLE)),
        "bytearray" => BYTES.into_iter().find_map(block).map(|bytes| (bytes, DataRule::WHOLE)),
        "set" | "frozenset" => block(TABLE).map(|table| (table, DataRule::SECONDS)),
        "dict" => block(KEYS).and_then(|keys| Some((keys, of_keys(copy.bytes(blocks.get(keys).at, 32)?)?))),
        "collections.deque" => {
            let [left, right] = LINKS.map(block);
            let [first, last] = ENDS.map(word);
            match (left, right) {
                (Some(left), Some(right)) if first >= LENGTH || last >= LENGTH || left == right && first > last + 1 => {
                }
                (Some(left), Some(right)) if left == right => {
                    tell(left, DataRule::outside(1 + first, last + 1 - first))
                }
                (Some(left), Some(right)) => {
                    tell(left, DataRule::within(0, 1 + first));
                    tell(right, DataRule::from(2 + last));
                }
                _ => {}
            }
            None
        }
        _ => None,
    };
    if let Some((block, rule)) = found {
        tell(block, rule);
    }
}

/// The rule for the keys of a `dict`, from the first 32 bytes of their block.
///
/// Up to 3.10 the second word is the number of slots, and the index begins at 40. From 3.11 on, the second word has these bytes: the
/// logarithm of the number of slots, the logarithm of the index's bytes, and the kind. Only with the first kind (0), each entry has a hash.
fn of_keys(head: &[u8]) -> Option<DataRule> {
    const OLD_HEAD: u64 = 40;
    const HEAD: u64 = 32;
    const LARGEST: u8 = 40;
    let slots = u64::from_le_bytes(head.get(8..16)?.try_into().ok()?);
    if slots.is_power_of_two() && slots >= 8 {
        // A number in the index has one byte up to 128 slots, then two, four and eight.
        let bytes = match slots {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xffff_ffff => 4,
            _ => 8,
        };
        return Some(DataRule::thirds((OLD_HEAD + slots.checked_mul(bytes)?) / 8));
    }
    let [slots, index, kind] = [head[8], head[9], head[10]];
    if slots > index || !(3..=LARGEST).contains(&index) {
        return None;
    }
    let first = (HEAD + (1 << index)) / 8;
    match kind {
        0 => Some(DataRule::thirds(first)),
        1 | 2 => Some(DataRule::within(0, first)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_both_forms_are_known() {
        let head = |second: u64| [[0; 8], second.to_le_bytes(), [0; 8], [0; 8]].concat();
        assert_eq!(of_keys(&head(8)), Some(DataRule::thirds(6)));
        assert_eq!(of_keys(&head(1024)), Some(DataRule::thirds((40 + 2048) / 8)));
        let new = |slots: u64, index: u64, kind: u64| head(slots | index << 8 | kind << 16);
        assert_eq!(of_keys(&new(3, 3, 0)), Some(DataRule::thirds(5)));
        assert_eq!(of_keys(&new(10, 11, 1)), Some(DataRule::within(0, (32 + 2048) / 8)));
        assert_eq!([of_keys(&new(3, 60, 0)), of_keys(&new(3, 3, 7)), of_keys(&head(0)), of_keys(&[])], [None; 4]);
    }

    #[test]
    fn places_of_a_deque_that_no_item_uses_are_data() {
        const HEAP: u64 = 0x1_0000_0000;
        let of = Type {
            name: "collections.deque".into(),
            collected: true,
            weak: false,
            is_class: false,
            bytes: 80,
            item: 0,
            has_dict: false,
            before: false,
        };
        let at = |block: u64| HEAP + 1024 * block;
        let blocks = crate::made::blocks((0..3).map(|block| (at(block), 528)));
        let rules = |left: u64, right: u64, first: u64, last: u64| {
            let mut made = crate::made::FakeHeap::of(&[(HEAP, 4096)]);
            made.put(at(0) + LINKS[0], &[at(left), at(right), first, last]);
            let mut told = Vec::new();
            owned(&made.copy(), &blocks, at(0), &of, |_| false, |block, rule| told.push((block, rule)));
            told
        };
        assert_eq!(rules(1, 1, 31, 33), [(1, DataRule::outside(32, 3))]);
        assert_eq!(rules(1, 1, 32, 31), [(1, DataRule::outside(33, 0))]);
        assert_eq!(rules(1, 2, 60, 4), [(1, DataRule::within(0, 61)), (2, DataRule::from(6))]);
        assert_eq!([rules(1, 1, 64, 3), rules(1, 1, 9, 3), rules(1, 2, 0, 1 << 40)], [vec![], vec![], vec![]]);
    }
}
