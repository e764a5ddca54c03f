//! Finds a process. In: a process ID or a name. Out: its process ID.

use allocanary_heap::{Subject, named, processes};
use allocanary_kernel::terminal::harmless;
use allocanary_study::error::{Error, Result};

/// The process that a text names. `verb` is for the error.
pub fn find(verb: &str, text: &str) -> Result<u32> {
    if let Ok(pid) = text.parse() {
        return Ok(pid);
    }
    let mut all = processes();
    all.retain(|one| one.pid != std::process::id());
    match named(&all, text).as_slice() {
        [one] => Ok(one.pid),
        [] => Err(Error::Input(format!("{verb}: no process has the name `{}`: `ps -e` lists them", harmless(text)))),
        several => {
            let line = |one: &&Subject| format!("  {} {} {}", one.pid, one.name, one.executable);
            let list: Vec<String> = several.iter().map(line).collect();
            let text = harmless(text).into_owned();
            Err(Error::Input(format!(
                "{verb}: {} processes have the name `{text}`: name one by its process ID, or the first with --tree\n{}",
                several.len(),
                list.join("\n")
            )))
        }
    }
}
