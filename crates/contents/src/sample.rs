//! Estimates the kinds in a heap that is larger than the copy limit, from a sample of its pages. The contents then have no holders and no
//! leaks.
//!
//! All blocks are listed. Only large blocks, and those that begin in every n-th page, are examined. A kind's share of the bytes of these
//! pages is its estimated share of all. The differences between pages show how wrong this may be (the ratio estimator of a cluster sample,
//! Cochran, Sampling Techniques, 9A.1).

pub mod part;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

use allocanary_heap::{Memory, PAGE};
use allocanary_text::units::Bytes;

use crate::blocks::Blocks;
use crate::contents::{Contents, KindRow, SampledPages};
use crate::copy;
use crate::count;
use crate::found::HeapGraph;
use crate::kinds::Kinds;
use crate::modules::{ModuleList, Open};
use crate::threads::ThreadSnapshot;
use crate::wanted::ContentsRequest;
use part::{LARGE, PART, PageSample};

/// This many standard errors around the estimate contain the true value in 95 of 100 samples.
const WIDE: f64 = 1.96;

/// The contents of a process's memory. A complete copy would have `bytes` bytes.
pub fn contents(
    memory: &dyn Memory,
    threads: &[ThreadSnapshot],
    bytes: u64,
    wanted: &ContentsRequest,
    open: &Open,
) -> Contents {
    let limit = wanted.limit;
    let data = data(memory, &ModuleList::of(memory, open), limit / PART);
    let mut found = HeapGraph::of(&copy::part(memory, &data), threads, open);
    let sample = PageSample::of(&found.blocks, limit);
    let mut ranges = sample.pages(&found.blocks);
    ranges.extend(data);
    let copy = copy::part(memory, &crate::roots::merged(ranges));
    let mut contents = found.contents();
    {
        let heap = found.heap(&copy, Some(&sample), open);
        let kinds = Kinds::of(&heap, found.types.as_ref());
        let (rows, sampled) = estimate(&found.blocks, &sample, |block| kinds.number(block));
        let named = |(number, blocks, bytes, within)| {
            let kind = kinds.kind(number);
            KindRow { kind: kind.name.clone(), likely: kind.likely, blocks, bytes, within: Some(within) }
        };
        contents.kinds = count::first(rows.into_iter().map(named).collect());
        contents.sampled = Some(sampled);
    }
    // If the user asked for a sample, the reason is clear.
    if !wanted.is_sampled {
        found.doubts.push(format!(
            "{} would have to be copied, and the limit is {}: --copy-limit allows more",
            Bytes(bytes),
            Bytes(limit)
        ));
    }
    contents.problems = found.take_problems();
    contents
}

/// The variables of the program and its libraries, at most `most` bytes of them.
fn data(memory: &dyn Memory, modules: &ModuleList, most: u64) -> Vec<Range<u64>> {
    let mut left = most;
    let of_module = memory.mappings().iter().filter(|one| one.readable && one.writable && !one.shared);
    let of_module = of_module.filter(|one| modules.find(one.from).is_some());
    let resident = of_module.flat_map(|one| memory.pages().within(one.from, one.to));
    let ranges = resident.filter(|run| run.state.is_resident()).map(|run| run.from..run.to);
    ranges
        .take_while(|range| {
            let fits = range.end - range.start <= left;
            left = left.saturating_sub(range.end - range.start);
            fits
        })
        .collect()
}

/// Sums over the sampled pages for one kind.
#[derive(Default)]
struct Seen {
    blocks: u64,
    bytes: u64,
    /// Sums over the pages: of the squares of its bytes, and of its bytes times all bytes of the page.
    squares: f64,
    products: f64,
    /// The number and the bytes of large blocks, all of which are examined.
    large: [u64; 2],
}

/// For each kind, the estimated number of blocks, their bytes, and by how many bytes this may be wrong. The largest kind is first.
fn estimate(
    blocks: &Blocks,
    sample: &PageSample,
    kind: impl Fn(u32) -> u32,
) -> (Vec<(u32, u64, u64, u64)>, SampledPages) {
    let mut seen: HashMap<u32, Seen> = HashMap::new();
    let mut sampled = SampledPages::default();
    // The bytes of all small blocks, of the examined ones, and the sum of the squares of the latter over the pages.
    let (mut all, mut looked, mut squares) = (0_u64, 0_u64, 0.0);
    let mut on_page: HashMap<u32, [u64; 2]> = HashMap::new();
    let mut blocks = blocks.iter().peekable();
    while let Some((_, first)) = blocks.peek().copied() {
        let page = first.at / PAGE;
        let (mut has_small, mut of_page) = (false, 0);
        while let Some((index, block)) = blocks.next_if(|(_, block)| block.at / PAGE == page) {
            if block.bytes >= LARGE {
                let [count, bytes] = &mut seen.entry(kind(index)).or_default().large;
                (*count, *bytes) = (*count + 1, *bytes + block.bytes);
                continue;
            }
            has_small = true;
            all += block.bytes;
            if sample.has(&block) {
                of_page += block.bytes;
                let [count, bytes] = on_page.entry(kind(index)).or_default();
                (*count, *bytes) = (*count + 1, *bytes + block.bytes);
            }
        }
        sampled.of += u64::from(has_small);
        sampled.pages += u64::from(of_page > 0);
        looked += of_page;
        squares += (of_page as f64).powi(2);
        for (kind, [count, bytes]) in on_page.drain() {
            let seen = seen.entry(kind).or_default();
            (seen.blocks, seen.bytes) = (seen.blocks + count, seen.bytes + bytes);
            seen.squares += (bytes as f64).powi(2);
            seen.products += bytes as f64 * of_page as f64;
        }
    }
    let times = all as f64 / looked.max(1) as f64;
    let (pages, of) = (sampled.pages.max(2) as f64, sampled.of as f64);
    let row = |(kind, seen): (u32, Seen)| {
        let share = seen.bytes as f64 / looked.max(1) as f64;
        let residue = (seen.squares - 2.0 * share * seen.products + share * share * squares).max(0.0);
        let variance = of * of * (1.0 - pages / of).max(0.0) / pages * residue / (pages - 1.0);
        let [large, large_bytes] = seen.large;
        let times = |number: u64| (number as f64 * times).round() as u64;
        (kind, times(seen.blocks) + large, times(seen.bytes) + large_bytes, (WIDE * variance.sqrt()).ceil() as u64)
    };
    let mut rows: Vec<(u32, u64, u64, u64)> = seen.into_iter().map(row).collect();
    rows.sort_by_key(|(kind, _, bytes, _)| (Reverse(*bytes), *kind));
    (rows, sampled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::blocks;

    /// 400,000 blocks in runs of 50 to 450 of one kind: kind 1 has one in four of the runs, kind 2 the others; and a large one of kind 3.
    fn made() -> (Blocks, Vec<u32>) {
        let (mut all, mut kinds, mut at, mut random) = (Vec::new(), Vec::new(), 1 << 32, 1_u64);
        while kinds.len() < 400_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let kind = if random >> 62 == 0 { 1 } else { 2 };
            for _ in 0..50 + (random >> 32) % 400 {
                all.push((at, 40 + 16 * u64::from(kind)));
                kinds.push(kind);
                at += 80;
            }
        }
        all.push((at, 3 * LARGE));
        kinds.push(3);
        (blocks(all), kinds)
    }

    #[test]
    fn the_truth_is_in_the_interval_and_all_adds_up() {
        let (blocks, kinds) = made();
        let truth = |wanted: u32| -> u64 {
            blocks.iter().filter(|(index, _)| kinds[*index as usize] == wanted).map(|(_, block)| block.bytes).sum()
        };
        let mut inside = 0;
        for every in 20..40 {
            let (rows, sampled) = estimate(&blocks, &PageSample { every }, |block| kinds[block as usize]);
            assert!(sampled.pages * 20 < sampled.of * 2 && sampled.pages > 100, "{sampled:?}");
            let of = |wanted: u32| *rows.iter().find(|row| row.0 == wanted).unwrap();
            assert_eq!((of(3).1, of(3).2, of(3).3), (1, 3 * LARGE, 0), "a large one is no estimate");
            let sum: u64 = rows.iter().map(|row| row.2).sum();
            assert!(sum.abs_diff(truth(1) + truth(2) + truth(3)) <= 2);
            assert!(of(1).3 > 0 && of(1).3 < of(1).2 / 2, "{rows:?}");
            inside += u32::from(of(1).2.abs_diff(truth(1)) <= of(1).3);
        }
        // 19 of 20 are expected.
        assert!((16..=20).contains(&inside), "{inside}");
    }

    #[test]
    fn with_all_pages_nothing_is_estimated() {
        let (blocks, kinds) = made();
        let (rows, sampled) = estimate(&blocks, &PageSample { every: 1 }, |block| kinds[block as usize]);
        assert_eq!(sampled.pages, sampled.of);
        assert!(rows.iter().all(|row| row.3 == 0), "{rows:?}");
        assert_eq!(rows.iter().map(|row| row.1).sum::<u64>(), blocks.len() as u64);
    }
}
