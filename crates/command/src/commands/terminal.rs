//! The user's terminal. In: bytes. Out: bytes on standard output, and the terminal's colours and width.

use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;

use allocanary_rows::error::{Error, Result};
use allocanary_sys::sys;
use allocanary_text::outside::{TerminalStyle, harmless_but_colours, harmless_lines};
use allocanary_text::paste::CommandLine;

/// Writes to standard output. It is not an error if the reader closes the pipe early (`| head`).
pub fn print(bytes: &[u8]) -> Result<ExitCode> {
    let mut out = stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Error::file("standard output", "writing", error)),
    }
}

/// Writes text of ours that contains texts from outside to standard output. It has no colours.
pub fn print_plain(text: &str) -> Result<ExitCode> {
    print(harmless_lines(text).as_bytes())
}

/// Writes a text of a child to standard output. The child has read memory that may be hostile, so all control characters are removed but
/// those for colours.
pub fn print_answer(text: &str) -> Result<ExitCode> {
    print(harmless_but_colours(text).as_bytes())
}

/// Writes a line to standard error. An error is ignored, because it could not be reported anywhere else.
pub fn tell(line: impl std::fmt::Display) {
    let line = line.to_string();
    let _ = writeln!(std::io::stderr(), "{}", harmless_lines(&line));
}

/// Writes the commands that come next to standard error.
pub fn tell_next(lines: &[CommandLine]) {
    let lines: Vec<String> = lines.iter().map(CommandLine::to_string).collect();
    tell(format_args!("next: {}", lines.join("\n      ")));
}

/// Colours if standard output is a terminal and NO_COLOR is not set; and the width.
pub fn look() -> TerminalStyle {
    let person = stdout().is_terminal();
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    TerminalStyle { color: person && !no_color && !dumb, width: width().clamp(NARROWEST, WIDEST) }
}

/// The least width that tables need.
const NARROWEST: u16 = 60;
/// Sentences are hard to read on wider lines.
const WIDEST: u16 = 160;

/// COLUMNS, or the width of the terminal, or 80. If standard output is a pipe (`| less`), the terminal of standard
/// error counts.
fn width() -> u16 {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok()).filter(|width| *width > 0);
    asked.or_else(|| sys::columns(stdout())).or_else(|| sys::columns(stderr())).unwrap_or(80)
}
