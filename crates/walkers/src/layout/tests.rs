use super::*;
use crate::pages::PageRun;

fn resident(from: u64, to: u64, state: PageState) -> PageStates {
    let mut pages = PageStates::default();
    pages.push(PageRun { from, to, state });
    pages
}

#[test]
fn a_page_with_a_small_block_is_free_besides_and_one_without_is_kept() {
    let pages = resident(0x10000, 0x14000, PageState::Resident);
    let mut layout = Layout::default();
    assert!(layout.region(&pages, 0x10000, 0x14000, 0));
    layout.block(0x10ff0, 0x20, BlockKind::Live);
    layout.block(0x12000, 0x100, BlockKind::Cached);
    let parts = layout.parts(&pages, 1)[0];
    assert_eq!(parts.of(Part::Live), 0x20);
    assert_eq!(parts.of(Part::Cached), 0x100);
    assert_eq!(parts.of(Part::Fragmentation), 3 * PAGE - 0x120);
    assert_eq!(parts.of(Part::FreePages), PAGE);
    assert_eq!(parts.sum(), 4 * PAGE);
}

#[test]
fn live_bytes_whose_places_are_not_known_are_spread_over_what_is_resident_and_the_rest_is_not_known() {
    let mut pages = resident(0x10000, 0x12000, PageState::Resident);
    pages.push(PageRun { from: 0x18000, to: 0x19000, state: PageState::Resident });
    let parts = |live| {
        let mut layout = Layout::default();
        layout.region(&pages, 0x10000, 0x20000, 0);
        layout.spread(&pages, 0x10800..0x18800, live);
        let parts = layout.parts(&pages, 1)[0];
        let of = [Part::Live, Part::Unknown, Part::Fragmentation].map(|part| parts.of(part));
        (of, layout.live_in_a_page(&pages).is_some(), layout.astray())
    };
    // Half of the first page and of the last one belong to it, and the second.
    assert_eq!(parts(0x1001), ([0x1001, 0xfff, 0x1000], false, 0));
    assert_eq!(parts(0x9000), ([0x2000, 0, 0x1000], true, 0));
}

#[test]
fn only_resident_pages_count() {
    let pages = resident(0x12000, 0x13000, PageState::Huge);
    let mut layout = Layout::default();
    layout.region(&pages, 0x10000, 0x20000, 0);
    layout.block(0x10000, 0x10000, BlockKind::Live);
    assert_eq!(layout.parts(&pages, 1)[0].sum(), PAGE);
}

#[test]
fn a_region_keeps_only_its_resident_pages_however_long_it_is() {
    let mut pages = resident(0x12000, 0x13000, PageState::Resident);
    pages.push(PageRun { from: 0x13000, to: 0x14000, state: PageState::Huge });
    pages.push(PageRun { from: 0x20000, to: 1 << 40, state: PageState::Zero });
    pages.push(PageRun { from: 1 << 45, to: (1 << 45) + PAGE, state: PageState::Resident });
    let mut layout = Layout::default();
    assert!(layout.region(&pages, 0x10000, 1 << 46, 0));
    layout.block(0x12800, 1 << 46, BlockKind::Live);
    layout.block(0x12000, 0x10, BlockKind::Cached);
    let kept = |region: &Region| (region.rows.len(), region.cells.len());
    assert_eq!(layout.regions.iter().map(kept).collect::<Vec<_>>(), [(2, 3)]);
    let parts = layout.parts(&pages, 1)[0];
    assert_eq!((parts.of(Part::Live), parts.of(Part::Cached)), (0x2800, 0x10));
    assert_eq!((parts.sum(), layout.astray()), (3 * PAGE, 0x12800));
    assert_eq!(layout.live_in_a_page(&pages).unwrap()[16], 2);
    let found = layout.stretches(&pages, 1 << 20);
    assert_eq!(found.iter().map(|one| one.from).collect::<Vec<_>>(), [0, 1 << 45]);
}

#[test]
fn what_was_never_used_is_padding_in_a_huge_page_and_kept_elsewhere() {
    let parts = |state| {
        let pages = resident(0x10000, 0x12000, state);
        let mut layout = Layout::default();
        layout.region(&pages, 0x10000, 0x12000, 0);
        layout.block(0x11000, PAGE, BlockKind::Unused);
        layout.parts(&pages, 1)[0]
    };
    assert_eq!(parts(PageState::Huge).of(Part::Padding), PAGE);
    assert_eq!(parts(PageState::Resident).of(Part::FreePages), 2 * PAGE);
}

#[test]
fn regions_that_overlap_keep_their_first_owner_and_blocks_outside_are_astray() {
    let pages = PageStates::default();
    let mut layout = Layout::default();
    assert!(layout.region(&pages, 0x10000, 0x12000, 0));
    assert!(!layout.region(&pages, 0xf000, 0x14000, 1));
    let regions: Vec<_> = layout.regions().collect();
    assert_eq!(regions, [(0xf000, 0x10000, 1), (0x10000, 0x12000, 0), (0x12000, 0x14000, 1)]);
    layout.block(0x13800, 0x1000, BlockKind::Live);
    assert_eq!(layout.astray(), 0x800);
    layout.block(0x100, 0x10, BlockKind::Live);
    assert_eq!(layout.astray(), 0x810);
}

#[test]
fn stretches_add_up_and_tell_their_arena() {
    let pages = resident(0x11000, 0x14000, PageState::Resident);
    let mut layout = Layout::default();
    layout.region(&pages, 0x10000, 0x12000, 0);
    layout.region(&pages, 0x12000, 0x14000, 1);
    layout.block(0x11000, PAGE, BlockKind::Live);
    let found = layout.stretches(&pages, 0x4000);
    let of = |at: usize| (found[at].from, found[at].arena, found[at].parts.sum());
    assert_eq!((found.len(), of(0), of(1)), (2, (0x10000, 0, PAGE), (0x10000, 1, 2 * PAGE)));
    assert_eq!(found[0].parts.of(Part::Live), PAGE);
}

#[test]
fn a_larger_page_is_free_only_as_a_whole_and_its_bytes_are_counted_by_its_own_sixteenths() {
    let parts = |page: u64| {
        let pages = resident(0x10000, 0x20000, PageState::Resident);
        let mut layout = Layout { page, ..Layout::default() };
        layout.region(&pages, 0x10000, 0x1f123, 0);
        layout.block(0x10ff0, 0x1010, BlockKind::Live);
        layout.block(0x1c000, 0x4000, BlockKind::Live);
        let parts = layout.parts(&pages, 1)[0];
        let counts = layout.live_in_a_page(&pages).unwrap();
        (parts.of(Part::Live), parts.of(Part::FreePages), parts.of(Part::Fragmentation), counts[5], counts[16])
    };
    assert_eq!(parts(0x1000), (0x5010, 10 * PAGE, 0xff0, 0, 5));
    assert_eq!(parts(0x4000), (0x5010, 8 * PAGE, 0x2ff0, 1, 1));
    assert_eq!(parts(0x10000), (0x5010, 0, 0xaff0, 0, 0), "six sixteenths");
}

#[test]
fn live_bytes_in_a_page_are_counted_by_sixteenths() {
    let pages = resident(0x10000, 0x13000, PageState::Resident);
    let mut layout = Layout::default();
    layout.region(&pages, 0x10000, 0x13000, 0);
    layout.block(0x11000, 1, BlockKind::Live);
    layout.block(0x12000, PAGE, BlockKind::Live);
    let counts = layout.live_in_a_page(&pages).unwrap();
    assert_eq!((counts[0], counts[1], counts[16]), (1, 1, 1));
}
