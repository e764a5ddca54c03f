//! Walks the heap of musl's malloc since 1.2.1 (mallocng). Its context is verified by a secret number, its groups by their heads.

mod batch;
mod context;
mod fill;
mod group;
mod head;
mod nest;
mod release;
#[cfg(test)]
mod tests;

use context::Context;
use release::{CLASSES, LARGE, UNIT};

use crate::known::AllocatorMark;
use crate::walk::empty;
use crate::{CountCheck, Memory, Unknown, Walk, Walker};

/// Its name in reports.
const NAME: &str = "musl's malloc";

/// `live` counts whole slots: no other block can use the rest of a slot.
pub const WALKER: Walker = Walker {
    name: NAME,
    about: "musl 1.2.1 to 1.2.6, as a library or linked in, with symbols or stripped",
    walk: |memory| walk(memory).into_iter().collect(),
    by_copy: None,
};

/// How it is recognised if it was not walked.
pub(super) const KNOWN: AllocatorMark = AllocatorMark {
    name: NAME,
    libraries: &["ld-musl"],
    // This text is from musl's table of error messages, because its malloc has no text.
    text: Some(b"noitamrofni rorre oN"),
    is_below_others: false,
};

fn walk(memory: &dyn Memory) -> Option<Result<Walk, Unknown>> {
    let contexts = context::find(memory);
    let first = contexts.first()?;
    let mut walk = empty(memory, WALKER.name, first.release.name);
    for context in &contexts {
        if let Err(reason) = take_apart(memory, context, &mut walk) {
            return Some(Err(Unknown { allocator: WALKER.name, reason }));
        }
    }
    Some(Ok(walk))
}

fn take_apart(memory: &dyn Memory, context: &Context, walk: &mut Walk) -> Result<(), String> {
    let lost = || "its context could not be read, or has another area of metas by now".to_string();
    // Reads the masks first: this is so fast that few blocks change meanwhile. The second reading shows what has changed.
    let free = context.counts(memory).ok_or_else(lost)?.free;
    let groups = group::read(memory, context, free);
    let counts = context.counts(memory).ok_or_else(lost)?;
    let again = group::read(memory, context, 0);
    walk.moved = walk.moved.saturating_add(group::moved(&groups.all, &again.all));
    walk.breaks += groups.breaks;

    // The counts of the classes include neither memory from the loader nor large blocks.
    let counted = groups.all.iter().filter(|group| group.freeable && group.class != LARGE);
    let slots = |of: &dyn Fn(usize, u64) -> u64| {
        let sum = |sum: u64, more: u64| sum.saturating_add(more);
        let wanted = counts.slots.iter().enumerate().map(|(class, count)| of(class, *count)).fold(0, sum);
        let found = counted.clone().map(|group| of(group.class.into(), group.count)).fold(0, sum);
        (wanted, found)
    };
    for (what, (wanted, found)) in [
        ("slots of groups", slots(&|_, count| count)),
        ("bytes of slots", slots(&|class, count| (CLASSES[class] * UNIT).saturating_mul(count))),
        ("metas", (counts.used, groups.all.len() as u64 + groups.idle)),
    ] {
        walk.checks.push(CountCheck { what: what.into(), wanted, found, tolerance: wanted / 50 });
    }
    fill::fill(memory, context, &nest::nest(groups.all), walk);
    Ok(())
}
