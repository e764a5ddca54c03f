//! Preloads in programs with memory in unusual places: sets of descriptors at a page's end, stacks of coroutines,
//! libraries that find C's functions in another order. In: programs in C. Out: the same answers as without a preload.

use std::path::Path;
use std::process::Output;

use tempfile::tempdir;

use super::preloads::{clean, compiled, ran, text};
use super::support::ours;

/// The answer without a preload, and with each of them and these settings.
fn same_with_each(folder: &Path, words: &[&str], settings: &[&str]) {
    let without = ran(&mut clean(words, folder, None));
    assert!(without.status.success(), "without a preload: {}", said(&without));
    for allocator in ours() {
        for setting in settings {
            let with = ran(clean(words, folder, Some(allocator)).env("ALLOCANARY_PRELOAD", setting));
            assert!(with == without, "{allocator} {setting}: {:?}: {}", with.status, said(&with));
        }
    }
}

fn said(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn sets_of_descriptors_are_read_and_written_as_far_as_the_kernel_does() {
    let folder = tempdir().unwrap();
    let Some(sets) = compiled(folder.path(), "sets.c", &[]) else { return };
    same_with_each(folder.path(), &[sets.to_str().unwrap()], &["", "thread_idle=1ms"]);
}

#[test]
fn coroutines_wait_wherever_their_stacks_are() {
    let folder = tempdir().unwrap();
    let Some(coroutines) = compiled(folder.path(), "coroutines.c", &[]) else { return };
    same_with_each(folder.path(), &[coroutines.to_str().unwrap()], &["", "thread_idle=1ms"]);
}

#[test]
fn a_child_on_a_new_stack_returns_to_the_address_that_its_stack_has() {
    let folder = tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "new_stack.c", &[]) else { return };
    same_with_each(folder.path(), &[program.to_str().unwrap()], &["", "thread_idle=1ms"]);
}

#[test]
fn blocks_cross_to_libraries_that_are_opened_with_deep_binding() {
    let folder = tempdir().unwrap();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let library = ["-shared", "-fPIC"];
    let Some(built) = compiled(folder.path(), "deepbind.c", &[&library[..], &["-DINNER"]].concat()) else { return };
    std::fs::rename(built, inner.join("libinner.so")).unwrap();
    let rpath = "-Wl,--enable-new-dtags,-rpath,$ORIGIN/inner";
    let built = compiled(folder.path(), "deepbind.c", &[&library[..], &["-DLIBRARY", rpath]].concat()).unwrap();
    let opened = folder.path().join("libopened.so");
    std::fs::rename(built, &opened).unwrap();
    let program = compiled(folder.path(), "deepbind.c", &["-ldl"]).unwrap();
    same_with_each(folder.path(), &[program.to_str().unwrap(), opened.to_str().unwrap()], &[""]);
}

#[test]
fn the_second_names_of_glibcs_malloc_are_the_same_allocator() {
    let folder = tempdir().unwrap();
    let Some(names) = compiled(folder.path(), "second_names.c", &[]) else { return };
    same_with_each(folder.path(), &[names.to_str().unwrap()], &[""]);
}
