//! Both kinds of processes, in turns. In: a runtime's run. Out: medians and their ratio.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use allocanary_kernel::sys::{line_number, read_into};
use allocanary_kernel::units::Unit;

/// Processes of each kind.
const REPEATS: usize = 10;

/// The rest before the resident memory is read: longer than any hook waits.
const REST: Duration = Duration::from_secs(1);

/// What a process measured.
#[derive(Clone, Copy)]
struct Measured {
    per_second: f64,
    idle_bytes: f64,
}

/// The main function of a runtime's binary. `run` puts its threads under load, and returns the number of requests that
/// they served, and the threads, which wait.
///
/// With the argument `once` it measures in this process, and prints requests per second and idle bytes.
pub fn main<T>(name: &str, run: impl FnOnce() -> (u64, T)) -> ExitCode {
    let problems = allocanary::tuning::check().err();
    if let Some(problem) = problems {
        eprintln!("{problem}");
        return ExitCode::from(2);
    }
    if std::env::args().nth(1).as_deref() == Some("once") {
        let measured = measure(run);
        println!("{} {}", measured.per_second, measured.idle_bytes);
        return ExitCode::SUCCESS;
    }
    let mut kept = Vec::new();
    let mut gave = Vec::new();
    for _ in 0..REPEATS {
        for (policy, all) in [("keep", &mut kept), ("give_back", &mut gave)] {
            match once(policy) {
                Ok(measured) => all.push(measured),
                Err(problem) => {
                    eprintln!("{name}, {policy}: {problem}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    let of = |all: &[Measured], what: fn(&Measured) -> f64| median(all.iter().map(what).collect());
    let (idle_kept, idle_gave) = (of(&kept, |m| m.idle_bytes), of(&gave, |m| m.idle_bytes));
    let speed = of(&gave, |m| m.per_second) / of(&kept, |m| m.per_second);
    println!(
        "{name}: idle {} as it is, {} with threads that give back; requests per second {speed:.2}x ({REPEATS} processes each)",
        Unit::Bytes.show(idle_kept),
        Unit::Bytes.show(idle_gave),
    );
    ExitCode::SUCCESS
}

fn measure<T>(run: impl FnOnce() -> (u64, T)) -> Measured {
    let started = Instant::now();
    let (requests, threads) = run();
    let per_second = requests as f64 / started.elapsed().as_secs_f64();
    std::thread::sleep(REST);
    let mut status = [0; 4096];
    let status = read_into("/proc/self/status", &mut status).expect("/proc is mounted");
    let idle_bytes = line_number(status, b"VmRSS:").expect("a process has a resident size") as f64 * 1024.0;
    drop(threads);
    Measured { per_second, idle_bytes }
}

/// Runs this program once more, as a process of its own.
fn once(policy: &str) -> Result<Measured, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(this).arg("once").env("ALLOCANARY_IDLE", policy).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Option<Vec<f64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[per_second, idle_bytes]) if output.status.success() => Ok(Measured { per_second, idle_bytes }),
        _ => Err(format!("{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
