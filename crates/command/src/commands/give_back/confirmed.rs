//! Whether the user agrees. In: the terminal. Out: yes or no, and the exit code for no.

use std::io::{BufRead, IsTerminal, stdin};

use allocanary_rows::error::{Error, Result};

/// The exit code if the process was left unchanged.
pub(super) const REFUSED: u8 = 1;

/// Asks the user. Without a terminal nobody can answer.
pub(super) fn confirmed() -> Result<bool> {
    if !stdin().is_terminal() {
        let text = "give-back: a thread of the process would make these calls. Wanted --yes, because there is no terminal to ask on; \
                    or --dry-run";
        return Err(Error::Input(text.into()));
    }
    eprint!("A thread of the process makes these calls and then waits again as before. Go on? [y/N] ");
    let mut line = String::new();
    stdin().lock().read_line(&mut line).map_err(|error| Error::file("standard input", "reading", error))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
