//! What `allocanary PROCESS` says that can be done, and whether the lines do it when they are pasted. In: programs in C. Out: JSON and
//! screens.

use std::path::Path;
use std::process::Command;

use allocanary_testing::programs::{Running, compiled_text};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use super::support::{Ran, allocanary, words};

/// It has MiB of free pages below a block that is live, holds a mapping by a variable, and has stacks of coroutines with guards: these
/// have nothing of a thread. With an argument that is a number, so many forked children have them, and it has none.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

char *pool_of_pages;
static char *blocks[4096];
char *last_block;

static void fill(void) {
    for (int i = 0; i < 4096; i++) blocks[i] = memset(malloc(16 << 10), 1, 16 << 10);
    last_block = memset(malloc(100), 1, 100);
    for (int i = 0; i < 4096; i++) free(blocks[i]);
    pool_of_pages = mmap(0, 96 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pool_of_pages, 1, 96 << 20);
    for (int i = 0; i < 16; i++) {
        char *stack = mmap(0, 260 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(stack, 4 << 10, PROT_NONE);
        memset(stack + (4 << 10), 1, 256 << 10);
    }
}

int main(int count, char **words) {
    int children = count > 1 ? atoi(words[1]) : 0;
    for (int i = 0; i < children; i++) {
        int ready[2];
        if (pipe(ready)) return 1;
        if (!fork()) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            fill();
            write(ready[1], "x", 1);
            for (;;) pause();
        }
        char one;
        if (read(ready[0], &one, 1) != 1) return 1;
    }
    if (!children) fill();
    puts("ready=1");
    fflush(stdout);
    getchar();
    return 0;
}
"#;

/// The program, running.
fn started(words: &[&str]) -> Option<(TempDir, Running)> {
    let folder = tempdir().unwrap();
    let program = compiled_text(folder.path(), "holds.c", PROGRAM, &["-O1"])?;
    let mut running = Running::start(Command::new(program).args(words).env_remove("LD_PRELOAD"));
    assert_eq!(running.counts()["ready"], 1);
    Some((folder, running))
}

fn said(line: &str) -> Ran {
    allocanary(Path::new("/"), words(line))
}

fn json(line: &str) -> Value {
    let ran = said(line);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn what_can_be_done_now_is_done_by_the_line_and_what_cannot_has_no_line() {
    let Some((_folder, process)) = started(&[]) else { return };
    let pid = process.pid();
    let stop =
        |signal: &str| assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
    let remedy = |document: &Value| {
        document["remedies"].as_array().unwrap().iter().find(|one| one["id"] == "give-back").cloned().unwrap()
    };
    // A stopped process makes no call.
    stop("-STOP");
    while !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ") {
        std::thread::yield_now();
    }
    let stopped = json(&format!("{pid} --json"));
    let refused = remedy(&stopped);
    assert_eq!(
        (&refused["check"], &refused["why"], &refused["lines"]),
        (&"refused".into(), &"it is stopped. Let it go on first: `kill -CONT`".into(), &Value::Array(Vec::new()))
    );
    assert!(!stopped["conclusion"].as_str().unwrap().contains(" now"), "{stopped}");
    let pasted = said(&format!("give-back {pid} --yes"));
    assert!(pasted.code == Some(1) && pasted.out.contains("it is stopped"), "{pasted:?}");
    stop("-CONT");
    let before = json(&format!("{pid} --json"));
    let can = remedy(&before);
    assert_eq!((&can["check"], &can["gives"]["bound"]), (&"passed".into(), &"exact".into()), "{can}");
    let expected = can["gives"]["reclaimable_bytes"].as_u64().unwrap();
    assert!((60 << 20..66 << 20).contains(&expected), "{expected}");
    let conclusion = before["conclusion"].as_str().unwrap();
    assert!(conclusion.contains(" MiB can go back now, with `malloc_trim(0)`"), "{conclusion}");
    let line = can["lines"][0]["text"].as_str().unwrap();
    let given = json(&format!("{} --yes --json", line.strip_prefix("allocanary ").unwrap()));
    let given = given["before_bytes"].as_u64().unwrap() - given["after_bytes"].as_u64().unwrap();
    assert!(given.abs_diff(expected) * 100 <= expected, "{given} were given, {expected} told");
}

#[test]
fn a_mapping_has_the_name_of_what_holds_it_and_a_guard_makes_no_thread() {
    let Some((_folder, process)) = started(&[]) else { return };
    let reading = json(&format!("{} --json", process.pid()))["reading"].clone();
    let area = |sort: &str| {
        reading["areas"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["sort"] == sort)
            .cloned()
            .unwrap_or_else(|| panic!("{sort}: {reading}"))
    };
    let own = area("unknown");
    let largest = &own["largest"][0];
    assert_eq!(largest["holder"], "`pool_of_pages` in holds", "{own}");
    assert!(largest["mapped_bytes"].as_u64() >= Some(96 << 20), "{own}");
    // 4 MiB of stacks of coroutines; the only thread's own stack is small.
    assert!(own["resident_bytes"].as_u64() >= Some(99 << 20), "{own}");
    assert!(area("stacks")["resident_bytes"].as_u64() < Some(1 << 20), "{reading}");
    let screen = said(&process.pid().to_string());
    assert!(
        screen.out.replace('\n', " ").contains("MiB own mappings (held by `pool_of_pages` in holds)"),
        "{}",
        screen.out
    );
    let heap = said(&format!("heap {}", process.pid()));
    let text = heap.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("mappings, the largest of 96.") && text.contains(" by `pool_of_pages` in holds"),
        "{}",
        heap.out
    );
}

#[test]
#[cfg(target_arch = "x86_64")]
fn children_that_have_the_memory_are_told_of_and_give_back_together() {
    let Some((_folder, process)) = started(&["3"]) else { return };
    let pid = process.pid();
    let first = said(&pid.to_string());
    let text = first.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("The 3 processes below it have ")
            && first.out.contains(&format!("\n  allocanary {pid} --tree\n")),
        "{}",
        first.out
    );
    let tree = said(&format!("{pid} --tree"));
    assert!(tree.out.contains(&format!("\n  allocanary give-back {pid} --tree\n")), "{}", tree.out);
    let dry = said(&format!("give-back {pid} --tree --dry-run"));
    assert!(dry.code == Some(0) && dry.out.contains(": 3 of 4 processes would give back 19"), "{dry:?}");
    let given = said(&format!("give-back {pid} --tree --yes"));
    assert!(given.code == Some(0) && given.out.contains("given back in 3 processes: 19"), "{given:?}");
}
