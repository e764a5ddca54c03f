//! `install!(system, memory_budget = ...)` in a separate process: each test is a child, because a process has only one budget.

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use allocanary::tuning::{self, Level};

allocanary::install!(system, memory_budget = "100GiB");

/// A child's standard output and standard error.
fn child(name: &str, budget: Option<&str>) -> (String, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
        .env_remove("ALLOCANARY_MEMORY_BUDGET");
    let output = command.envs(budget.map(|budget| ("ALLOCANARY_MEMORY_BUDGET", budget))).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    (text(&output.stdout), text(&output.stderr))
}

/// Allocates 64 MiB, and touches them: untouched memory is not reported.
fn allocate() -> Vec<u8> {
    std::hint::black_box(vec![1; 64 << 20])
}

#[test]
#[ignore = "run by the others as a child"]
fn pressed() {
    static CAME: Mutex<Vec<Level>> = Mutex::new(Vec::new());
    static WITHIN: AtomicU32 = AtomicU32::new(0);
    CAME.lock().unwrap().reserve(16);
    tuning::on_pressure(|level| {
        assert_eq!(WITHIN.fetch_add(1, Ordering::SeqCst), 0, "not within itself");
        drop(allocate());
        WITHIN.fetch_sub(1, Ordering::SeqCst);
        CAME.lock().unwrap().push(level);
        panic!("and it may panic");
    })
    .unwrap();
    let blocks = [allocate(), allocate()];
    assert_eq!(blocks.map(|block| block.len()), [64 << 20; 2], "the allocation is as without");
    println!("came {:?}", CAME.lock().unwrap());
}

#[test]
fn the_program_is_told_once_and_may_allocate_and_panic() {
    let (out, err) = child("pressed", Some("16MiB"));
    assert!(out.contains("came [Last]"), "{out}");
    assert_eq!(err.matches("allocanary: memory budget: over 95 % of 16 MiB are in use").count(), 1, "{err}");
    let (out, err) = child("pressed", None);
    assert!(out.contains("came []") && !err.contains("budget"), "{out}{err}");
}

#[test]
#[ignore = "run by the others as a child"]
fn checked() {
    println!("check {:?} told {:?}", tuning::check(), tuning::on_pressure(|_| ()));
}

#[test]
fn the_environment_wins_and_what_is_wrong_is_said() {
    let checked = |budget| child("checked", budget).0;
    assert!(checked(None).contains("check Ok(()) told Ok(())"), "{}", checked(None));
    let off = checked(Some("off"));
    assert!(off.contains("check Ok(()) told Err(Unsupported"), "{off}");
    let wrong = checked(Some("80%"));
    assert!(
        wrong.contains(
            "ALLOCANARY_MEMORY_BUDGET: wanted container, off, or a size of at least 16MiB such as 1GiB, found `80%`"
        ),
        "{wrong}"
    );
    assert!(wrong.contains("told Ok(())"), "the program's own is in force: {wrong}");
}

/// The gauges of a program with a budget.
#[cfg(feature = "prometheus")]
#[test]
fn the_metrics_page_has_the_budget() {
    use allocanary::metrics::AllocatorCollector;
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register_collector(Box::new(AllocatorCollector::new()));
    let mut page = String::new();
    prometheus_client::encoding::text::encode(&mut page, &registry).unwrap();
    for name in
        ["looks_total", "unread_total", "level_changes_total", "purges_total", "threads_total", "purge_seconds_total"]
    {
        let row = format!("\nallocanary_budget_{name}{{");
        assert!(page.contains(&row), "{name}: {page}");
    }
    let row = |name: &str| {
        let name = format!("allocanary_budget_{name}{{");
        let row = page.lines().find(|row| row.starts_with(&name)).unwrap_or_else(|| panic!("{name}: {page}"));
        row.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!([row("limit_bytes"), row("level")], [100 << 30, 0]);
}
