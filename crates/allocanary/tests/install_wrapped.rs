//! `install!` with a wrapper, in a process of its own: sizing, tuning and settings work as without, and the wrapper sees every
//! block.
#![cfg(all(feature = "jemalloc", feature = "leaks"))]

use std::hint::black_box;
use std::time::Duration;

use allocanary::tuning::{self, Pages};

allocanary::install!(
    jemalloc,
    narenas = per_cpu(2),
    tcache_max = "16KiB",
    dirty_decay_ms = 5000,
    wrap = allocanary::Leaks::sampling(4096) as ALLOCATOR
);

#[inline(never)]
fn leaks_blocks() {
    (0..1000).for_each(|_| std::mem::forget(black_box(vec![1_u8; 8192])));
}

#[test]
fn the_wrapped_allocator_is_installed_with_its_settings() {
    tuning::check().unwrap();
    assert_eq!(tuning::allocator().unwrap(), "jemalloc");
    let cpus = allocanary::container::Cpus::here();
    assert_eq!(tuning::most_arenas().unwrap(), Some(cpus.arenas(2)));
    assert_eq!(tuning::settings().unwrap()["tcache_max"], "16384", "a size with a unit is in bytes");
}

#[test]
fn the_wrapper_sees_what_the_program_allocates() {
    leaks_blocks();
    let report = ALLOCATOR.report_top(usize::MAX);
    let found = report.sites.iter().filter(|site| site.function.contains("leaks_blocks"));
    let estimated: f64 = found.map(|site| site.sum.estimated_bytes).sum();
    // 1,000 blocks, of which 86 % are sampled: five standard errors of the estimate are 6.4 %.
    let wanted = 1000.0 * 8192.0;
    assert!((estimated - wanted).abs() < 0.064 * wanted, "{estimated} of {wanted}: {report}");
    assert!(tuning::statistics().unwrap().counters.allocated.is_some_and(|bytes| bytes >= wanted as u64));
}

#[test]
fn settings_tell_what_is_in_force_now() {
    assert_eq!(tuning::settings().unwrap()["dirty_decay_ms"], "5000");
    tuning::set_decay(Pages::Dirty, Some(Duration::from_millis(250))).unwrap();
    assert_eq!(tuning::settings().unwrap()["dirty_decay_ms"], "250");
    tuning::set_decay(Pages::Dirty, Some(Duration::from_secs(5))).unwrap();
}
