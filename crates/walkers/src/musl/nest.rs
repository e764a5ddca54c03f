//! Finds which groups lie in a slot of another group: such a slot is not a block of the program.

use super::group::MuslGroup;
use super::release::UNIT;

/// How groups lie in one another.
#[derive(Debug, Default)]
pub struct Nested {
    /// The groups in the order of their addresses.
    pub groups: Vec<MuslGroup>,
    /// For each group, the slots that have a group in them.
    pub slots: Vec<u32>,
    /// For each group, whether it lies in memory that the loader gave to musl.
    pub given: Vec<bool>,
    /// Groups that have no mapping and lie in no slot, or overlap another group.
    pub breaks: u64,
    /// The bytes of these groups.
    pub skipped: u64,
}

/// Sorts the groups by address and finds how they lie in one another.
pub fn nest(mut groups: Vec<MuslGroup>) -> Nested {
    groups.sort_unstable_by_key(|group| (group.from, std::cmp::Reverse(group.to())));
    let mut nested = Nested::default();
    // The groups that contain the present address, the innermost last.
    let mut around: Vec<usize> = Vec::new();
    for group in groups {
        while around.last().is_some_and(|outer| nested.groups[*outer].to() <= group.from) {
            around.pop();
        }
        let (whole, given) = match around.last() {
            None => (group.mapped > 0 || !group.freeable, !group.freeable),
            Some(outer) => {
                let slot = place(&nested.groups[*outer], &group);
                nested.slots[*outer] |= slot.unwrap_or(0);
                (slot.is_some(), nested.given[*outer])
            }
        };
        if !whole {
            nested.breaks += 1;
            nested.skipped = nested.skipped.saturating_add(group.count * group.stride);
            continue;
        }
        around.push(nested.groups.len());
        nested.groups.push(group);
        nested.slots.push(0);
        nested.given.push(given);
    }
    nested
}

/// The bit of the slot that has a group in it.
fn place(outer: &MuslGroup, group: &MuslGroup) -> Option<u32> {
    let index = group.from.checked_sub(outer.from + UNIT)? / outer.stride;
    let bit = 1_u32.checked_shl(index as u32).filter(|bit| index < outer.count && outer.free & bit == 0)?;
    let is_at_start = group.from == outer.slot(index);
    (group.mapped == 0 && group.freeable && is_at_start && group.to() <= outer.slot(index + 1)).then_some(bit)
}
