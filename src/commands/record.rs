//! `allocanary record`: runs a program and records its allocations. In: a command line. Out: a trace for each process,
//! the program's exit code.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::terminal;
use crate::args::RecordFlags;
use allocanary_kernel::units::{Unit, parse_bytes, show_duration};
use allocanary_study::error::{Error, Result};
use allocanary_trace::format::State;
use allocanary_trace::record::{Recording, traces, trim};

/// Records a program.
pub fn run(flags: &RecordFlags) -> Result<ExitCode> {
    let limit = parse_bytes(&flags.max_size).filter(|bytes| *bytes >= 64 << 10);
    let wanted = || Error::Input(format!("--max-size: wanted 64KiB or more, such as 1GiB, found `{}`", flags.max_size));
    let limit = limit.ok_or_else(wanted)?;
    let preload = preload()?;
    let Some((program, arguments)) = flags.program.split_first() else {
        return Err(Error::Input("record: wanted a program, as in `allocanary record -- redis-server`".into()));
    };
    let folder = flags.out.clone().unwrap_or_else(fresh_folder);
    let recording = Recording { preload: &preload, folder: &folder, limit, rate: flags.rate };
    let before: Vec<PathBuf> = traces(&folder).unwrap_or_default().into_iter().map(|(path, _)| path).collect();
    // Ctrl-C reaches the program as well: it ends as it does without us, and its traces are named.
    let _ = ctrlc::set_handler(|| ());
    let status = recording.run(program, arguments).map_err(input)?;
    let made = traces(&folder).map_err(input)?;
    let made: Vec<_> = made.into_iter().filter(|(path, _)| !before.contains(path)).collect();
    let command = program.display();
    if made.is_empty() {
        return Err(Error::Input(format!(
            "{command}: nothing was recorded: the loader drops preloads for static and set-user-id programs, and a full disk \
             or a small RLIMIT_FSIZE leaves no room for a trace in {}",
            folder.display()
        )));
    }
    for (path, header) in &made {
        trim(path, header).map_err(input)?;
        let span = header.last_ticks.saturating_sub(header.start_ticks) as f64 * header.tick_ns;
        let span = show_duration(std::time::Duration::from_nanos(span as u64));
        let (size, resident) = (Unit::Bytes.show(header.used as f64), Unit::Bytes.show(header.most_resident as f64));
        let why = match header.state {
            State::Full | State::NoRoom => format!(" ({})", header.state.words()),
            _ => String::new(),
        };
        let (path, command) = (path.display(), brief(&header.command));
        terminal::tell(format_args!("{path}: {size}, {span}, up to {resident} resident: {command}{why}"));
    }
    let largest = made.iter().max_by_key(|(_, header)| header.used).expect("there is one");
    let largest = largest.0.display();
    terminal::tell(format_args!("next: allocanary trace info {largest}\n      allocanary replay {largest}"));
    Ok(ExitCode::from(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8))
}

/// A folder that is not there yet: `allocanary-out/record-1` and so on.
fn fresh_folder() -> PathBuf {
    let numbered = (1..).map(|number| Path::new("allocanary-out").join(format!("record-{number}")));
    numbered.into_iter().find(|folder| !folder.exists()).expect("numbers do not end")
}

/// The recording preload, next to the command.
fn preload() -> Result<PathBuf> {
    let command = std::env::current_exe().map_err(|error| Error::file("the command", "finding", error))?;
    let preload = command.with_file_name("preload-record");
    if preload.exists() {
        return Ok(preload);
    }
    let path = preload.display();
    Err(Error::Input(format!(
        "{path}: not found: `cargo build --release --bins` builds it, `cargo install` installs it"
    )))
}

/// The beginning of a command line.
fn brief(command: &str) -> String {
    let cut: String = command.chars().take(60).collect();
    if cut.len() < command.len() { cut + "..." } else { cut }
}

/// An error of a trace as the command's.
pub fn input(error: allocanary_trace::error::Error) -> Error {
    Error::Input(error.to_string())
}
