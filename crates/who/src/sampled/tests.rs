use super::*;
use allocanary_profile::reader::{RawFrame, SampledBlock};

/// Two sites: one with ten samples of small blocks, one with a block that is larger than the mean distance.
fn reading() -> NamedProfile {
    let frame = |parent, pc, bytes, blocks| RawFrame { parent, pc, bytes, blocks };
    let frames =
        vec![RawFrame::default(), frame(0, 0x10, 0.0, 0.0), frame(1, 0x20, 90e6, 9e5), frame(1, 0x30, 64e6, 1.0)];
    let sample = |at: u64, size, frame, age| SampledBlock { address: 0x1000 * at, size, frame, age };
    let mut samples: Vec<SampledBlock> = (1..11).map(|at| sample(at, 100, 2, at)).collect();
    samples.extend([sample(11, 64 << 20, 3, 99), sample(12, 100, 0, 5)]);
    NamedProfile::of(TableProfile {
        pid: u32::MAX,
        mean: 1 << 20,
        samples,
        frames,
        tables: 1,
        ..TableProfile::default()
    })
}

#[test]
fn sites_have_estimates_with_intervals() {
    let reading = reading();
    let mut names = reading.names();
    let groups = reading.groups(&mut names, By::Function, &Folding::default());
    let found = reading.sites("service", By::Function, &groups, names.notes());
    let seen: Vec<_> = found.sites.iter().map(|site| (site.name.as_str(), site.sum.samples, site.oldest)).collect();
    assert_eq!(seen, [("0x30", 1, 99), ("0x20", 10, 10), ("(no stack)", 1, 5)]);
    let [large, small, _] = &found.sites[..] else { panic!("{found:?}") };
    let live = large.live();
    assert!(live.bytes == live.low && live.bytes == f64::from(64 << 20), "{live:?}");
    let live = small.live();
    assert!((live.bytes / f64::from(10 << 20) - 1.0).abs() < 1e-3 && live.low < 6e6 && live.high > 18e6, "{live:?}");
    assert_eq!((small.allocated, small.allocations), (90e6, 9e5));
    assert!(found.notes.iter().any(|note| note.starts_with("Samples are 1.00 MiB apart")), "{:?}", found.notes);
    assert_eq!((found.all.samples, reading.of_stacks().len()), (12, 3));
    let of = reading.of_stacks().into_iter().find(|of| of.stack == 2).unwrap();
    assert_eq!((of.allocated, of.live.1 >> 20), ((900_000, 90_000_000), 10));
}

#[test]
fn what_limits_a_profile_is_said() {
    let mut reading = reading();
    reading.profile.is_late = true;
    let groups = reading.groups(&mut reading.names(), By::Function, &Folding::default());
    let notes = reading.sites("service", By::Function, &groups, Vec::new()).notes;
    let has = |text: &str| assert!(notes.iter().any(|note| note.contains(text)), "{text}: {notes:?}");
    ["Samples are", "turned on while the program ran", "as their intervals say"].into_iter().for_each(has);
}
