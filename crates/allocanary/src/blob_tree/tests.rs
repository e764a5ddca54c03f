//! Tests of trees against Dolt's: roots, numbers of nodes, any split of the reader, round trips, and every error.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use proptest::prelude::*;

use super::*;
use allocanary_testing::fuzz::holds;

/// Size, nodes written and root of Dolt's trees for the input whose byte `i` is `i mod 256`.
const DOLTS: [(u64, u64, &str); 10] = [
    (1, 1, "lsl61r0q8r8rpt2me99rldtplq3q20o9"),
    (1000, 1, "al9b1uhvinu9460vfldsbmveaphquc1h"),
    (3999, 1, "mfs5eveps8mdgrqq5ve20s8h4pjenbh8"),
    (4000, 1, "ofoe2vlrt4opjncd5cngd94mkae6077b"),
    (4001, 3, "11l67dleo1ifh0ulc350b0lgce03bubl"),
    (8000, 3, "6g53q0ga6f4hikn5m7vr99j2md9utq7i"),
    (10_000, 4, "vag2g6m8h2cc8rdvbmuatji1lgqv5qb5"),
    (100_000, 26, "2b1g951j1d143nvonnns3vh7hhahv2qi"),
    (800_000, 203, "k1mp3qk9ukjtrtdmb4eb4dgn9svctv3g"),
    (1_000_000, 253, "96uslk8i5ld870bn2tpjkcmn9cg3jm7f"),
];

/// The input from byte `at` on.
struct Counted(u64);

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        for byte in &mut *buffer {
            *byte = self.0 as u8;
            self.0 += 1;
        }
        Ok(buffer.len())
    }
}

/// Receives the value and compares it with the input.
impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wrong = bytes.iter().position(|byte| {
            self.0 += 1;
            *byte != (self.0 - 1) as u8
        });
        assert_eq!(wrong, None, "before offset {}", self.0);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Nodes by their hashes, and the number of written nodes.
#[derive(Default)]
struct Store {
    nodes: HashMap<Hash, Vec<u8>>,
    written: u64,
}

impl Store {
    fn put(&mut self, hash: &Hash, message: &[u8]) -> Result<(), String> {
        self.nodes.entry(*hash).or_insert_with(|| message.to_vec());
        self.written += 1;
        Ok(())
    }

    fn read(&self, root: &Hash, out: &mut impl Write) -> Result<u64, ReadError> {
        read(root, |hash| self.nodes.get(hash), out)
    }
}

fn build(tree: &mut BlobTree, reader: impl Read, size: u64) -> Result<(Hash, Store), BuildError<String>> {
    let mut store = Store::default();
    let root = tree.build(reader, size, |hash, message| store.put(hash, message))?;
    Ok((root, store))
}

#[test]
fn trees_are_dolts_whichever_builder_makes_them() {
    for mut tree in [BlobTree::new(), BlobTree::with_buffer_per_node()] {
        let most = if cfg!(miri) { 1000 } else { u64::MAX };
        let dolts = DOLTS.into_iter().filter(|(size, ..)| *size <= most);
        for (size, written, root) in dolts.clone().chain(dolts.rev()) {
            let (found, store) = build(&mut tree, Counted(0).take(size), size).unwrap();
            assert_eq!((found.to_string().as_str(), store.written), (root, written), "{size} bytes");
            assert_eq!(store.read(&found, &mut Counted(0)).unwrap(), size);
        }
    }
}

#[test]
fn a_value_of_nothing_has_no_node() {
    let (root, store) = build(&mut BlobTree::new(), io::empty(), 0).unwrap();
    assert_eq!((root, store.written), (Hash::ZERO, 0));
    assert_eq!(store.read(&root, &mut Counted(0)).unwrap(), 0);
    let more = build(&mut BlobTree::new(), io::repeat(1), 0).err().unwrap();
    assert_eq!(more.to_string(), "the reader goes on at offset 0: wanted 0 bytes, found more");
}

#[test]
#[cfg_attr(miri, ignore = "SHA-512 of so much takes minutes")]
fn multiples_of_a_full_node_have_dolts_nodes_of_nothing() {
    let nothing: Hash = "7irokiffuc5tjqdlilejnjsehcjku7k7".parse().unwrap();
    for (size, written, named) in [(799_999, 201, false), (1_600_000, 404, true), (160_000_000, 40_204, true)] {
        let (root, store) = build(&mut BlobTree::new(), Counted(0).take(size), size).unwrap();
        assert_eq!((store.written, store.nodes.contains_key(&nothing)), (written, named), "{size} bytes");
        assert_eq!(store.read(&root, &mut Counted(0)).unwrap(), size);
        let Ok(Node::Inner(root)) = Node::parse(&store.nodes[&root]) else { panic!("a root above leaves") };
        assert_eq!((usize::from(root.level()), root.leaves()), (levels(size), size.div_ceil(LEAF_BYTES as u64)));
        assert!(size != 160_000_000 || root.children().count() == 1);
    }
}

/// Returns `steps` bytes at a time, with an interruption between.
struct Steps<'a> {
    data: &'a [u8],
    steps: &'a [usize],
    at: usize,
}

impl Read for Steps<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.at += 1;
        if self.at.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let step = self.steps[self.at % self.steps.len()].min(buffer.len());
        self.data.read(&mut buffer[..step])
    }
}

/// Sizes around those of full leaves and nodes, and random ones.
fn sizes() -> BoxedStrategy<usize> {
    if cfg!(miri) {
        return (1_usize..9000).boxed();
    }
    let around =
        |unit: usize, most: usize| (1..=most, 0usize..5).prop_map(move |(n, off)| (n * unit + off).saturating_sub(2));
    prop_oneof![3 => around(4000, 750), 1 => around(800_000, 3), 2 => 0usize..3_000_000, 2 => 0usize..9000].boxed()
}

#[test]
fn fuzz_any_split_makes_the_same_tree_and_it_reads_back() {
    let steps = prop::collection::vec(prop_oneof![1_usize..100, 1_usize..9000], 1..20);
    holds(48, 1, (sizes(), any::<u64>(), steps), |(size, seed, steps)| {
        let mut rng = allocanary_sys::rng::Rng::new(seed);
        let data: Vec<u8> = (0..size).map(|_| rng.next() as u8).collect();
        let mut tree = BlobTree::new();
        let (root, store) = build(&mut tree, data.as_slice(), size as u64).unwrap();
        let mut back = Vec::new();
        assert_eq!(store.read(&root, &mut back).unwrap(), size as u64);
        assert!(back == data);
        let (split, in_steps) = build(&mut tree, Steps { data: &data, steps: &steps, at: 0 }, size as u64).unwrap();
        assert_eq!((split, in_steps.written), (root, store.written));
    });
}

/// After its bytes it fails, or returns too large a count.
struct Broken {
    left: usize,
    lies: bool,
}

impl Read for Broken {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.left);
        self.left -= count;
        match (count, self.lies) {
            (0, false) => Err(io::Error::other("the cable is out")),
            (0, true) => Ok(buffer.len() + 1),
            _ => Ok(count),
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "SHA-512 of so much takes minutes")]
fn errors_name_offset_wanted_and_found_and_the_builder_goes_on() {
    let mut tree = BlobTree::new();
    let mut said = |reader: &mut dyn Read| {
        let error = build(&mut tree, reader, 100_000).err().unwrap().to_string();
        // The next value contains nothing of the failed one.
        let (root, _) = build(&mut tree, Counted(0).take(10_000), 10_000).unwrap();
        assert_eq!(root.to_string(), "vag2g6m8h2cc8rdvbmuatji1lgqv5qb5");
        error
    };
    let short = "the reader ended at offset 9001: wanted 100000 bytes, found 9001";
    assert_eq!(said(&mut Counted(0).take(9001)), short);
    assert_eq!(said(&mut Counted(0)), "the reader goes on at offset 100000: wanted 100000 bytes, found more");
    let failed = "the reader failed at offset 8000: wanted 100000 bytes, found 8000 and then: the cable is out";
    assert_eq!(said(&mut Broken { left: 8000, lies: false }), failed);
    let lied = "the reader failed at offset 8000: wanted 100000 bytes, found 8000 and then: it claims 4001 bytes of 4000 asked for";
    assert_eq!(said(&mut Broken { left: 8000, lies: true }), lied);

    let mut nodes = 0;
    let full = tree.build(Counted(0).take(100_000), 100_000, |_, _| {
        nodes += 1;
        if nodes == 3 { Err("the disk is full") } else { Ok(()) }
    });
    let full = full.unwrap_err().to_string();
    let (_, after) = full.split_once(", which").unwrap();
    assert_eq!(after, " ends at offset 12000 of 100000 bytes: the disk is full");
    assert!(build(&mut tree, Counted(0).take(800_000), 800_000).is_ok_and(|(_, store)| store.written == 203));
}

#[test]
#[cfg_attr(miri, ignore = "SHA-512 of so much takes minutes")]
fn a_damaged_store_is_found_out() {
    let (root, mut store) = build(&mut BlobTree::new(), Counted(0).take(10_000), 10_000).unwrap();
    let leaf = Hash::of(&store.nodes.values().find(|message| message.len() == 4044).unwrap().clone());
    let message = store.nodes.remove(&leaf).unwrap();
    let missing = store.read(&root, &mut io::sink()).unwrap_err().to_string();
    assert_eq!(missing, format!("node {leaf}: wanted its message, found none in the store"));

    let mut changed = message.clone();
    changed[2000] ^= 1;
    store.nodes.insert(leaf, changed.clone());
    let said = store.read(&root, &mut io::sink()).unwrap_err().to_string();
    let found = Hash::of(&changed);
    assert_eq!(said, format!("node {leaf}: found a message of the hash {found}: the store's bytes have changed"));

    // A root that states that its only child, a leaf, is above a leaf.
    store.nodes.insert(leaf, message);
    let mut above = vec![0; 1000];
    let length = super::message::inner(&mut above, 2, &leaf.0, &[1]);
    let root = Hash::of(&above[..length]);
    store.nodes.insert(root, above[..length].to_vec());
    let said = store.read(&root, &mut io::sink()).unwrap_err().to_string();
    assert_eq!(said, format!("node {leaf}: wanted level 1 with 1 leaves, found level 0 with 1"));

    let no_room: &mut [u8] = &mut [0; 100];
    let said = store.read(&leaf, &mut { no_room }).unwrap_err().to_string();
    assert!(said.starts_with("the value read back could not be written at offset 0: "), "{said}");
}
