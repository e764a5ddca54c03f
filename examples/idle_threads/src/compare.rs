//! Both kinds of processes, in turns. In: a runtime's run. Out: medians and their ratio.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use allocanary_sys::proc::ProcStatus;
use allocanary_sys::sys::usage;
use allocanary_text::units::Unit;

/// The default number of processes of each kind.
const REPEATS: usize = 10;

/// How long a process rests before its resident memory is read. This is longer than any hook waits.
const REST: Duration = Duration::from_secs(1);

/// What a process measured.
#[derive(Clone, Copy)]
struct Measured {
    per_second: f64,
    per_cpu_second: f64,
    idle_bytes: f64,
}

/// The main function of a runtime's binary. `run` puts its threads under load, and returns the number of requests that
/// they served, and the threads, which wait.
///
/// The argument is the number of processes of each kind. With the argument `once`, it measures in this process, and prints requests per
/// second, requests per second of processor time, and idle bytes.
pub fn main<T>(name: &str, run: impl FnOnce() -> (u64, T)) -> ExitCode {
    let problems = allocanary::tuning::check().err();
    if let Some(problem) = problems {
        eprintln!("{problem}");
        return ExitCode::from(2);
    }
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("once") {
        let measured = measure(run);
        println!("{} {} {}", measured.per_second, measured.per_cpu_second, measured.idle_bytes);
        return ExitCode::SUCCESS;
    }
    let repeats = match argument.as_deref().map_or(Ok(REPEATS), str::parse) {
        Ok(repeats) if repeats >= REPEATS => repeats,
        _ => {
            eprintln!("wanted a number of processes from {REPEATS} on, found `{}`", argument.unwrap_or_default());
            return ExitCode::from(2);
        }
    };
    let mut kept = Vec::new();
    let mut gave = Vec::new();
    for _ in 0..repeats {
        for (policy, all) in [("false", &mut kept), ("true", &mut gave)] {
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
    println!(
        "{name}: idle {} as it is, {} with threads that give back; requests per second {}, per second of processor time {} \
         (medians of {repeats} pairs of processes, brackets: 95 % interval)",
        Unit::Bytes.show(idle_kept),
        Unit::Bytes.show(idle_gave),
        times(&kept, &gave, |m| m.per_second),
        times(&kept, &gave, |m| m.per_cpu_second),
    );
    ExitCode::SUCCESS
}

fn measure<T>(run: impl FnOnce() -> (u64, T)) -> Measured {
    let started = Instant::now();
    let (requests, threads) = run();
    let per_second = requests as f64 / started.elapsed().as_secs_f64();
    let used = usage();
    let per_cpu_second = requests as f64 / ((used.user_us + used.system_us) as f64 / 1e6);
    std::thread::sleep(REST);
    let status = ProcStatus::own().expect("/proc is mounted");
    let idle_bytes = status.resident.expect("a process has a resident size") as f64;
    drop(threads);
    Measured { per_second, per_cpu_second, idle_bytes }
}

/// Runs this program once more, as a process of its own.
fn once(policy: &str) -> Result<Measured, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(this).arg("once").env("ALLOCANARY_THREADS_GIVE_BACK", policy).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Option<Vec<f64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[per_second, per_cpu_second, idle_bytes]) if output.status.success() => {
            Ok(Measured { per_second, per_cpu_second, idle_bytes })
        }
        _ => Err(format!("{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

/// The ratio of the second to the first process of each pair: `0.998x [0.991, 1.004]`. Both processes of a pair ran one after the other, so
/// a change of the machine's load affects both. The interval is that of the sign test: it contains the median of all such pairs in 95 % of
/// cases, whatever their distribution.
fn times(before: &[Measured], after: &[Measured], what: fn(&Measured) -> f64) -> String {
    let mut ratios: Vec<f64> = before.iter().zip(after).map(|(before, after)| what(after) / what(before)).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let skip = outside(ratios.len());
    format!("{:.3}x [{:.3}, {:.3}]", median(ratios.clone()), ratios[skip], ratios[ratios.len() - 1 - skip])
}

/// How many of `n` sorted values lie outside the 95 % interval of their median, on each side.
fn outside(n: usize) -> usize {
    // P(at most k of n fair coins are heads), added up until it exceeds 2.5 %.
    let mut term = 0.5_f64.powi(n as i32);
    let mut sum = term;
    let mut k = 0;
    while sum + term * (n - k) as f64 / (k + 1) as f64 <= 0.025 {
        term *= (n - k) as f64 / (k + 1) as f64;
        sum += term;
        k += 1;
    }
    k
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_tables_of_the_sign_test() {
        // Such tables name the first value inside: the 2nd of 10, the 6th of 20, the 14th of 40, the 40th of 100.
        assert_eq!([10, 20, 40, 100].map(outside), [1, 5, 13, 39]);
    }
}
