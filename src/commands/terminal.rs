//! The user's terminal. In: bytes. Out: bytes on standard output, and the terminal's colours and width.

use std::io::{ErrorKind, IsTerminal, Write, stdout};
use std::process::ExitCode;

use allocanary_kernel::terminal::{Look, harmless_lines};
use allocanary_study::error::{Error, Result};

/// Writes to standard output. A reader that closes the pipe early (`| head`) is not an error.
pub fn print(bytes: &[u8]) -> Result<ExitCode> {
    let mut out = stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Error::file("standard output", "writing", error)),
    }
}

/// Writes text of our own, with texts from outside in it, to standard output. It has no colours.
pub fn print_plain(text: &str) -> Result<ExitCode> {
    print(harmless_lines(text).as_bytes())
}

/// Writes a line to standard error. An error is ignored: there is no other place to report it.
pub fn tell(line: impl std::fmt::Display) {
    let line = line.to_string();
    let _ = writeln!(std::io::stderr(), "{}", harmless_lines(&line));
}

/// Colours if standard output is a terminal and NO_COLOR is not set; the terminal's width, or 80 if it is not a
/// terminal.
pub fn look() -> Look {
    let person = stdout().is_terminal();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let width = if person { comfy_table::Table::new().width() } else { None };
    Look { color: person && !no_color && !dumb, width: width.unwrap_or(80).clamp(60, 160) }
}
