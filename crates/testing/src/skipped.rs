//! The message of a test that cannot run here.

use std::fmt::Display;
use std::io::{self, Write};
use std::thread;

/// Prints that this test is skipped, and why. It writes to standard error directly, because the test harness hides what a passing test
/// prints.
///
/// Panics if the variable `ALLOCANARY_REQUIRE_ALL` is 1, for a machine on which every test must run.
pub fn skipped(why: impl Display) {
    skipped_where(std::env::var("ALLOCANARY_REQUIRE_ALL").is_ok_and(|all| all == "1"), why);
}

fn skipped_where(all_are_required: bool, why: impl Display) {
    let current = thread::current();
    let test = current.name().unwrap_or("a test");
    if all_are_required {
        panic!(
            "{test} cannot run here: {why}. ALLOCANARY_REQUIRE_ALL=1 requires it: provide what it needs, or unset that"
        );
    }
    let _ = writeln!(io::stderr(), "skipped {test}: {why}");
}

#[test]
fn a_skipped_test_fails_where_all_are_required() {
    skipped_where(false, "for the test of skipping itself");
    let panic = std::panic::catch_unwind(|| skipped_where(true, "no tool")).expect_err("it is required");
    let said = panic.downcast_ref::<String>().expect("words");
    assert!(
        said.contains("skipped::a_skipped_test_fails") && said.contains("no tool. ALLOCANARY_REQUIRE_ALL=1"),
        "{said}"
    );
}
