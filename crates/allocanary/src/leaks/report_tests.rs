//! Reports of synthetic records. In: records that no program made. Out: bounded, sorted, 80 columns.

use super::*;

/// `sites` stacks with one block each; the size is 1 for most and grows for the last ten.
fn synthetic(sites: usize) -> impl Fn(&mut dyn FnMut(&Record)) {
    move |see| {
        for site in 0..sites {
            let mut frames = [0; DEPTH];
            frames[..2].copy_from_slice(&[8 + site, 4]);
            let size = (site + 11).saturating_sub(sites).max(1) as u64;
            see(&Record { size, drawn: size, born: site as u64, frames });
        }
    }
}

#[test]
fn a_million_sites_are_twenty_and_a_line() {
    let sites = if cfg!(miri) { 100 } else { 1_000_000 };
    let report = Report::fold(&synthetic(sites), 2_000_000_000, 0, 20, (0, 0));
    assert_eq!((report.sites.len(), report.other_sites), (20, sites as u64 - 20));
    assert_eq!(
        report.sites.iter().take(10).map(|site| site.sum.bytes).collect::<Vec<_>>(),
        [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    );
    assert_eq!(report.total.blocks, sites as u64);
    assert_eq!(report.total.bytes, sites as u64 - 10 + 55);
    let listed: u64 = report.sites.iter().map(|site| site.sum.bytes).sum();
    assert_eq!(listed + report.others.bytes, report.total.bytes, "nothing is lost in the rest");
    let text = report.to_string();
    assert!(text.lines().count() < 70, "{text}");
    assert!(text.contains(&format!("at {} other sites", sites - 20)), "{text}");
}

#[test]
fn lines_fit_and_say_what_is_missing() {
    let mut report = Report::fold(&synthetic(3), 5_000_000_000, 512 << 10, 20, (12, 3482));
    report.sites[0].function = "a::very::long::path::".repeat(20);
    report.sites[0].file = Some("/home/user/".repeat(20).into());
    report.sites[0].line = Some(42);
    let text = report.to_string();
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    assert!(text.contains("one in 512 KiB: 3 blocks"), "{text}");
    assert!(text.contains("no room for 12 more (3.40 KiB)"), "{text}");
    assert!(text.contains("user/:42\n"), "{text}");
    let nothing = Report::fold(&|_| {}, 0, 0, 20, (0, 0)).to_string();
    assert_eq!(nothing, "alive: 0 B in 0 blocks at 0 sites\n");
}

#[test]
fn the_same_stack_is_one_site_with_its_ages() {
    let records = |see: &mut dyn FnMut(&Record)| {
        for born in [3, 1, 2] {
            see(&Record { size: 100, drawn: 100, born: born * 1_000_000_000, frames: [7; DEPTH] });
        }
    };
    let report = Report::fold(&records, 5_000_000_000, 0, 20, (0, 0));
    let [site] = &report.sites[..] else { panic!("{report}") };
    assert_eq!((site.sum.blocks, site.sum.bytes, site.sum.estimated_bytes), (3, 300, 300.0));
    assert_eq!((site.oldest.as_secs(), site.youngest.as_secs()), (4, 2));
}
