//! Objects of CPython, and what only they have. In: the types. Out: kinds.

use super::{Heap, Kinds, Words};
use crate::python::Types;

/// Where a dict has its keys and its values, and a list its items.
const KEYS: u64 = 32;
const VALUES: u64 = 40;
const ITEMS: u64 = 24;

/// Gives objects their types, and what dicts and lists have their names.
pub fn mark(heap: &Heap, types: &Types, kinds: &mut Kinds) {
    let [keys, values, items] =
        ["py dict keys", "py dict values", "py list items"].map(|name| kinds.named(name, false));
    heap.each_block(|index, block, bytes| {
        let Some((at, of)) = types.object_in(heap.copy, block, bytes) else { return };
        let kind = kinds.named(&format!("py {}", of.name), false);
        kinds.set(index, kind);
        let fields: &[(u64, u32)] = match of.name.as_str() {
            "dict" => &[(KEYS, keys), (VALUES, values)],
            "list" => &[(ITEMS, items)],
            _ => &[],
        };
        for (field, kind) in fields {
            let owned = Words(bytes).get(((at + field) / 8) as usize).and_then(|word| heap.blocks.at(word));
            if let Some(owned) = owned.filter(|owned| types.object(heap.copy, heap.blocks.get(*owned)).is_none()) {
                kinds.set(owned, *kind);
            }
        }
    });
}
