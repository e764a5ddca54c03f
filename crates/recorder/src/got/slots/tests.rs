use super::*;
use crate::got::definition;

extern "C" fn another_parent() -> libc::pid_t {
    -7
}

/// All words of this process that name a function, with their values.
fn words_of(name: &CStr) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    module::all(|_, module| {
        module.words(|place| {
            if place.name == name {
                found.push((place.at, word(place.at).load(SeqCst)));
            }
        });
        true
    });
    found
}

#[test]
fn words_of_this_process_are_changed_and_put_back() {
    static SLOTS: GotSlots = GotSlots::new();
    let before = words_of(c"getppid");
    assert!(!before.is_empty(), "this program calls it");
    // SAFETY: no argument.
    let parent = unsafe { libc::getppid() };
    let real = definition(c"getppid", 0).unwrap().at;
    let functions = [Replacement { name: c"getppid", real, ours: another_parent as *const () as usize }];
    // SAFETY: no other test of this binary opens a library or changes words, and the function has the same type.
    let changed = unsafe { SLOTS.change(&functions, 0, &[]) }.unwrap();
    assert!(changed.words >= 1 && changed.modules >= 1 && changed.left == 0, "{changed:?}");
    // SAFETY: no argument.
    assert_eq!(unsafe { libc::getppid() }, -7);
    // SAFETY: as above.
    let again = unsafe { SLOTS.change(&functions, 0, &[]) }.unwrap();
    assert_eq!((again.words, again.left), (0, 0), "a second look finds nothing more");
    // SAFETY: as above.
    let back = unsafe { SLOTS.put_back() }.unwrap();
    assert_eq!(back, PutBack { words: changed.words, others: 0, gone: 0 });
    assert_eq!(words_of(c"getppid"), before);
    // SAFETY: no argument.
    assert_eq!(unsafe { libc::getppid() }, parent);
}

#[test]
fn a_module_that_calls_another_function_of_the_name_is_left() {
    static SLOTS: GotSlots = GotSlots::new();
    let before = words_of(c"getpgrp");
    // SAFETY: no argument.
    let group = unsafe { libc::getpgrp() };
    let functions = [Replacement { name: c"getpgrp", real: [8, 0], ours: another_parent as *const () as usize }];
    // SAFETY: as above.
    let changed = unsafe { SLOTS.change(&functions, 0, &[]) }.unwrap();
    assert!(changed.words == 0 && changed.left >= 1, "{changed:?}");
    // SAFETY: no argument.
    assert_eq!((words_of(c"getpgrp"), unsafe { libc::getpgrp() }), (before, group));
}

/// The loader has made the table of this program read-only.
#[test]
fn a_protected_page_is_protected_again() {
    static SLOTS: GotSlots = GotSlots::new();
    let access = |at: usize| {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let is_there = |line: &&str| {
            let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let [from, to] = [from, to].map(|number| usize::from_str_radix(number, 16).unwrap());
            (from..to).contains(&at)
        };
        maps.lines().find(is_there).unwrap().split(' ').nth(1).unwrap().to_string()
    };
    // SAFETY: no argument.
    let _ = unsafe { libc::getegid() };
    let before: Vec<_> = words_of(c"getegid").into_iter().map(|(at, _)| (at, access(at))).collect();
    assert!(before.iter().any(|(_, access)| access == "r--p"), "{before:?}");
    let real = definition(c"getegid", 0).unwrap().at;
    let functions = [Replacement { name: c"getegid", real, ours: another_parent as *const () as usize }];
    // SAFETY: as above.
    let check = || words_of(c"getegid").into_iter().map(|(at, _)| (at, access(at))).collect::<Vec<_>>();
    // SAFETY: as above.
    unsafe { SLOTS.change(&functions, 0, &[]) }.unwrap();
    assert_eq!(check(), before);
    // SAFETY: as above.
    unsafe { SLOTS.put_back() }.unwrap();
    assert_eq!(check(), before);
}
