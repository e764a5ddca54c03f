//! Blocks that nothing proves a type of: what they contain. In: blocks without a kind. Out: kinds that are no types.
//!
//! Small blocks of one size that have pointers are a shape: for each word, whether it is mostly a pointer to a block.

use std::collections::BTreeMap;

use super::content::{TEXT, text};
use super::heap::{TypedBlocks, WordSlice};
use super::table::Kinds;

/// The largest block that is shown word by word.
const SMALL: u64 = 128;
/// The bytes of a block that are looked at.
const MOST: usize = 4096;

/// What a block contains.
enum Found {
    Zeroes,
    Text,
    /// Nearly all words that are not zero.
    Pointers,
    /// Some words.
    SomePointers,
    Other,
}

/// Gives the rest of the blocks a kind.
pub fn mark(heap: &TypedBlocks, kinds: &mut Kinds) {
    let names = ["zeroes", TEXT, "pointer array", "pointers and other data", "data without pointers"]
        .map(|name| kinds.named(name, false));
    let mut small: BTreeMap<u64, (Shape, Vec<u32>)> = BTreeMap::new();
    for (index, block) in heap.blocks.iter() {
        if kinds.has(index) {
            continue;
        }
        let bytes = heap.words(index).0;
        let kind = match found(heap, bytes) {
            Found::Zeroes => 0,
            Found::Text => 1,
            Found::Pointers if block.bytes > 64 => 2,
            Found::Pointers | Found::SomePointers if block.bytes <= SMALL => {
                let (shape, all) = small.entry(block.bytes).or_default();
                shape.add(heap, WordSlice(bytes));
                all.push(index);
                continue;
            }
            Found::Pointers => 2,
            Found::SomePointers => 3,
            Found::Other => 4,
        };
        kinds.set(index, names[kind]);
    }
    for (bytes, (shape, all)) in small {
        let kind = kinds.named(&format!("struct of {bytes} B {{{}}}", shape.show()), false);
        all.into_iter().for_each(|block| kinds.set(block, kind));
    }
}

fn found(heap: &TypedBlocks, bytes: &[u8]) -> Found {
    let looked = &bytes[..bytes.len().min(MOST)];
    if text(looked).is_some() {
        return Found::Text;
    }
    let words = WordSlice(looked);
    let (mut filled, mut pointers) = (0, 0);
    for word in (0..words.len()).filter_map(|at| words.get(at)).filter(|word| *word != 0) {
        filled += 1;
        pointers += usize::from(heap.blocks.find(word).is_some());
    }
    match (filled, pointers) {
        (0, _) => Found::Zeroes,
        (_, 0) => Found::Other,
        (filled, pointers) if pointers * 8 >= filled * 7 => Found::Pointers,
        _ => Found::SomePointers,
    }
}

/// What the words of blocks of one size are.
#[derive(Default)]
struct Shape {
    blocks: u32,
    /// For each word: pointers to blocks, zeroes.
    words: Vec<[u32; 2]>,
}

impl Shape {
    fn add(&mut self, heap: &TypedBlocks, words: WordSlice) {
        self.blocks += 1;
        self.words.resize(self.words.len().max(words.len()), [0; 2]);
        for (at, counts) in self.words.iter_mut().enumerate() {
            let Some(word) = words.get(at) else { continue };
            counts[0] += u32::from(heap.blocks.find(word).is_some());
            counts[1] += u32::from(word == 0);
        }
    }

    fn show(&self) -> String {
        let most = self.blocks / 10 * 9;
        let word = |[pointers, zeroes]: &[u32; 2]| match (*pointers, *zeroes) {
            (pointers, _) if pointers > most => "ptr",
            (pointers, zeroes) if pointers > self.blocks / 10 && pointers + zeroes > most => "ptr?",
            (_, zeroes) if zeroes > most => "0",
            _ => ".",
        };
        self.words.iter().map(word).collect::<Vec<_>>().join(" ")
    }
}
