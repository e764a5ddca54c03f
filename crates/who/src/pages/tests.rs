use proptest::prelude::*;

use super::*;
use crate::ever::PAGE;

/// A block by its page, its place in it, its size and its site.
fn block(page: u64, at: u64, size: u64, site: u32) -> LiveBlock {
    LiveBlock { address: page * PAGE + at, size, of: site }
}

fn resident(ranges: &[Range<u64>]) -> Resident {
    Resident { mark: 2, ranges: ranges.iter().map(|pages| pages.start * PAGE..pages.end * PAGE).collect() }
}

fn ever(blocks: &[LiveBlock], more: &[Range<u64>]) -> Ever {
    let mut ever = Ever::default();
    blocks.iter().for_each(|block| ever.add(block.address, block.size));
    more.iter().for_each(|pages| ever.add(pages.start * PAGE, (pages.end - pages.start) * PAGE));
    ever
}

fn of(
    blocks: &[LiveBlock],
    sites: usize,
    more: &[Range<u64>],
    resident: Option<&Resident>,
    division: Division,
) -> Divided {
    divide(
        blocks,
        |block| Some(block.of as usize).filter(|site| *site < sites),
        sites,
        &ever(blocks, more),
        resident,
        division,
        PAGE,
    )
}

#[test]
fn the_free_bytes_of_a_page_are_charged_in_equal_parts() {
    // Three blocks of site 0 and one of site 1 in one page, with 4096 - 400 bytes free.
    let blocks = [block(1, 0, 100, 0), block(1, 200, 100, 0), block(1, 400, 100, 0), block(1, 1000, 100, 1)];
    let found = of(&blocks, 2, &[], None, Division::Sites);
    assert_eq!(found.shares[0], Share { live: 300, pinned: 1848, ..Share::default() });
    assert_eq!(found.shares[1], Share { live: 100, pinned: 1848, ..Share::default() });
    let found = of(&blocks, 2, &[], None, Division::Blocks);
    assert_eq!([found.shares[0].pinned, found.shares[1].pinned], [2772, 924], "a quarter for each block");
    assert_eq!((found.holding, found.empty), (PAGE, None));
}

#[test]
fn a_block_keeps_the_whole_page_also_where_pages_are_large() {
    // Pages of 16 KiB: a block of site 0 in the first and in the third, two sites in the fourth, and nobody in the second.
    let large = 4 * PAGE;
    let blocks = [block(1, 0, 96, 0), block(10, 0, 96, 0), block(12, 0, 96, 0), block(15, 0, 96, 1)];
    let ever = ever(&blocks, &[4..5]);
    let resident = resident(&[0..16]);
    let found = divide(&blocks, |block| Some(block.of as usize), 2, &ever, Some(&resident), Division::Sites, large);
    assert_eq!((found.holding, found.empty, found.outside), (3 * large, Some(large), Some(0)));
    assert_eq!([found.shares[0].alone, found.shares[1].alone], [2 * (large - 96), 0]);
    assert_eq!(found.shares[1].pinned, (large - 192) / 2);
}

#[test]
fn a_page_of_one_site_is_its_own_and_so_are_the_holes_beside_it() {
    // Pages 10 to 20 are resident. Site 0 has 11 and 13, both sites have 17, site 1 has 18.
    let blocks =
        [block(11, 0, 96, 0), block(13, 0, 96, 0), block(17, 0, 96, 0), block(17, 96, 96, 1), block(18, 0, 96, 1)];
    let found = of(&blocks, 2, &[10..20], Some(&resident(&[10..20])), Division::Sites);
    assert_eq!(found.shares[0].alone, 8000);
    // The holes are 10, 12, and 14 to 16: five pages. 19, after 18, is site 1's.
    assert_eq!(found.shares[0].with_holes, 8000 + 5 * PAGE);
    assert_eq!((found.shares[1].alone, found.shares[1].with_holes), (4000, 4000 + PAGE));
    assert_eq!((found.holding, found.empty, found.outside), (4 * PAGE, Some(6 * PAGE), Some(0)));
}

#[test]
fn a_hole_between_two_sites_counts_with_both_and_a_gap_ends_it() {
    let blocks = [block(10, 0, 96, 0), block(12, 0, 96, 1), block(15, 0, 96, 0)];
    let pages = resident(&[10..13, 15..17]);
    let found = of(&blocks, 2, &[10..17], Some(&pages), Division::Sites);
    assert_eq!(found.shares[0].with_holes, 8000 + 2 * PAGE, "11 and 16; 13 and 14 are given back already");
    assert_eq!(found.shares[1].with_holes, 4000 + PAGE);
}

#[test]
fn only_pages_in_which_a_block_has_been_are_the_heap() {
    let blocks = [block(10, 0, 4096, 0)];
    // Page 11 had a block before; 12 and 50 never had one; of page 9 only half is in the list.
    let pages = Resident { mark: 2, ranges: vec![9 * PAGE + 1..13 * PAGE, 50 * PAGE..51 * PAGE] };
    let found = of(&blocks, 1, &[11..12], Some(&pages), Division::Sites);
    assert_eq!((found.empty, found.outside, found.resident()), (Some(PAGE), Some(2 * PAGE), 2 * PAGE));
    assert_eq!(found.shares[0], Share { live: PAGE, with_holes: PAGE, ..Share::default() });
}

#[test]
fn blocks_that_were_never_written_to_are_not_resident() {
    // A block of eleven pages and 100 bytes, of which three pages are resident.
    let blocks = [block(10, 0, 11 * PAGE + 100, 0), block(21, 200, 100, 1)];
    let found = of(&blocks, 2, &[], Some(&resident(&[12..15])), Division::Sites);
    assert_eq!(found.shares[0], Share { live: 3 * PAGE, untouched: 8 * PAGE + 100, ..Share::default() });
    assert_eq!(found.shares[1], Share { untouched: 100, ..Share::default() });
    assert_eq!(found.pinned(), 0);
}

#[test]
fn a_block_of_no_bytes_pins_its_page() {
    let found = of(&[block(1, 16, 0, 0)], 1, &[], None, Division::Sites);
    assert_eq!(found.shares[0], Share { live: 1, pinned: 4095, alone: 4095, with_holes: 4095, ..Share::default() });
}

#[test]
fn a_block_over_the_edge_of_two_pages_pins_both() {
    let found = of(&[block(1, 4090, 12, 0)], 1, &[], None, Division::Sites);
    assert_eq!(found.shares[0].pinned, 2 * PAGE - 12);
}

#[test]
fn addresses_of_a_damaged_trace_neither_hang_nor_overflow() {
    let blocks = [block(1, 0, u64::MAX, 0), block(1, 0, 50, 1), LiveBlock { address: u64::MAX, size: 9, of: 0 }];
    let pages = Resident { mark: 2, ranges: vec![0..u64::MAX] };
    let found = of(&blocks, 2, &[0..1 << 40], Some(&pages), Division::Sites);
    assert!(found.holding > 1 << 50, "{found:?}");
}

/// A slow count: page by page and byte by byte.
fn slowly(blocks: &[LiveBlock], sites: usize, heap: &[u64]) -> Vec<u64> {
    let mut pinned = vec![0; sites];
    let mut owners = vec![None; 600 * PAGE as usize];
    for block in blocks {
        owners[block.address as usize..(block.address + block.size) as usize].fill(Some(block.of as usize));
    }
    for page in heap {
        let owners = &owners[(page * PAGE) as usize..((page + 1) * PAGE) as usize];
        let free = owners.iter().filter(|owner| owner.is_none()).count() as u64;
        let here: std::collections::BTreeSet<usize> = owners.iter().flatten().copied().collect();
        here.iter().for_each(|site| pinned[*site] += free / here.len() as u64);
    }
    pinned
}

proptest! {
    /// No byte is lost or counted twice, and the figures of each site are those of a slow count by the definition.
    #[test]
    fn fuzz_all_parts_add_up_to_what_is_resident(
        steps in prop::collection::vec((0_u64..9000, 1_u64..9000, 0_u32..4), 0..30),
        holes in prop::collection::vec(0_u64..60, 0..20),
        by_blocks: bool,
    ) {
        let mut blocks = Vec::new();
        let mut address = 3 * PAGE;
        for (gap, size, of) in steps {
            address += gap;
            blocks.push(LiveBlock { address, size, of });
            address += size;
        }
        let kept: Vec<u64> = (0..80).filter(|page| !holes.contains(page)).collect();
        let pages = Resident { mark: 2, ranges: kept.iter().map(|page| page * PAGE..(page + 1) * PAGE).collect() };
        let division = if by_blocks { Division::Blocks } else { Division::Sites };
        let found = of(&blocks, 3, &[5..70], Some(&pages), division);
        let resident = found.live() + found.pinned() + found.empty.unwrap() + found.outside.unwrap();
        prop_assert_eq!(resident, kept.len() as u64 * PAGE);
        prop_assert_eq!(found.live() + found.pinned(), found.holding);
        let live: u64 = found.shares.iter().map(|share| share.live + share.untouched).sum();
        prop_assert_eq!(live, blocks.iter().map(|block| block.size).sum::<u64>());
        for share in &found.shares {
            prop_assert!(share.alone <= share.pinned && share.alone <= share.with_holes);
        }
        if !by_blocks {
            let slow = slowly(&blocks, 4, &kept);
            for (share, slow) in found.shares.iter().zip(slow) {
                // At most a byte a page is rounded to another site.
                prop_assert!(share.pinned.abs_diff(slow) <= 2 * 80, "{share:?} {slow}");
            }
        }
    }
}
