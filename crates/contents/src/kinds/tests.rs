use proptest::prelude::*;

use crate::languages::Languages;
use crate::made::{FakeHeap, blocks, kinds, kinds_with};

const GLOBALS: u64 = 0x10_0000;
const HEAP: u64 = 0x1_0000_0000;

fn made() -> FakeHeap {
    FakeHeap::of(&[(GLOBALS, 4096), (HEAP, 1 << 16)])
}

/// Writes words and names the kinds of blocks of 64 bytes, as many.
fn of(count: u64, write: impl Fn(&mut FakeHeap)) -> Vec<String> {
    let mut made = made();
    write(&mut made);
    kinds(&made, &blocks((0..count).map(|at| (block(at), 64))), GLOBALS)
}

/// The address of a block.
fn block(at: u64) -> u64 {
    HEAP + 64 * at
}

#[test]
fn a_tree_proves_itself_by_its_parents_and_children() {
    let header = GLOBALS + 64;
    let found = of(3, |made| {
        made.put(header, &[0, block(0), block(1), block(2)]);
        made.put(block(0), &[1, header, block(1), block(2), 7]);
        made.put(block(1), &[0, block(0), 0, 0, 8]);
        made.put(block(2), &[0, block(0), 0, 0, 9]);
    });
    assert_eq!(found, ["std::map or std::set node"; 3]);
    let broken = of(2, |made| {
        made.put(block(0), &[1, header, block(1), 0, 7]);
        made.put(block(1), &[0, block(0), 0, 0, 8]);
    });
    assert_eq!(
        broken.iter().filter(|kind| kind.starts_with("std::map")).count(),
        1,
        "the first has no parent: {broken:?}"
    );
}

#[test]
fn a_parent_a_colour_and_a_key_are_no_string() {
    let header = GLOBALS + 64;
    // In libc++. The parent's first byte is zero, as the end of an empty text.
    let found = of(5, |made| {
        made.put(header, &[block(0)]);
        made.put(block(0), &[block(4), 0, header, 1, 60]);
        made.put(block(4), &[0, 0, block(0), 0, 50]);
    });
    assert_eq!([&found[0], &found[4]], ["std::map or std::set node"; 2]);
}

/// In words of C programs, and of interpreters, each of these shapes occurs.
#[test]
fn a_process_has_the_containers_of_its_languages_only() {
    let mut made = made();
    made.put(GLOBALS, &[block(0), 30, 60, 0]);
    made.write(block(0), b"thirty bytes of a text, indeed");
    made.put(GLOBALS + 64, &[block(1), block(1) + 16, block(1) + 64]);
    made.put(block(1), &[1, 2]);
    made.put(GLOBALS + 128, &[64, block(2), 30]);
    made.write(block(2), b"thirty bytes of a text of Rust");
    // A list of three.
    made.put(block(3), &[block(4), block(5)]);
    made.put(block(4), &[block(5), block(3)]);
    made.put(block(5), &[block(3), block(4)]);
    let all = blocks((0..6).map(|at| (block(at), 64)));
    let of = |cpp, rust| kinds_with(Languages { cpp, rust }, &made, &all, GLOBALS);
    let (text, data) = ("text".to_string(), "data without pointers".to_string());
    let plain = of(false, false);
    assert_eq!(plain[..3], [text.clone(), data.clone(), text.clone()]);
    assert!(plain[3..].iter().all(|kind| kind.starts_with("struct of 64 B")), "{plain:?}");
    assert_eq!(of(false, true)[..3], [text.clone(), data, "String data (Rust)".into()]);
    let cpp = of(true, false);
    assert_eq!(cpp[..3], ["std::string data".to_string(), "std::vector data".into(), text]);
    assert_eq!(cpp[3..], ["std::list node"; 3]);
}

#[test]
fn strings_and_vectors_are_proven_by_who_holds_them() {
    let found = of(4, |made| {
        made.put(GLOBALS, &[block(0), 30, 60, 0]);
        made.write(block(0), b"thirty bytes of a text, indeed");
        made.put(GLOBALS + 64, &[block(1), block(1) + 16, block(1) + 64]);
        made.put(block(1), &[1, 2]);
        // Of Rust: capacity, data, length.
        made.put(GLOBALS + 128, &[64, block(2), 20]);
        made.write(block(2), b"a text of Rust, 20 B");
        // The capacity is more than the block has.
        made.put(GLOBALS + 256, &[block(3), 30, 100, 0]);
    });
    assert_eq!(found, ["std::string data", "std::vector data", "String data (Rust)", "zeroes"]);
}

#[test]
fn a_hash_table_has_as_many_nodes_as_it_says() {
    let table = |nodes: u64| {
        of(4, move |made| {
            made.put(GLOBALS, &[block(0), 7, block(1), nodes, 0x3f80_0000]);
            made.put(block(0), &[block(1), 0, block(2)]);
            made.put(block(1), &[block(2), 5]);
            made.put(block(2), &[block(3), 6]);
        })
    };
    let node = "std::unordered_* node";
    assert_eq!(table(3), ["std::unordered_* buckets", node, node, node]);
    assert!(table(2).iter().chain(&table(4)).all(|kind| !kind.starts_with("std::")));
}

#[test]
fn a_table_of_rust_has_as_many_full_control_bytes() {
    let table = |items: u64| {
        of(1, move |made| {
            // Four buckets of 8 bytes, their control bytes, and the first 16 again: with fewer than 16 buckets the rest is empty.
            made.write(
                block(0) + 32,
                &[[0x11, 0xff, 0x22, 0xff], [0x11, 0xff, 0x22, 0xff], [0xff; 4], [0xff; 4], [0xff; 4]].concat(),
            );
            made.put(GLOBALS, &[block(0) + 32, 3, 1, items]);
        })
    };
    assert_eq!(table(2), ["hashbrown table, 8 B an entry (Rust)"]);
    assert!(!table(3)[0].starts_with("hashbrown"));
}

#[test]
fn a_deque_has_chunks_of_512_bytes() {
    let mut made = made();
    let (map, first, last) = (HEAP, HEAP + 64, HEAP + 64 + 512);
    made.put(GLOBALS, &[map, 8, first, first, first + 512, map + 24, last + 8, last, last + 512, map + 32]);
    made.put(map + 24, &[first, last]);
    let found = kinds(&made, &blocks([(map, 64), (first, 512), (last, 512)]), GLOBALS);
    assert_eq!(found, ["std::deque map", "std::deque chunk", "std::deque chunk"]);
}

#[test]
fn a_circle_of_two_pointers_is_likely_a_list() {
    let found = of(2, |made| {
        let header = GLOBALS + 64;
        made.put(header, &[block(0), block(1)]);
        made.put(block(0), &[block(1), header]);
        made.put(block(1), &[header, block(0)]);
    });
    assert_eq!(found, ["std::list node"; 2]);
}

proptest! {
    /// Whatever words there are, pointers among them: kinds are found, and nothing panics or hangs.
    #[test]
    fn any_words_have_kinds(words in prop::collection::vec((0..512_u64, 0..8_u8, any::<u64>()), 0..400)) {
        let mut made = made();
        for (at, kind, value) in words {
            let place = if at % 2 == 0 { GLOBALS + 8 * at } else { HEAP + 8 * at };
            let word = match kind {
                0 => value,
                1 => value % 256,
                2 => 0x3f80_0000,
                3 => GLOBALS + value % 4096,
                4 => (1 << (value % 64)) - 1,
                _ => HEAP + value % 4096 / (u64::from(kind) * 8) * (u64::from(kind) * 8),
            };
            made.put(place, &[word]);
        }
        let found = kinds(&made, &blocks((0..64).map(|at| (HEAP + 64 * at, 64 - at % 3 * 8))), GLOBALS);
        prop_assert!(found.iter().all(|kind| !kind.is_empty()));
    }
}
