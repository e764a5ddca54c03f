//! Adds up the kinds, leaks and holders of one reading to the rows of [`Contents`].

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

use allocanary_heap::Memory;

use crate::contents::{Alike, Holder, InnerBlocks, KindRow, Leaked, Lost, Retained};
use crate::dominators::{Retains, Tree};
use crate::holders::{HolderKey, Holders, LIKENESS};
use crate::kinds::{Kinds, TypedBlocks};
use crate::leaks::Leak;
use crate::modules::Open;
use crate::paths::Paths;
use crate::profile::ProcessProfile;
use crate::python::PythonVariable;
use crate::roots::KernelHolder;
use crate::texts;
use crate::threads::ThreadSnapshot;
use crate::wanted::ContentsRequest;

/// The most rows of each table. All others become one row.
const ROWS: usize = 200;
/// The most leaked blocks whose addresses are returned.
const ADDRESSES: usize = 1 << 20;
/// `TREES`: the number of holders with a tree. `PART`: a line of a tree has at least 1 / `PART` of the holder's bytes. `LINES`: the most
/// lines of a tree.
const TREES: usize = 30;
const PART: u64 = 50;
const LINES: usize = 24;

/// Sums of blocks and bytes by key, the largest first.
fn sums<K: Hash + Eq + Ord + Copy>(all: impl Iterator<Item = (K, u64)>) -> Vec<(K, u64, u64)> {
    let mut sums: HashMap<K, (u64, u64)> = HashMap::new();
    for (key, bytes) in all {
        let sum = sums.entry(key).or_default();
        sum.0 += 1;
        sum.1 += bytes;
    }
    let mut sums: Vec<(K, u64, u64)> = sums.into_iter().map(|(key, (blocks, bytes))| (key, blocks, bytes)).collect();
    sums.sort_by_key(|(key, _, bytes)| (Reverse(*bytes), *key));
    sums
}

/// The rows of the kinds.
pub fn kinds(heap: &TypedBlocks, kinds: &Kinds) -> Vec<KindRow> {
    let sums = sums(heap.blocks.iter().map(|(index, block)| (kinds.number(index), block.bytes)));
    let row = |(number, blocks, bytes): (u32, u64, u64)| {
        let kind = kinds.kind(number);
        KindRow { kind: kind.name.clone(), likely: kind.likely, blocks, bytes, within: None }
    };
    first(sums.into_iter().map(row).collect())
}

/// The first rows, and one row for all others.
pub fn first(mut rows: Vec<KindRow>) -> Vec<KindRow> {
    if rows.len() > ROWS {
        let rest = rows.split_off(ROWS);
        let (blocks, bytes) = rest.iter().fold((0, 0), |sum, one| (sum.0 + one.blocks, sum.1 + one.bytes));
        rows.push(KindRow { kind: format!("of {} other kinds", rest.len()), blocks, bytes, ..KindRow::default() });
    }
    rows
}

/// The sums and rows of the leaks.
pub fn leaked(
    heap: &TypedBlocks,
    kinds: &Kinds,
    leaks: &[Leak],
    profile: &ProcessProfile,
    wanted: &ContentsRequest,
) -> Leaked {
    let bytes = |leak: &Leak| heap.blocks.get(leak.block).bytes;
    let direct = || leaks.iter().filter(|leak| leak.direct);
    let key = |leak: &Leak| (kinds.number(leak.block), bytes(leak));
    let of_direct: HashMap<(u32, u64), u64> =
        sums(direct().map(|leak| (key(leak), 0))).into_iter().map(|(key, blocks, _)| (key, blocks)).collect();
    let sums = sums(leaks.iter().map(|leak| (key(leak), bytes(leak))));
    let mut first: HashMap<(u32, u64), u32> = HashMap::new();
    for leak in leaks {
        first.entry(key(leak)).or_insert(leak.block);
    }
    let mut sampled: HashMap<(u32, u64), Vec<u64>> = HashMap::new();
    for address in &profile.blocks {
        let leak = heap.blocks.find(*address).map(|block| leaks.binary_search_by_key(&block, |leak| leak.block));
        if let Some(Ok(at)) = leak {
            sampled.entry(key(&leaks[at])).or_default().push(*address);
        }
    }
    let row = |(key, blocks, bytes): &((u32, u64), u64, u64)| Lost {
        kind: kinds.kind(key.0).name.clone(),
        each: key.1,
        first: first.get(key).map_or(0, |block| heap.blocks.get(*block).at),
        text: first.get(key).filter(|_| wanted.texts).and_then(|block| texts::shown(heap, kinds, *block)),
        blocks: *blocks,
        direct: of_direct.get(key).copied().unwrap_or(0),
        bytes: *bytes,
        sampled: sampled.remove(key).unwrap_or_default(),
        ..Lost::default()
    };
    let addresses = leaks.iter().map(|leak| heap.blocks.get(leak.block).at);
    Leaked {
        blocks: leaks.len() as u64,
        bytes: leaks.iter().map(bytes).sum(),
        direct_blocks: direct().count() as u64,
        direct_bytes: direct().map(bytes).sum(),
        rows: sums.iter().take(ROWS).map(row).collect(),
        sampled: profile.is_there.then_some(0),
        addresses: addresses.take(if wanted.addresses { ADDRESSES } else { 0 }).collect(),
        ..Leaked::default()
    }
}

/// The lists from which holders get their names.
pub struct HolderNames<'a> {
    /// The threads.
    pub threads: &'a [ThreadSnapshot],
    /// The variables of Python's modules.
    pub variables: &'a [PythonVariable],
}

/// The holders with their names.
pub fn holders(
    heap: &TypedBlocks,
    kinds: &Kinds,
    found: &Holders,
    paths: &Paths,
    names: &HolderNames,
    open: &Open,
) -> Vec<Holder> {
    let mut order: Vec<u32> = (0..found.all.len() as u32).filter(|at| found.all[*at as usize].1.blocks > 0).collect();
    order.sort_by_key(|at| (Reverse(found.all[*at as usize].1.bytes), *at));
    order.truncate(ROWS);
    let trees = paths.trees(&order[..order.len().min(TREES)], PART, LINES);
    let mut trees = trees.into_iter();
    let inside = |line: crate::paths::TreeRow| InnerBlocks {
        depth: line.depth,
        offset: line.offset,
        kind: kinds.kind(line.kind).name.clone(),
        blocks: line.blocks,
        bytes: line.bytes,
        with_all: line.with_all,
    };
    let one = |at: u32| {
        let (key, sum) = found.all[at as usize];
        Holder {
            name: name(heap, key, names, open),
            blocks: sum.blocks,
            bytes: sum.bytes,
            alone_blocks: sum.alone_blocks,
            alone_bytes: sum.alone_bytes,
            inside: trees.next().unwrap_or_default().into_iter().map(inside).collect(),
        }
    };
    order.into_iter().map(one).collect()
}

/// Blocks to which only data leads that looks like a pointer.
pub fn alike(found: &Holders) -> Alike {
    let of = found.all.iter().find(|(key, _)| *key == HolderKey::Likeness);
    of.map_or(Alike::default(), |(_, sum)| Alike { blocks: sum.blocks, bytes: sum.bytes })
}

/// The rows of the blocks that retain most.
pub fn retained(
    heap: &TypedBlocks,
    kinds: &Kinds,
    found: &Holders,
    paths: &Paths,
    tree: &Tree,
    names: &HolderNames,
    open: &Open,
) -> Vec<Retained> {
    let one = |one: Retains| Retained {
        depth: one.depth,
        kind: kinds.kind(kinds.number(one.block)).name.clone(),
        at: heap.blocks.get(one.block).at,
        holder: name(heap, found.all[paths.holder(one.block) as usize].0, names, open),
        blocks: one.blocks,
        bytes: one.bytes,
    };
    let kind = |block| kinds.number(block);
    tree.largest(heap, &kind).into_iter().map(one).collect()
}

/// The name of a holder.
pub fn name(heap: &TypedBlocks, key: HolderKey, names: &HolderNames, open: &Open) -> String {
    let thread = |index: u32| match names.threads.get(index as usize) {
        Some(thread) if !thread.name.is_empty() => format!("thread {} ({})", thread.name, thread.tid),
        Some(thread) => format!("thread {}", thread.tid),
        None => "a thread".into(),
    };
    match key {
        HolderKey::Python(index) => names.variables.get(index as usize).map(|one| one.name.clone()).unwrap_or_default(),
        HolderKey::Variable(at) => heap.modules.variable(at, open).unwrap_or_else(|| format!("memory at {at:#x}")),
        HolderKey::ThreadLocal(index) => format!("variables of {}", thread(index)),
        HolderKey::Stack(index) => format!("stack of {}", thread(index)),
        HolderKey::Registers(index) => format!("registers of {}", thread(index)),
        HolderKey::Kernel(KernelHolder::Epoll) => "data of epoll, in the kernel".into(),
        HolderKey::Kernel(KernelHolder::Timer) => "values of timers, in the kernel".into(),
        HolderKey::Mapping(index) => match heap.copy.mappings().get(index as usize) {
            Some(mapping) if !mapping.name.is_empty() => format!("memory of {}", mapping.name),
            Some(mapping) => format!("other memory at {:#x}", mapping.from),
            None => "other memory".into(),
        },
        HolderKey::Likeness => LIKENESS.into(),
        HolderKey::Unsure => "moving: reached in another reading only".into(),
    }
}
