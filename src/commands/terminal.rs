//! The user's terminal. In: bytes. Out: bytes, and what the terminal can do.

use std::io::{ErrorKind, IsTerminal, Write, stdout};
use std::process::ExitCode;

use allocanary_kernel::terminal::Look;
use allocanary_study::error::{Error, Result};

/// Writes to standard output. A reader that has seen enough (`| head`) is no failure.
pub fn print(bytes: &[u8]) -> Result<ExitCode> {
    let mut out = stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Error::file("standard output", "writing", error)),
    }
}

/// Colours where a person looks and has not said NO_COLOR; the terminal's width, or 80 where there is none.
pub fn look() -> Look {
    let person = stdout().is_terminal();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let width = if person { comfy_table::Table::new().width() } else { None };
    Look { color: person && !no_color && !dumb, width: width.unwrap_or(80).clamp(60, 160) }
}
