//! A service that leaves jemalloc's statistics out (without the feature `stats`): what needs them says so, and all else works.
//!
//! `cargo test --release --no-default-features --features jemalloc --test without_stats`
#![cfg(all(feature = "jemalloc", not(feature = "stats")))]

use allocanary::Ballast;
use allocanary::tuning::{self, Error};
use allocanary_text::units::Bytes;

allocanary::install!(jemalloc, narenas = 3);

fn is_told<T: std::fmt::Debug>(found: Result<T, Error>) {
    let error = found.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
    assert!(error.to_string().contains("turn on allocanary's feature `stats`"), "{error}");
}

#[test]
fn what_needs_statistics_says_which_feature_brings_them() {
    is_told(tuning::statistics());
    let kept = Ballast::keep(Bytes(1 << 20)).unwrap();
    is_told(kept.settle());
}

#[test]
fn settings_and_purges_need_none() {
    tuning::check().unwrap();
    assert_eq!(tuning::most_arenas(), Ok(Some(3)));
    tuning::purge().unwrap();
}
