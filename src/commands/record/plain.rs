//! Recording a program in the user's terminal: it has the terminal's input, output and signals. In: a recorder, a command
//! line, a time limit. Out: the program's exit code.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use super::Recorded;
use allocanary_kernel::sys;
use allocanary_study::error::{Error, Result};
use allocanary_study::run::program::end_all;
use allocanary_trace::record::RecordOptions;

/// The longest sleep between two looks at the program: a signal may come between.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs the program to its end. After the deadline, where there is one, it is killed with all that it has started.
pub fn run(recording: &RecordOptions, line: &[String], deadline: Option<Duration>) -> Result<Recorded> {
    let (program, arguments) = line.split_first().expect("the study was checked");
    let mut command = Command::new(program);
    command.args(arguments);
    command.envs(recording.environment(std::env::var_os("LD_PRELOAD").as_deref())?);
    if deadline.is_some() {
        sys::adopt_orphans();
    }
    let started = Instant::now();
    let child = command.spawn().map_err(|error| Error::Input(format!("{program}: starting it: {error}")))?;
    // Ctrl-C reaches the program as well: it ends as it does without us, and its traces are named.
    sys::pass_signals_on(child.id());
    let watched = sys::Watched::of(child.id());
    let failed = |error| Error::file(program, "waiting for it", error);
    let left = || {
        let left = deadline.map_or(PAUSE, |deadline| deadline.saturating_sub(started.elapsed()));
        (!left.is_zero()).then_some(left.min(PAUSE))
    };
    let Some((status, _)) = watched.wait(left).map_err(failed)? else {
        end_all(child.id());
        let seconds = deadline.unwrap_or_default().as_secs_f64();
        let text = format!("recording {program}: did not end within its deadline of {seconds} s (--deadline)");
        return Err(Error::Input(text));
    };
    sys::keep_signals();
    let status = ExitStatus::from_raw(status);
    Ok(Recorded {
        code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8,
        ..Recorded::default()
    })
}
