//! Prints which allocator `install!()` takes: the one that the features choose. Exits with 1 if the argument names another one, or if it is
//! not installed.

use std::process::ExitCode;

use allocanary::CHOSEN;

allocanary::install!();

fn main() -> ExitCode {
    println!("{CHOSEN}");
    let is_wanted = std::env::args().nth(1).is_some_and(|wanted| wanted == CHOSEN);
    match allocanary::tuning::check() {
        Ok(()) if is_wanted => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
