//! A program that sets a filter of system calls: a preload must not make calls that the program would not make.

use tempfile::tempdir;

use super::preloads::{clean, compiled, ran, text};
use super::support::ours;

#[test]
fn a_program_in_a_sandbox_answers_as_without() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "sandbox.c", &[]) else { return };
    for way in ["prctl", "seccomp", "syscall"] {
        for allocator in ours() {
            let proof = folder.path().join(format!("{way}-{allocator}"));
            let mut command = clean(&[program.to_str().unwrap(), way], folder.path(), Some(allocator));
            let output = ran(command.env("ALLOCANARY_PRELOAD", "thread_idle=1ms").env("ALLOCANARY_PROOF", &proof));
            assert_eq!(text(&output.stdout), format!("done by {way}\n"), "{allocator}: {output:?}");
            let proof = std::fs::read_to_string(proof).unwrap();
            assert_eq!(
                proof.lines().count(),
                1,
                "no line at the end, which is written by calls of the preload: {proof}"
            );
        }
    }
}

/// Asking whether filters are supported is not a filter.
#[test]
fn a_program_without_a_sandbox_has_both_lines_of_its_proof() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "sandbox.c", &[]) else { return };
    let proof = folder.path().join("proof");
    let mut command = clean(&[program.to_str().unwrap(), "not"], folder.path(), Some("system"));
    let output = ran(command.env("ALLOCANARY_PRELOAD", "thread_idle=1ms").env("ALLOCANARY_PROOF", &proof));
    assert_eq!(text(&output.stdout), "done by not\n", "{output:?}");
    assert_eq!(std::fs::read_to_string(proof).unwrap().lines().count(), 2);
}
