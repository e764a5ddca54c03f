//! The number of processors that a program sees, and those that it can move to.

use std::fs;

use tempfile::tempdir;

use super::preloads::{clean, compiled, ran, text};
use super::support::ours;

/// The largest processor number that this host can ever have: the end of `0-3`.
fn last_processor() -> usize {
    let possible = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    possible.trim().rsplit(['-', ',']).next().unwrap().parse().unwrap()
}

#[test]
fn a_program_cannot_move_to_a_processor_that_is_only_emulated() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "cores.c", &[]) else { return };
    let cores = 40.max(last_processor() + 2);
    let there = (cores - 1).to_string();
    let answers = |allocator, cores: &str| {
        let mut command = clean(&[program.to_str().unwrap(), &there], folder.path(), allocator);
        text(&ran(command.env("ALLOCANARY_CORES", cores)).stdout)
    };
    let wanted = "there: Invalid argument\na thread there: Invalid argument\nboth: moved\nhere: moved\nruns here: 1\n";
    assert_eq!(answers(None, ""), format!("{wanted}sees 1\n"), "the kernel's own answers");
    for allocator in ours() {
        assert_eq!(answers(Some(allocator), &cores.to_string()), format!("{wanted}sees {cores}\n"), "{allocator}");
    }
}
