//! Measured checks: checks that need real readings, and so are not tests. In: names of checks. Out: a line for each, and exit code
//! 1 if one is broken. They run one after the other.
//!
//! Each check states two hypotheses and takes pairs of readings until the exact rank test decides between them: see
//! [`decision`].

mod canary;
mod check;
mod checks;
mod decision;
mod place;
mod problem;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use check::{Check, Outcome, passes};
use decision::{ALPHA, Decision, MOST};
use place::Place;
use problem::Problem;

/// Checks by real readings whether what allocanary says and does is so
///
/// The programs under test are the binaries next to this one: `cargo build --release --workspace --bins` builds all of them.
#[derive(Parser)]
struct Arguments {
    /// Run the checks whose name contains one of these [default: all]
    names: Vec<String>,
    /// Name the checks with what they decide between
    #[arg(long)]
    list: bool,
    /// Fail unless each check is decided, as a release wants it
    #[arg(long)]
    all_decided: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let wanted = |check: &&&Check| {
        arguments.names.is_empty() || arguments.names.iter().any(|name| check.name.contains(name.as_str()))
    };
    let chosen: Vec<&Check> = checks::ALL.iter().filter(wanted).copied().collect();
    if arguments.list {
        chosen
            .iter()
            .for_each(|check| println!("{}\n  works:  {}\n  broken: {}", check.name, check.works, check.broken));
        return ExitCode::SUCCESS;
    }
    if chosen.is_empty() {
        eprintln!("measured: no check is named {}; --list names all", arguments.names.join(" or "));
        return ExitCode::from(2);
    }
    let place = match Place::new() {
        Ok(place) => place,
        Err(why) => {
            eprintln!("measured: {why}");
            return ExitCode::from(2);
        }
    };
    let begun = Instant::now();
    let outcomes: Vec<Outcome> = chosen.iter().map(|check| shown(check, &place)).collect();
    println!("\n{:16} {:10} {:>5} {:>8} {:>6}", "check", "decision", "pairs", "ratio", "limit");
    for (check, outcome) in chosen.iter().zip(&outcomes) {
        println!(
            "{:16} {:10} {:>5} {:>8.3} {:>6}",
            check.name,
            word(&outcome.decision),
            outcome.pairs,
            outcome.ratio,
            check.limit
        );
    }
    println!("{} checks in {} s, at most {MOST} pairs each, alpha {ALPHA}", chosen.len(), begun.elapsed().as_secs());
    if passes(&outcomes, arguments.all_decided) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a check and returns the line with its result.
fn shown(check: &Check, place: &Place) -> Outcome {
    let on_terminal = std::io::stderr().is_terminal();
    let outcome = check.run(place, &mut |pairs| {
        if on_terminal {
            eprint!("\r{}: pair {pairs} of at most {MOST}", check.name);
            let _ = std::io::stderr().flush();
        }
    });
    if on_terminal {
        eprint!("\r\x1b[K");
    }
    let said = match &outcome.decision {
        Ok(Decision::Works) => check.works.to_string(),
        Ok(Decision::Broken) => check.broken.to_string(),
        Ok(Decision::Undecided) => format!("neither is shown: {}; {}", check.works, check.broken),
        Err(Problem::Skipped(why) | Problem::Failed(why)) => why.clone(),
    };
    println!("{} {}: {said}", check.name, word(&outcome.decision));
    outcome
}

fn word(decision: &Result<Decision, Problem>) -> &'static str {
    match decision {
        Ok(Decision::Works) => "works",
        Ok(Decision::Broken) => "BROKEN",
        Ok(Decision::Undecided) => "undecided",
        Err(Problem::Skipped(_)) => "skipped",
        Err(Problem::Failed(_)) => "FAILED",
    }
}
