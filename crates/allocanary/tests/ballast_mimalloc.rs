//! `Ballast` over mimalloc, in a process of its own.
#![cfg(feature = "mimalloc")]

mod ballast;

use std::time::Duration;

use allocanary::Ballast;
use allocanary::tuning::{Error, Pages, decay};
use allocanary_text::units::Bytes;
use ballast::{BURST, alone, through_a_burst};

// Pages of 4 KiB, so that faults count bytes, and an immediate purge, so that only the guard keeps memory.
allocanary::install!(mimalloc, allow_thp = 0, purge_delay = 0);

#[test]
fn freed_memory_is_kept_inside_the_guard_and_goes_after_it() {
    let _alone = alone();
    let keep = || Ballast::keep(Bytes(BURST)).unwrap();
    through_a_burst(keep, |kept| {
        assert!(decay(Pages::Dirty).unwrap().unwrap() > Duration::from_secs(20 * 24 * 3600));
        assert_eq!((kept.at_most(), kept.lost()), (None, None));
        let error = kept.settle().unwrap_err();
        assert!(matches!(error, Error::Unsupported { allocator: "mimalloc", .. }), "{error}");
    });
    assert_eq!(decay(Pages::Dirty), Ok(Some(Duration::ZERO)));
}
