//! Finds texts that occur more than once, and what their copies cost. Returns the texts themselves only on request, because they can be
//! secrets.

use std::cmp::Reverse;

use crate::contents::{Copies, Text};
use crate::kinds::{Kinds, TypedBlocks, content};

/// The most texts that are returned, and the most characters of each.
const MOST: usize = 50;
const LONGEST: usize = 80;

/// Texts that occur more than once: their sums, and if `shows`, those that cost most.
pub fn copies(heap: &TypedBlocks, kinds: &Kinds, shows: bool) -> (Copies, Option<Vec<Text>>) {
    let mut all: Vec<(u64, u32)> = Vec::new();
    for (index, _) in heap.blocks.iter() {
        if let Some(text) = text(heap, kinds, index) {
            let mut hash = text.len() as u64;
            text.iter()
                .for_each(|byte| hash = (hash.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            all.push((hash, index));
        }
    }
    all.sort_unstable();
    let mut copies = Copies::default();
    let mut most: Vec<(u64, &[(u64, u32)])> = Vec::new();
    for equal in all.chunk_by(|one, other| one.0 == other.0).filter(|equal| equal.len() > 1) {
        let again = equal[1..].iter().map(|(_, block)| heap.blocks.get(*block).bytes).sum();
        copies.blocks += equal.len() as u64 - 1;
        copies.bytes += again;
        if shows {
            most.push((again, equal));
        }
    }
    most.sort_by_key(|(again, equal)| (Reverse(*again), equal[0].1));
    let one = |(again, equal): &(u64, &[(u64, u32)])| Text {
        text: shown(heap, kinds, equal[0].1).unwrap_or_default(),
        blocks: equal.len() as u64,
        bytes: equal.iter().map(|(_, block)| heap.blocks.get(*block).bytes).sum(),
        again: *again,
    };
    (copies, shows.then(|| most.iter().take(MOST).map(one).collect()))
}

/// The beginning of the text in a block.
pub fn shown(heap: &TypedBlocks, kinds: &Kinds, block: u32) -> Option<String> {
    let text = String::from_utf8_lossy(text(heap, kinds, block)?).into_owned();
    let short: String = text.chars().take(LONGEST).collect();
    Some(if short.len() < text.len() { short + "…" } else { short })
}

/// The text in a block. A `str` or `bytes` of CPython has a length field.
fn text<'a>(heap: &'a TypedBlocks, kinds: &Kinds, block: u32) -> Option<&'a [u8]> {
    /// The word with the length. The text of ASCII characters is behind 40 bytes from 3.12 on, and behind 48 before.
    const LENGTH: usize = 2;
    let places: &[usize] = match kinds.kind(kinds.number(block)).name.as_str() {
        "py str" => &[40, 48],
        "py bytes" => &[32],
        name if name.starts_with("py ") => return None,
        _ => return content::text(heap.words(block).0),
    };
    let words = heap.words(block);
    let length = words.get(LENGTH)? as usize;
    let ends = |place: &usize| {
        let text = words.0.get(*place..place.checked_add(length)?)?;
        let ends = words.0.get(place + length) == Some(&0) && text.first() != Some(&0);
        (ends && length > 0 && content::is_text(text)).then_some(text)
    };
    places.iter().find_map(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{FakeHeap, blocks, globals};
    use crate::modules::ModuleList;

    #[test]
    fn equal_texts_cost_all_but_one_and_are_shown_only_if_asked() {
        const HEAP: u64 = 0x1_0000_0000;
        let mut made = FakeHeap::of(&[(0x10_0000, 4096), (HEAP, 4096)]);
        for at in 0..5 {
            made.write(HEAP + 32 * at, if at < 3 { b"the same text" } else { b"another_text_" });
        }
        made.write(HEAP + 160, b"only once here");
        let (blocks, copy, roots) = (blocks((0..6).map(|at| (HEAP + 32 * at, 24))), made.copy(), globals(0x10_0000));
        let (modules, open) = (ModuleList::default(), |_: &_| None);
        let heap = TypedBlocks {
            copy: &copy,
            blocks: &blocks,
            sample: None,
            modules: &modules,
            roots: &roots,
            languages: crate::languages::Languages::default(),
            open: &open,
        };
        let kinds = Kinds::of(&heap, None);
        assert_eq!(copies(&heap, &kinds, false), (Copies { blocks: 3, bytes: 72 }, None));
        let texts = copies(&heap, &kinds, true).1.unwrap();
        let all: Vec<(&str, u64, u64)> = texts.iter().map(|one| (one.text.as_str(), one.blocks, one.again)).collect();
        assert_eq!(all, [("the same text", 3, 48), ("another_text_", 2, 24)]);
        assert_eq!(shown(&heap, &kinds, 5).as_deref(), Some("only once here"));
    }
}
