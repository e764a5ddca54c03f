use std::fs;
use std::path::Path;

use allocanary_trace::builder::TraceBuilder;
use allocanary_trace::coder::Event;

use super::*;
use crate::fold::Folding;
use crate::invented::{self, Events};
use crate::sites::find;
use allocanary_names::FrameNames;

/// A trace whose stacks are those of two sites, by their return addresses.
fn trace(folder: &Path, events: &[(u64, Event, StackId)]) -> Trace {
    let mut sample = TraceBuilder::with_stacks(1024, 1);
    events.iter().for_each(|(tick, event, stack)| sample.stacked(0, *tick, *event, *stack));
    let path = folder.join("a.trace");
    fs::write(&path, sample.finish()).unwrap();
    Trace::open(&path).unwrap()
}

fn numbers(set: &Elsewhere) -> Vec<u64> {
    (0..64).filter(|event| set.has(*event)).collect()
}

#[test]
fn the_survivors_of_a_site_are_those_that_live_at_the_stop_and_the_site_is_all_that_it_made() {
    let folder = tempfile::tempdir().unwrap();
    let made = |address| Event::New { how: AllocFunction::Malloc, address, size: 64 };
    let resized = |address| Event::New { how: AllocFunction::Resized, address, size: 640 };
    let trace = trace(
        folder.path(),
        &[
            (10, made(0x1000), 1),                    // 0: is freed before the stop
            (20, made(0x2000), 1),                    // 1: is freed behind it
            (30, made(0x3000), 2),                    // 2: another site's
            (40, Event::Free { address: 0x1000 }, 0), // 3
            (50, made(0x4000), 1),                    // 4: is resized by the other site
            (60, Event::Resize { address: 0x4000 }, 0),
            (61, resized(0x5000), 2), // 5
            (70, Event::Resize { address: 0x3000 }, 0),
            (71, resized(0x6000), 1),                 // 6: the other's block becomes the site's
            (80, Event::Free { address: 0x2000 }, 0), // 7
            (90, made(0x7000), 1),                    // 8: behind the stop
        ],
    );
    let found = sets(&trace, HashSet::from([1]), 7).unwrap();
    assert_eq!((numbers(&found.survivors), numbers(&found.whole)), (vec![1, 6], vec![0, 1, 4, 6, 8]));
    let at_end = sets(&trace, HashSet::from([1]), u64::MAX).unwrap();
    assert_eq!(numbers(&at_end.survivors), [6, 8]);
    assert_eq!(numbers(&sets(&trace, HashSet::from([2]), 6).unwrap().survivors), [2, 5]);
}

#[test]
fn a_site_has_the_stacks_that_the_table_puts_together() {
    let (table, ids) = invented::stacks(&[&[0x10, 0x20], &[0x11, 0x20], &[0x10]]);
    let mut events = Events::new(TracePoint::at_time(9), 10);
    for (at, id) in ids.iter().enumerate() {
        events.new_block(0, *id, (at as u64 + 1) * 0x1_0000, 100 << at);
    }
    events.new_block(0, 0, 0x9_0000, 7);
    let taken = events.taken();
    let mut names = FrameNames::of(&table);
    let found = find("service", &taken, None, &mut names, By::Function, &Folding::default());
    let groups = StackGroups::of(&taken, false, &mut names, By::Function, &Folding::default());
    for site in &found.sites {
        let of = stacks(&taken, &groups, &site.name);
        let is_of = |block: &&crate::LiveBlock| of.contains(&taken.totals[block.of as usize].key);
        assert_eq!(taken.blocks.iter().filter(is_of).map(|block| block.size).sum::<u64>(), site.live, "{}", site.name);
        assert_eq!(named(&found, &site.name).live, site.live);
    }
    assert_eq!(found.sites.len(), 3, "{:?}", found.sites);
    assert!(stacks(&taken, &groups, "nothing").is_empty());
    let mut twice = found.clone();
    twice.sites.push(twice.sites[0].clone());
    let (one, both) = (&found.sites[0], named(&twice, &found.sites[0].name));
    assert_eq!((both.blocks, both.share.pinned), (2 * one.blocks, 2 * one.share.pinned));
}
