//! Objects of CPython, and what only they have. In: the types. Out: kinds.

use super::heap::{TypedBlocks, WordSlice};
use super::table::Kinds;
use crate::python::types::Types;

/// Where a dict has its keys and its values, and a list its items.
const KEYS: u64 = 32;
const VALUES: u64 = 40;
const ITEMS: u64 = 24;
/// How far behind its block's beginning an object is that has two words before those of the collector. One of them points to the object's
/// variables: the first one up to 3.11, and the second one, less by one, in 3.12.
const BEFORE: u64 = 32;

/// Gives objects their types, and what dicts and lists have their names.
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
