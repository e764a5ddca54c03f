//! Calls a process's allocator again and again, and prints a row of the table in docs/lab/give-back.md. `storm ALLOCATOR PID CALLS NAME`.

#![allow(clippy::disallowed_methods, reason = "tests start programs, and make what these look at")]

use std::time::Duration;

use allocanary_inside::give_back::{Limits, Refusal, carry_out, remedy};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [allocator, pid, calls, name] = words.as_slice() else {
        eprintln!("storm: wanted ALLOCATOR PID CALLS NAME");
        std::process::exit(2);
    };
    let (Some(remedy), Ok(pid), Ok(calls)) = (remedy::of(allocator), pid.parse::<u32>(), calls.parse::<u32>()) else {
        eprintln!("storm: wanted an allocator with a remedy and two numbers; found {words:?}");
        std::process::exit(2);
    };
    let limits = Limits { patience: Duration::from_secs(10), every: None };
    let (mut took, mut no_thread, mut others) = (Vec::new(), 0, Vec::new());
    for _ in 0..calls {
        match carry_out(pid, remedy, &(remedy.calls)(), limits) {
            Ok(done) if done.failure().is_none() => took.push(done.took.as_micros()),
            Ok(done) => others.push(format!("{:?}", done.failure())),
            Err(Refusal::NoThread { .. }) => no_thread += 1,
            Err(refusal) => others.push(refusal.to_string()),
        }
    }
    took.sort_unstable();
    let at = |share: usize| took.get(took.len().saturating_sub(1) * share / 100).copied().unwrap_or(0);
    let runs = if std::path::Path::new(&format!("/proc/{pid}")).exists() { "yes" } else { "**no**" };
    println!(
        "| {name} | {calls} | {} | {no_thread} | {} | {} | {} | {runs} |",
        took.len(),
        others.len(),
        at(50),
        at(100)
    );
    others.dedup();
    others.iter().take(5).for_each(|other| eprintln!("{name}: {other}"));
}
