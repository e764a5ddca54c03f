//! Describes blocks of unknown type by their content. These kinds are no types.
//!
//! Small blocks of the same size with pointers have one shape: for each word, whether it mostly points to a block.

use std::collections::BTreeMap;

use super::content::{TEXT, text};
use super::heap::{TypedBlocks, WordSlice};
use super::table::Kinds;

/// The largest block that is described word by word.
const SMALL: u64 = 128;
/// The most bytes of a block that are examined.
const MOST: usize = 4096;

/// What a block contains.
enum Found {
    Zeroes,
    Text,
    /// Nearly all words that are not zero are pointers.
    Pointers,
    /// Some words are pointers.
    SomePointers,
    Other,
}

/// Gives all other blocks a kind.
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

/// The words of all small blocks of one size.
#[derive(Default)]
struct Shape {
    blocks: u32,
    /// For each word, in how many blocks it is a pointer, and in how many it is zero.
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
