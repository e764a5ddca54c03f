use allocanary_who::what_if::ReplayHeap;

use super::super::tests::what_if;
use super::*;

const MIB: u64 = 1 << 20;

/// The advice if survivors and the whole site save this many of 100 MiB: of resident pages, and of pages with blocks.
fn advice(survivors: Option<(i64, i64)>, whole: (i64, i64), change: fn(&mut WhatIf)) -> Option<Advice> {
    let heaps = |(resident, holding): (i64, i64)| {
        let left = |all: i64, saved: i64| (all - saved) as u64 * MIB;
        vec![
            ReplayHeap { resident: left(100, resident), holding: left(90, holding), cpu: 1.0, ..ReplayHeap::default() };
            5
        ]
    };
    let mut one = what_if(heaps((0, 0)), survivors.map_or(Vec::new(), heaps), heaps(whole));
    change(&mut one);
    let Ok((_, ways)) = &one.replays else { unreachable!("it has replays") };
    Advice::of(&one, &Changes::of(ways).unwrap())
}

const SAME: fn(&mut WhatIf) = |_| ();

#[test]
fn what_stays_is_kept_apart_where_the_whole_site_elsewhere_is_no_better() {
    let separate = Some(Advice::Separate { is_better: true });
    assert_eq!(advice(Some((40, 40)), (0, 0), SAME), separate);
    assert_eq!(advice(Some((40, 40)), (-9, -9), SAME), separate);
    assert_eq!(advice(Some((40, 40)), (19, 19), SAME), separate, "less than half");
    // In some replays with the whole site elsewhere, the heap keeps much less.
    let of_some: fn(&mut WhatIf) = |one| {
        let Ok((_, ways)) = &mut one.replays else { return };
        ways.whole[..2].iter_mut().for_each(|heap| heap.resident /= 2);
    };
    assert_eq!(advice(Some((40, 40)), (0, 0), of_some), Some(Advice::Separate { is_better: false }));
    assert_eq!(advice(Some((40, 40)), (21, 21), SAME), Some(Advice::Arena));
    assert_eq!(advice(Some((1, 1)), (30, 30), SAME), Some(Advice::Arena));
}

#[test]
fn a_site_of_short_lives_is_advised_to_make_fewer_blocks() {
    assert_eq!(advice(None, (30, 30), SAME), Some(Advice::Reuse));
    assert_eq!(
        advice(Some((0, 0)), (30, 30), |one| one.site.short = 95 * one.site.allocations / 100),
        Some(Advice::Reuse)
    );
    assert_eq!(advice(Some((0, 0)), (30, 30), |one| one.site.short = one.site.allocations / 2), Some(Advice::Arena));
}

#[test]
fn what_the_allocator_keeps_is_no_matter_of_the_site() {
    assert_eq!(advice(Some((0, 40)), (0, 0), SAME), Some(Advice::Settings));
    assert_eq!(advice(None, (-5, 30), SAME), Some(Advice::Settings));
    assert_eq!(advice(Some((0, 40)), (10, 10), SAME), Some(Advice::Settings), "what a pool saves is the smaller part");
    assert_eq!(advice(Some((0, 40)), (25, 25), SAME), Some(Advice::Arena));
}

#[test]
fn settings_are_no_advice_where_one_of_five_replays_gives_back_what_is_free() {
    let one_saves = |mib: u64, whole: (i64, i64)| {
        let mut one = what_if(five(100, 90), five(100, 50), five(100 - whole.0 as u64, 90 - whole.1 as u64));
        let Ok((_, ways)) = &mut one.replays else { unreachable!("it has replays") };
        ways.survivors[0].resident -= mib * MIB;
        let Ok((_, ways)) = &one.replays else { unreachable!("it has replays") };
        Advice::of(&one, &Changes::of(ways).unwrap())
    };
    fn five(resident: u64, holding: u64) -> Vec<ReplayHeap> {
        vec![ReplayHeap { resident: resident * MIB, holding: holding * MIB, cpu: 1.0, ..ReplayHeap::default() }; 5]
    }
    assert_eq!(one_saves(40, (0, 0)), None);
    assert_eq!(one_saves(20, (0, 0)), None, "the half");
    assert_eq!(one_saves(19, (0, 0)), Some(Advice::Settings));
    assert_eq!(one_saves(40, (10, 10)), None, "whatever the whole site saves");
}

#[test]
fn where_nothing_is_saved_it_depends_on_what_the_site_holds() {
    let pins = |pinned: u64, alone: u64| {
        let mut one = what_if(vec![heap(); 5], vec![heap(); 5], vec![heap(); 5]);
        (one.share.pinned, one.share.alone) = (pinned * MIB, alone * MIB);
        let Ok((_, ways)) = &one.replays else { unreachable!("it has replays") };
        Advice::of(&one, &Changes::of(ways).unwrap())
    };
    fn heap() -> ReplayHeap {
        ReplayHeap { resident: 100 * MIB, holding: 90 * MIB, cpu: 1.0, ..ReplayHeap::default() }
    }
    assert_eq!(pins(1, 1), Some(Advice::Keep));
    assert_eq!(pins(30, 1), Some(Advice::Shared));
    assert_eq!(pins(30, 20), None, "it is not known why");
}

#[test]
fn every_advice_is_of_two_sentences_at_most() {
    let one = what_if(Vec::new(), Vec::new(), Vec::new());
    for advice in [
        Advice::Separate { is_better: true },
        Advice::Arena,
        Advice::Reuse,
        Advice::Settings,
        Advice::Shared,
        Advice::Keep,
    ] {
        let text = advice.text(&one);
        assert!(text.ends_with('.') && text.matches(". ").count() <= 1 && text.contains("`_sdsnewlen`"), "{text}");
    }
}
