//! Property tests that can run for a given time, and that print how to repeat a failure. The panic of a failure shows the smallest input
//! that fails, and the seed that leads to it.
//!
//! By default each run draws the same values, because a random failure would stop a change that did not cause it.
//!
//! - `ALLOCANARY_FUZZ_SEED=n` draws the values of seed n.
//! - `ALLOCANARY_FUZZ_SECONDS=60` draws new values for 60 seconds, from one seed after another. The first seed is `ALLOCANARY_FUZZ_SEED`,
//!   or a random one. The command that repeats the run is printed first, because a test that hangs or aborts prints nothing later. It goes
//!   to standard error directly, because `cargo test` captures what a test prints.

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::io::{Write, stderr};
use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestRunner};

/// The command that runs the tests in the same way as now: under Miri, a seed draws other values than without it.
const CARGO_TEST: &str = if cfg!(miri) {
    "MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --no-default-features --features leaks,arena,sort-buffer,blob-tree"
} else {
    "cargo test --release --workspace --features prometheus,leaks"
};

/// Checks `property` on `cases` values of each seed. Under Miri, which is slow, there are `miri` values instead. The name of the test must
/// be `fuzz_...`: `just fuzz` finds these tests by name.
pub fn holds<S: Strategy>(cases: u32, miri: u32, values: S, property: impl Fn(S::Value)) {
    let seconds = number("ALLOCANARY_FUZZ_SECONDS").unwrap_or(0);
    let until = Instant::now() + Duration::from_secs(seconds);
    let new = || if seconds > 0 { RandomState::new().hash_one(0) } else { 1 };
    let mut seed = number("ALLOCANARY_FUZZ_SEED").unwrap_or_else(new);
    let cases = if cfg!(miri) { miri } else { cases };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("the test");
    assert!(test.contains("::fuzz_"), "wanted a test named `fuzz_...`, found `{test}`");
    let again = |seed, seconds| {
        let seconds = if seconds > 0 { format!("ALLOCANARY_FUZZ_SECONDS={seconds} ") } else { String::new() };
        let target = if env::args().next().is_some_and(|path| path.contains("/it-")) { "--test it" } else { "--lib" };
        format!("{seconds}ALLOCANARY_FUZZ_SEED={seed} {CARGO_TEST} {target} -- --exact {test}")
    };
    if seconds > 0 {
        let _ = writeln!(stderr(), "{}", again(seed, seconds));
    }
    loop {
        if let Err(failed) = with_seed(seed, cases, &values, &property) {
            panic!("{failed}\nagain: {}", again(seed, 0));
        }
        if Instant::now() >= until {
            return;
        }
        seed = seed.wrapping_add(1);
    }
}

fn with_seed<S: Strategy>(seed: u64, cases: u32, values: &S, property: &impl Fn(S::Value)) -> Result<(), String> {
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_time: 10_000, // milliseconds
        ..Config::default()
    };
    let checked = TestRunner::new(config).run(values, |value| {
        property(value);
        Ok(())
    });
    checked.map_err(|failed| failed.to_string())
}

/// The number in a variable. Panics if the variable contains something else: otherwise the test would run with another seed than the user
/// wants.
fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}: wanted a number, found `{text}`")))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_seed_draws_the_same_values_again_and_finds_the_same_failure() {
        let drawn = |seed| {
            let all = Mutex::new(Vec::new());
            with_seed(seed, 20, &(0..1000_u32), &|value| all.lock().unwrap().push(value)).unwrap();
            all.into_inner().unwrap()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
        let failed = with_seed(7, 200, &(0..1000_u32), &|value| assert!(value < 500)).unwrap_err();
        assert!(failed.contains("minimal failing input: 500"), "{failed}");
    }

    #[test]
    fn fuzz_a_failure_says_what_draws_it_again() {
        let failed = std::panic::catch_unwind(|| holds(20, 2, 0..1000_u32, |_| panic!("on purpose"))).unwrap_err();
        let said = failed.downcast_ref::<String>().unwrap();
        let again = said.lines().last().unwrap_or_default();
        assert!(again.starts_with("again: ALLOCANARY_FUZZ_SEED="), "{said}");
        assert!(again.contains("miri") == cfg!(miri), "{said}");
        assert!(again.ends_with("--exact fuzz::tests::fuzz_a_failure_says_what_draws_it_again"), "{said}");
    }
}
