//! Recognises objects of CPython, and the blocks that only they own.

use super::heap::{TypedBlocks, WordSlice};
use super::table::Kinds;
use crate::python::types::Types;

/// The offsets of a dict's keys and values, and of a list's items.
const KEYS: u64 = 32;
const VALUES: u64 = 40;
const ITEMS: u64 = 24;
/// The offset of an object in its block if two more words come before the collector's words. One of them points to the object's variables:
/// the first one up to 3.11. In 3.12 it is the second one, and the pointer is less by one.
const BEFORE: u64 = 32;

/// Gives objects the names of their types, and names the blocks that dicts and lists own.
pub fn mark(heap: &TypedBlocks, types: &Types, kinds: &mut Kinds) {
    let [keys, values, items, own] = ["py dict keys", "py dict values", "py list items", "py values of an object"]
        .map(|name| kinds.named(name, false));
    heap.each_block(|index, block, bytes| {
        let Some((at, of)) = types.object_in(heap.copy, block, bytes) else { return };
        let kind = kinds.named(&format!("py {}", of.name), false);
        kinds.set(index, kind);
        let fields: &[(u64, u32)] = match of.name.as_str() {
            "dict" => &[(KEYS, keys), (VALUES, values)],
            "list" => &[(ITEMS, items)],
            _ => &[],
        };
        let variables: &[usize] = if at == BEFORE { &[0, 1] } else { &[] };
        for place in variables {
            let word = WordSlice(bytes).get(*place).unwrap_or(0);
            if let Some(owned) = heap.blocks.find(word.wrapping_add(*place as u64)).filter(|owned| *owned != index)
                && types.object(heap.copy, heap.blocks.get(owned)).is_none()
            {
                kinds.set(owned, own);
            }
        }
        for (field, kind) in fields {
            let owned = WordSlice(bytes).get(((at + field) / 8) as usize).and_then(|word| heap.blocks.at(word));
            if let Some(owned) = owned.filter(|owned| types.object(heap.copy, heap.blocks.get(*owned)).is_none()) {
                kinds.set(owned, *kind);
            }
        }
    });
}
