//! `install!(mimalloc, ...)` in a process of its own.
#![cfg(feature = "mimalloc")]

use std::process::Command;
use std::time::Duration;

use allocanary::tuning::{self, Error, Pages};

mod idling;
mod moments;

allocanary::install!(mimalloc, purge_delay = 123, arena_reserve = 67108864, allow_thp = 0);

fn report(variables: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "report_of_a_child", "--ignored", "--nocapture"])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "run by the others as a child"]
fn report_of_a_child() {
    println!("delay {:?} check {:?}", tuning::decay(Pages::Dirty).unwrap(), tuning::check());
}

#[test]
fn options_are_set_by_name_before_the_first_allocation() {
    // In a child, since another test changes the delay of this process.
    assert!(report(&[]).contains("delay Some(123ms) check Ok(())"), "{}", report(&[]));
    let settings = tuning::settings().unwrap();
    assert_eq!((settings["arena_reserve"].as_str(), settings["allow_thp"].as_str()), ("67108864", "0"));
}

#[test]
fn the_environment_wins_and_what_is_unknown_is_said() {
    assert!(report(&[("MIMALLOC_PURGE_DELAY", "7")]).contains("delay Some(7ms) check Ok(())"));
    let wrong = report(&[("MIMALLOC_PURGE_DELAI", "7")]);
    assert!(wrong.contains("mimalloc has no setting `purge_delai`"), "{wrong}");
}

#[test]
fn decay_is_the_purge_delay_and_the_rest_is_an_error() {
    tuning::set_decay(Pages::Dirty, Some(Duration::ZERO)).unwrap();
    assert_eq!(tuning::decay(Pages::Dirty), Ok(Some(Duration::ZERO)));
    tuning::set_decay(Pages::Dirty, None).unwrap();
    assert_eq!(tuning::decay(Pages::Dirty), Ok(None));
    for error in [
        tuning::set_decay(Pages::Muzzy, None).unwrap_err(),
        tuning::bind_current_thread(0).unwrap_err(),
        tuning::set_thread_cache(false).unwrap_err(),
        tuning::set_background_threads(true).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Unsupported { allocator: "mimalloc", .. }), "{error}");
    }
    assert_eq!(tuning::most_arenas(), Ok(None));
    assert!(tuning::statistics().unwrap().counters.resident.is_some());
    tuning::purge().unwrap();
}
