//! Prints which allocator `install!()` took: the one that the features choose. Exits with 1 if it is not the argument.

allocanary::install!();

fn main() -> std::process::ExitCode {
    let wanted = std::env::args().nth(1);
    let installed = allocanary::install::installed().map(|allocator| allocator.name());
    println!("{}", installed.unwrap_or("none"));
    if installed == wanted.as_deref() { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}
