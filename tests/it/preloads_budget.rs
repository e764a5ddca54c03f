//! Preloads with a memory budget. In: a program in C that allocates more than the budget, or far less. Out: counts in the proof,
//! and one line. `examples/budget` shows, in a control group, which programs it saves.

use std::fs;

use serde_json::Value;
use tempfile::tempdir;

use super::preloads::{at, clean, compiled, proof, ran, text};
use super::support::ours;

/// The program's lines of the proof at its end, and its standard error.
struct Ended {
    lines: Vec<Value>,
    said: String,
}

impl Ended {
    /// A count of the first process that ended.
    fn count(&self, name: &str) -> u64 {
        self.of(0, name)
    }

    /// The time that the first process that ended spent on purges.
    fn spent_seconds(&self) -> f64 {
        at(&self.lines, "exit")[0]["memory_budget"]["spent_seconds"].as_f64().unwrap()
    }

    fn of(&self, process: usize, name: &str) -> u64 {
        let lines = at(&self.lines, "exit");
        lines[process]["memory_budget"][name].as_u64().unwrap_or_else(|| panic!("{name}: {lines:?}"))
    }
}

/// Runs `budget.c` once under each allocator.
fn each(words: &[&str], settings: &str, mut check: impl FnMut(&str, Ended)) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("proof.jsonl");
    let Some(program) = compiled(folder.path(), "budget.c", &[]) else { return };
    for allocator in ours() {
        let _ = fs::remove_file(&path);
        let words = [&[program.to_str().unwrap()], words].concat();
        let mut command = clean(&words, folder.path(), Some(allocator));
        let output = ran(command.env("ALLOCANARY_PRELOAD", settings).env("ALLOCANARY_PROOF", &path));
        assert!(output.status.success(), "{allocator}: {}", text(&output.stderr));
        check(allocator, Ended { lines: proof(&path), said: text(&output.stderr) });
    }
}

/// The one line, for a limit of 16 MiB.
const LINE: &str = "allocanary: memory budget: over 95 % of 16 MiB are in use after all kept pages were given back: raise the limit, \
                    or hold less\n";

#[test]
fn far_below_the_limit_readings_are_64_mib_apart_and_nothing_else_is_done() {
    each(&["far"], "memory_budget=1000GiB", |allocator, ended| {
        assert_eq!(at(&ended.lines, "load")[0]["memory_budget"]["limit_bytes"], 1000_u64 << 30, "{allocator}");
        let counts = ["looks", "levels", "purges", "threads", "unread"].map(|name| ended.count(name));
        // The first block, and each 64 after it.
        assert_eq!(counts, [10, 0, 0, 0, 0], "{allocator}");
        assert_eq!(ended.said, "", "{allocator}");
    });
}

#[test]
fn a_limit_below_what_the_program_holds_is_said_once() {
    each(&["below"], "memory_budget=16MiB", |allocator, ended| {
        assert_eq!((ended.count("limit_bytes"), ended.count("levels")), (16 << 20, 1), "{allocator}");
        assert!((1..=3).contains(&ended.count("purges")), "{allocator}: {}", ended.count("purges"));
        assert!(ended.spent_seconds() > 0.0);
        assert_eq!(ended.said, LINE, "{allocator}");
    });
}

#[test]
fn what_is_not_touched_or_cannot_be_had_is_not_told_of() {
    each(&["sparse"], "memory_budget=16MiB", |allocator, ended| {
        assert_eq!((ended.count("levels"), ended.said.as_str()), (0, ""), "{allocator}");
    });
}

#[test]
fn nothing_is_given_back_in_a_signal_handler() {
    each(&["handler"], "memory_budget=16MiB", |allocator, ended| {
        assert!(ended.count("looks") >= 1, "{allocator}: it read");
        assert_eq!((ended.count("purges"), ended.said.as_str()), (0, ""), "{allocator}");
    });
    each(&["handler", "and outside"], "memory_budget=16MiB", |allocator, ended| {
        assert_eq!((ended.count("purges"), ended.said.as_str()), (1, LINE), "{allocator}");
    });
}

#[test]
fn a_fork_s_child_has_the_budget_and_counts_of_its_own() {
    each(&["fork"], "memory_budget=16MiB", |allocator, ended| {
        assert_eq!((ended.of(0, "purges"), ended.of(0, "levels")), (1, 1), "{allocator}: the child");
        assert_eq!((ended.of(1, "purges"), ended.of(1, "levels")), (0, 0), "{allocator}: the parent");
        assert_eq!(ended.said, LINE, "{allocator}");
    });
}

#[test]
fn each_thread_gives_back_once_at_an_allocation_after_all_were_asked() {
    each(&["threads"], "memory_budget=128MiB", |allocator, ended| {
        // Each of the eight threads gives memory back at the first level that is not calm.
        assert_eq!(ended.count("threads"), 8, "{allocator}");
    });
}

#[test]
fn what_is_freed_above_90_percent_goes_back_at_once() {
    each(&["kept"], "memory_budget=64MiB", |allocator, ended| {
        assert!(ended.count("purges") >= 1, "{allocator}");
    });
}

#[test]
fn off_is_as_without() {
    each(&["below"], "memory_budget=16MiB,memory_budget=off", |allocator, ended| {
        assert!(ended.lines.iter().all(|line| line.get("memory_budget").is_none()), "{allocator}: {:?}", ended.lines);
        assert_eq!(ended.said, "", "{allocator}");
    });
    each(&["below"], "memory_budget=80%", |allocator, ended| {
        let wanted = "wanted container, off, or a size of at least 16MiB such as 1GiB";
        let problem = at(&ended.lines, "load")[0]["problem"].as_str().unwrap().to_string();
        assert!(problem.contains("`memory_budget=80%`") && problem.ends_with(wanted), "{allocator}: {problem}");
        assert!(ended.said.contains(wanted), "{allocator}: {}", ended.said);
    });
}
