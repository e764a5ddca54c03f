use allocanary_trace::coder::AllocFunction;

use super::*;
use crate::ever::PAGE;
use crate::invented::{Events, stacks};

/// Site A makes short-lived blocks, and site B keeps a small block behind each of them: only B pins.
#[test]
fn the_site_whose_few_blocks_survive_pins_the_pages_and_the_rest_is_empty() {
    let (stacks, ids) = stacks(&[&[0x100, 0xa], &[0x100, 0xb]]);
    let mut events = Events::new(TracePoint::at_time(10_000_000), 20_000_000);
    let mut of_a = Vec::new();
    for at in 0..100_u64 {
        let base = (100 + at * 2) * PAGE;
        of_a.push(events.new_block(at, ids[0], base, PAGE));
        of_a.push(events.new_block(at, ids[0], base + PAGE, PAGE - 64));
        events.new_block(at, ids[1], base + 2 * PAGE - 64, 64);
    }
    of_a.into_iter().for_each(|block| events.free(500_000, block));
    let taken = events.taken();
    let resident = Resident { mark: 2, ranges: vec![100 * PAGE..302 * PAGE] };
    let found =
        find("service", &taken, Some(&resident), &mut FrameNames::of(&stacks), By::Function, &Folding::default());
    let [b, a] = &found.sites[..] else { panic!("{:?}", found.sites) };
    assert_eq!((b.name.as_str(), b.blocks, b.live, b.share.pinned), ("0xb", 100, 6400, 100 * (PAGE - 64)));
    assert_eq!((b.share.alone, b.share.with_holes), (b.share.pinned, b.share.pinned + 100 * PAGE));
    assert_eq!((b.allocations, b.short, b.grows), (100, 0, false));
    assert_eq!((a.name.as_str(), a.live, a.share.pinned, a.short, a.allocations), ("0xa", 0, 0, 200, 200));
    assert_eq!(found.pages.empty, Some(100 * PAGE), "A's pages hold nobody's block");
    assert_eq!(found.pages.outside, Some(2 * PAGE));
}

#[test]
fn sites_are_grouped_before_pages_are_divided() {
    // Two stacks of 0xa and one of 0xb have blocks in one page: two sites, not three.
    let (stacks, ids) = stacks(&[&[0x100, 0xa], &[0x200, 0xa], &[0x100, 0xb]]);
    let mut events = Events::new(TracePoint::at_time(9), 9);
    for (at, id) in (0..).zip(&ids) {
        events.new_block(0, *id, PAGE + at * 1000, 32);
    }
    let taken = events.taken();
    let found = find("x", &taken, None, &mut FrameNames::of(&stacks), By::Function, &Folding::default());
    assert_eq!(
        found.sites.iter().map(|site| (&*site.name, site.share.pinned)).collect::<Vec<_>>(),
        [("0xa", 2000), ("0xb", 2000)]
    );
    let by_stack: Vec<u64> = super::stacks(&taken, None).iter().map(|of| of.pinned).collect();
    assert_eq!(by_stack, [1333, 1333, 1334]);
}

#[test]
fn of_sampled_stacks_the_sums_are_estimated_and_the_heap_is_exact() {
    let (stacks, ids) = stacks(&[&[0xa], &[0xb]]);
    let mut events = Events::new(TracePoint::at_time(9), 9);
    // Each page has four blocks. In every second page the stacks of two are known.
    for page in 1..=10_u64 {
        let known = page % 2 == 0;
        for at in 0..4_u64 {
            let stack = if known && at < 2 { ids[at as usize] } else { 0 };
            events.new_block(0, stack, page * PAGE + at * 1000, 24);
        }
    }
    let taken = BlockTally { one_stack_in: 4, ..events.taken() };
    let found = find("x", &taken, None, &mut FrameNames::of(&stacks), By::Function, &Folding::default());
    assert_eq!(found.one_in, Some(4.0));
    assert_eq!(found.pages.pinned(), 40_000, "which blocks hold pages is known without stacks");
    let sites: Vec<_> =
        found.sites.iter().map(|site| (&*site.name, site.blocks, site.live, site.share.pinned)).collect();
    assert_eq!(sites, [("0xa", 20, 480, 20_000), ("0xb", 20, 480, 20_000)]);
    assert!(found.sites.iter().all(|site| site.share.alone == 0));
}

#[test]
fn a_few_stacks_that_could_not_be_walked_are_a_site() {
    let (stacks, ids) = stacks(&[&[0xa]]);
    let mut events = Events::new(TracePoint::at_time(9), 9);
    for at in 0..9_u64 {
        events.new_block(0, ids[0], PAGE + at * 100, 50);
    }
    events.new_block(0, 0, 2 * PAGE, 50);
    let found = find("x", &events.taken(), None, &mut FrameNames::of(&stacks), By::Function, &Folding::default());
    let sites: Vec<_> = found.sites.iter().map(|site| (&*site.name, site.share.pinned)).collect();
    assert_eq!((found.one_in, &sites[..]), (None, &[("(no stack)", 4046), ("0xa", 3646)][..]));
}

/// The requested share decides whether stacks were sampled: most stacks may be missing, and one in ten addresses may
/// have most of the allocations.
#[test]
fn whether_stacks_were_sampled_is_what_the_trace_says() {
    let (stacks, ids) = stacks(&[&[0xa]]);
    let taken = |with: u64, one_stack_in| {
        let mut events = Events::new(TracePoint::at_time(9), 9);
        for at in 0..10_u64 {
            events.new_block(0, if at < with { ids[0] } else { 0 }, PAGE + at * 100, 50);
        }
        BlockTally { one_stack_in, ..events.taken() }
    };
    assert_eq!((one_in(&taken(1, 1)), one_in(&taken(9, 10))), (None, Some(10.0 / 9.0)));
    let found = find("x", &taken(1, 1), None, &mut FrameNames::of(&stacks), By::Function, &Folding::default());
    assert!(
        found.notes.iter().any(|note| note.starts_with("90 % of the allocations have no stack")),
        "{:?}",
        found.notes
    );
}

/// A minute of a synthetic service. In each tenth of a second 0xa leaks a block of 4000 bytes with a chance of one half, and 0xb makes a
/// block that lives for one to ten seconds. 0xc fills a table in the first ten seconds. Before the program ends it frees the leaked
/// blocks.
fn minute(seed: u64) -> tempfile::NamedTempFile {
    use allocanary_sys::rng::Rng;
    use allocanary_trace::builder::TraceBuilder;
    use allocanary_trace::coder::Event;
    use std::io::Write;

    const TENTH: u64 = 10_000_000; // ticks of 10 ns
    let (stacks, ids) = stacks(&[&[0xa], &[0xb], &[0xc]]);
    let mut builder = TraceBuilder::with_stacks(4096, 1);
    builder.tables(&stacks);
    let mut rng = Rng::new(seed);
    let mut ends: Vec<Vec<u64>> = vec![Vec::new(); 700];
    let mut leaked = Vec::new();
    for at in 0..600_u64 {
        // An event has the time of the stamp before it.
        builder.event(0, at * TENTH, Event::Stamp);
        if at == 590 {
            ends[590].append(&mut leaked);
        }
        for address in std::mem::take(&mut ends[at as usize]) {
            builder.event(0, at * TENTH, Event::Free { address });
        }
        let mut new = |site: u64, size| {
            let address = (1 + site * 1000 + at) << 20;
            builder.stacked(
                0,
                at * TENTH,
                Event::New { how: AllocFunction::Malloc, address, size },
                ids[site as usize],
            );
            address
        };
        if rng.below(2) == 0 {
            leaked.push(new(0, 4000));
        }
        let address = new(1, 8000);
        ends[at as usize + 10 + rng.below(90)].push(address);
        if at < 100 {
            new(2, 40_000);
        }
    }
    builder.event(0, 600 * TENTH, Event::Stamp);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&builder.finish()).unwrap();
    file
}

/// It leaks 20,000 bytes a second: five blocks.
#[test]
fn a_leak_is_named_with_its_rate_and_what_fills_or_is_steady_is_not() {
    let mut right = 0;
    for seed in 0..40 {
        let file = minute(seed);
        let trace = Trace::open(file.path()).unwrap();
        let (taken, resident, _) = take_wanted(&trace, None, false).unwrap();
        let stacks = trace.stacks().unwrap();
        let found =
            find("x", &taken, resident.as_ref(), &mut FrameNames::of(&stacks), By::Function, &Folding::default());
        assert_eq!(found.span.map(|span| (span.from, span.to)), Some((15_000_000_000, 54_000_000_000)));
        let of = |name: &str| found.sites.iter().find(|site| site.name == name).unwrap();
        let slope = |name: &str| of(name).slope.unwrap();
        let grows = ["0xa", "0xb", "0xc"].map(|name| of(name).grows);
        assert_eq!(grows, [true, false, false], "{seed}: {:?} {:?} {:?}", slope("0xa"), slope("0xb"), slope("0xc"));
        let leak = slope("0xa");
        right += usize::from(leak.low <= 20_000.0 && 20_000.0 <= leak.high);
        assert!((16_000.0..24_000.0).contains(&leak.per_second) && leak.high - leak.low < 8_000.0, "{seed}: {leak:?}");
        assert!(slope("0xb").low <= 0.0 && slope("0xc").per_second.abs() < 1e-6);
    }
    assert!(right >= 36, "of 40 intervals of 95 %: {right}");
}

#[test]
fn of_sampled_stacks_the_slope_is_that_of_all_blocks() {
    let (stacks, ids) = stacks(&[&[0xa]]);
    let mut events = Events::new(TracePoint::at_time(400), 400);
    for at in 0..400_u64 {
        events.new_block(at, if at % 4 == 0 { ids[0] } else { 0 }, (10 + at) * PAGE, 1000);
    }
    let taken = BlockTally { one_stack_in: 4, ..events.taken() };
    let found = find("x", &taken, None, &mut FrameNames::of(&stacks), By::Function, &Folding::default());
    let (site, slope) = (&found.sites[0], found.sites[0].slope.unwrap());
    assert!(site.grows && (slope.per_second / 1e12 - 1.0).abs() < 0.01, "1000 bytes a nanosecond: {slope:?}");
}

/// The frees of blocks from before the window are missing.
#[test]
fn growth_in_a_window_is_not_known() {
    use allocanary_trace::builder::TraceBuilder;
    use allocanary_trace::coder::Event;
    use std::io::Write;

    let mut builder = TraceBuilder::windowed(4096, 1_000_000, 0);
    for at in 0..100_u64 {
        builder.event(0, at * 1000, Event::New { how: AllocFunction::Malloc, address: (at + 1) * PAGE, size: 1000 });
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&builder.finish()).unwrap();
    let trace = Trace::open(file.path()).unwrap();
    let (taken, ..) = take_wanted(&trace, None, true).unwrap();
    let found = find("x", &taken, None, &mut FrameNames::of(&Stacks::default()), By::Thread, &Folding::default());
    assert_eq!((found.span, found.sites[0].slope, found.sites[0].grows), (None, None, false));
}

/// A synthetic trace, with threads in place of sites. Blocks have the recorded addresses, also after a realloc.
#[test]
fn a_trace_is_read_at_its_peak() {
    use allocanary_trace::builder::TraceBuilder;
    use allocanary_trace::coder::Event;
    use std::io::Write;

    let mut builder = TraceBuilder::stamped(4096, 1);
    let malloc = |address: u64, size: u64| Event::New { how: AllocFunction::Malloc, address, size };
    builder.event(0, 0, malloc(8 * PAGE, 96));
    builder.event(1, 1000, malloc(8 * PAGE + 1000, 96));
    builder.event(1, 2000, malloc(20 * PAGE, 400));
    builder.event(1, 3000, Event::Resize { address: 20 * PAGE });
    builder.event(1, 3000, Event::New { how: AllocFunction::Resized, address: 30 * PAGE, size: 4000 });
    // An event has the time of the stamp before it.
    builder.event(0, 500_000, Event::Stamp);
    builder.event(0, 500_000, Event::Free { address: 8 * PAGE });
    builder.event(1, 600_000, Event::Stamp);
    builder.event(1, 600_000, malloc(40 * PAGE, 16));
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&builder.finish()).unwrap();
    let trace = Trace::open(file.path()).unwrap();
    let (taken, resident, merged) = take_wanted(&trace, None, true).unwrap();
    assert_eq!((taken.moment.name, merged.strays, &resident), ("peak", 0, &None));
    let found = find("x", &taken, None, &mut FrameNames::of(&Stacks::default()), By::Thread, &Folding::default());
    let sites: Vec<_> = found.sites.iter().map(|site| (&*site.name, site.live, site.share.pinned)).collect();
    // Page 8 has 3904 free bytes, which both threads share; page 30 has 96, of thread 1.
    assert_eq!(sites, [("thread 1", 4096, 1952 + 96), ("thread 0", 96, 1952)]);
    assert_eq!(found.sites[0].allocations, 4);
    let notes = limits(&trace, &found, &merged, &Stacks::default());
    assert!(notes.len() == 1 && notes[0].contains("Which pages were resident"), "{notes:?}");
    let (taken, ..) = take_wanted(&trace, Some(MomentChoice::At(5_500_000)), true).unwrap();
    assert_eq!(taken.blocks.len(), 2, "one of the three was freed, and the last was not made yet");
    assert!(take_wanted(&trace, Some(MomentChoice::Idle), true).unwrap_err().to_string().contains("--at idle"));
}

#[test]
fn a_trace_of_some_blocks_is_refused() {
    use allocanary_trace::builder::TraceBuilder;
    use allocanary_trace::coder::Event;
    use std::io::Write;

    let mut builder = TraceBuilder::stamped(4096, 1);
    builder.event(0, 0, Event::New { how: AllocFunction::Malloc, address: PAGE, size: 8 });
    let mut bytes = builder.finish();
    bytes[allocanary_trace::format::at::RATE] = 16;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let error = take_wanted(&Trace::open(file.path()).unwrap(), None, false).map(drop).unwrap_err().to_string();
    assert!(error.contains("one block in 16") && error.contains("--stack-sample 1/10"), "{error}");
}

/// A window has its own blocks; of older blocks it has only the frees.
#[test]
fn of_a_window_older_blocks_have_no_site_and_their_pages_are_told_apart() {
    use allocanary_trace::builder::TraceBuilder;
    use allocanary_trace::coder::Event;
    use allocanary_trace::format::at;
    use std::io::Write;

    let mut builder = TraceBuilder::windowed_with_stacks(512, 10_000, 0, 1);
    let malloc = |address: u64, size: u64| Event::New { how: AllocFunction::Malloc, address, size };
    // Pages 10 to 29 have older blocks. The window begins at tick 10,000, makes blocks in pages 25 to 44, and frees three older ones.
    (10..30).for_each(|page| builder.stacked(0, page, malloc(page * PAGE, 1000), 7));
    for page in 25..45 {
        builder.event(0, 15_000 + page, Event::Stamp);
        builder.stacked(0, 15_000 + page, malloc(page * PAGE + 2000, 96), 9);
    }
    for page in 27..30 {
        builder.event(0, 16_000, Event::Free { address: page * PAGE });
    }
    builder.resident(&Resident { mark: 3, ranges: vec![PAGE..60 * PAGE] });
    builder.event(0, 20_000, Event::Stamp);
    let mut bytes = builder.finish();
    // Ticks are 10 ns.
    bytes[at::END..at::END + 8].copy_from_slice(&190_000_u64.to_le_bytes());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let trace = Trace::open(file.path()).unwrap();
    let (taken, resident, merged) = take_wanted(&trace, None, false).unwrap();
    assert_eq!((taken.moment.name, merged.before, merged.strays), ("end", 3, 0));
    let stacks = Stacks { nodes: vec![Default::default(); 10], modules: Vec::new() };
    let found = find("x", &taken, resident.as_ref(), &mut FrameNames::of(&stacks), By::Function, &Folding::default());
    assert_eq!((found.freed_from_before, found.before_window()), (Some(3), Some(39 * PAGE)));
    assert_eq!((found.pages.holding, found.pages.pinned()), (20 * PAGE, 20 * (PAGE - 96)), "at most");
    let notes = limits(&trace, &found, &merged, &stacks);
    assert!(
        notes.iter().any(|note| note.contains("3 of them were freed in it") && note.contains("at most")),
        "{notes:?}"
    );
    // At a time that the user gives, the pages were not read.
    let (taken, resident, _) = take_wanted(&trace, Some(MomentChoice::At(60_000)), false).unwrap();
    let found = find("x", &taken, resident.as_ref(), &mut FrameNames::of(&stacks), By::Function, &Folding::default());
    assert_eq!((found.freed_from_before, found.before_window(), found.pages.empty), (Some(3), None, None));
}
