//! `install!(jemalloc, tuned)` in a process of its own: the set is in force, and a setting of the program replaces the
//! set's.
#![cfg(feature = "jemalloc")]

use allocanary::tuning;

allocanary::install!(jemalloc, tuned, dirty_decay_ms = 2000, give_back_every_ms = 50);

#[test]
fn the_set_is_in_force_but_for_what_the_program_sets() {
    tuning::check().unwrap();
    assert_eq!(tuning::most_arenas().unwrap(), Some(allocanary::container::Cpus::here().arenas(1)));
    let settings = tuning::settings().unwrap();
    for (name, value) in [("tcache_max", "4096"), ("dirty_decay_ms", "2000"), ("background_thread", "true")] {
        assert_eq!(settings[name], value, "{name}");
    }
}

/// What `doctor PID` reads from outside, without symbols.
#[test]
fn what_code_sets_can_be_read_in_the_process() {
    let pid = std::process::id();
    let surroundings = allocanary_doctor::host::Surroundings::of(pid);
    let notices = allocanary_doctor::process::ProcessFacts::look_at(pid, surroundings).unwrap().notices;
    assert_eq!(notices.len(), 1, "{notices:?}");
    let arenas = allocanary::container::Cpus::here().arenas(1);
    assert!(!notices[0].preload && notices[0].allocator == "jemalloc", "{notices:?}");
    let line = format!("background_thread=true,dirty_decay_ms=2000,narenas={arenas},tcache_max=4096");
    assert_eq!(notices[0].line(), line);
}
