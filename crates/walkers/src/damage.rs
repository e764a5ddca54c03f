//! Heaps of tests that are damaged at random: no damage may be taken for a right figure.

use proptest::prelude::*;

use crate::fake::FakeMemory;
use crate::{CountCheck, Memory, Walk, Walker};

/// Damage: which of the written words, by what kind of value, at which of its bytes.
pub type Damage = Vec<(prop::sample::Index, u8, u64)>;

/// Draws damage of one to twelve words.
pub fn damage() -> impl Strategy<Value = Damage> {
    prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8, any::<u64>()), 1..12)
}

/// Damages a heap and walks it. It may be refused; but if its figures are shown, they are right, or a warning is with them.
pub fn walk_damaged(walker: &Walker, mut fake: FakeMemory, damage: Damage) {
    let whole = (walker.walk)(&fake).remove(0).expect("a walk");
    let written = fake.written();
    for (which, kind, value) in damage {
        let at = *which.get(&written);
        let word = fake.word(at).expect("it was written");
        let word = match kind {
            0 => word ^ 1 << (value % 64),
            1 => value,
            2 => fake.word(*which.get(&written[..written.len() / 2])).unwrap_or(value),
            _ => word.wrapping_add(value % 4096).wrapping_sub(2048),
        };
        fake.put(at, &[word]);
    }
    let fake = fake.done();
    let Some(Ok(walk)) = (walker.walk)(&fake).pop() else { return };
    let taken = |walk: &Walk| walk.live + walk.cached;
    let right = taken(&walk).abs_diff(taken(&whole)) <= taken(&whole) / 50;
    let agree = |(now, before): (&CountCheck, &CountCheck)| now.wanted == now.found || now == before;
    let counted = walk.checks.len() == whole.checks.len() && walk.checks.iter().zip(&whole.checks).all(agree);
    assert!(right || walk.breaks > 0 || !counted, "{} became {} without a warning", taken(&whole), taken(&walk));
}
