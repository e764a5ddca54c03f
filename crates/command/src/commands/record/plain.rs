//! Recording a program in the user's terminal: it has the terminal's input, output and signals. In: a recorder, a command
//! line, a time limit. Out: the program's exit code.
//!
//! With a window and stacks, the program has its own process group, and cannot read from the terminal. A signal comes
//! to this command first. The command reads the resident pages, and then passes the signal on. If the program still
//! asks for the terminal, the kernel stops it, and the command says so.

use std::io::{IsTerminal, stdin};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::recorded::Recorded;
use crate::commands::terminal;
use allocanary_rows::error::{Error, Result};
use allocanary_study::program::{end_all, residents};
use allocanary_sys::clocks::monotonic_nanos;
use allocanary_sys::sys::{self, HeldSignal};
use allocanary_trace::record::RecordOptions;

/// The longest sleep between two looks at the program: a signal may arrive between them.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs the program to its end. At the deadline, if there is one, the program and all processes that it has started are
/// killed.
pub fn run(recording: &RecordOptions, line: &[String], deadline: Option<Duration>) -> Result<Recorded> {
    let (program, arguments) = line.split_first().expect("the study was checked");
    let mut command = Command::new(program);
    command.args(arguments);
    command.envs(recording.environment(std::env::var_os("LD_PRELOAD").as_deref())?);
    let is_read_at_end = recording.window.is_some() && recording.stacks > 0;
    if is_read_at_end {
        command.process_group(0);
        // Only the process group of the terminal may read from it.
        if stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
    }
    if deadline.is_some() {
        sys::adopt_orphans();
    }
    let started = Instant::now();
    let blocked = sys::HeldSignals::around(&mut command);
    let child = command.spawn().map_err(|error| Error::Input(format!("{program}: starting it: {error}")))?;
    if is_read_at_end {
        sys::hold_signals();
    } else {
        // The program gets Ctrl-C as well. It ends as it would without this command, and its traces are named.
        sys::pass_signals_on(child.id());
    }
    drop(blocked);
    let mut recorded = Recorded::default();
    // The signal at which the pages were read.
    let mut ends: Option<(HeldSignal, Instant)> = None;
    let (mut is_stopped, mut is_asked_to_end) = (false, false);
    let watched = sys::Watched::of(child.id());
    let failed = |error| Error::file(program, "waiting for it", error);
    let left = || {
        if is_read_at_end && sys::stopped_for_terminal(child.id()) {
            is_stopped = true;
            if is_asked_to_end {
                // The program would be stopped again each time that it continues.
                terminal::tell(format_args!(
                    "{program}: stopped, because it asks for the terminal while it ends: it is killed"
                ));
                sys::kill_group(child.id());
            } else {
                terminal::tell(format_args!(
                    "{program}: stopped, because it asks for the terminal, which it has not with --window and --stack-sample: end it with Ctrl-C, \
                     and record it without one of the two, or without a terminal (setsid)"
                ));
            }
        }
        let signals: Vec<HeldSignal> = std::iter::from_fn(HeldSignal::next).collect();
        // Signals that ask a program to end come first.
        if let Some(signal) = signals.iter().find(|signal| signal.asks_to_end()).or(signals.last())
            && ends.is_none_or(|(earlier, at)| signal.takes_over(earlier, at.elapsed()))
        {
            (recorded.end, recorded.residents) = (monotonic_nanos(), residents());
            ends = Some((*signal, Instant::now()));
        }
        for signal in signals {
            is_asked_to_end |= signal.asks_to_end();
            signal.pass_on(child.id());
            // A stopped program gets no signal before it continues.
            if std::mem::take(&mut is_stopped) {
                sys::go_on(child.id());
            }
        }
        let left = deadline.map_or(PAUSE, |deadline| deadline.saturating_sub(started.elapsed()));
        (!left.is_zero()).then_some(left.min(PAUSE))
    };
    let Some((status, _)) = watched.wait(left).map_err(failed)? else {
        end_all(child.id());
        let seconds = deadline.unwrap_or_default().as_secs_f64();
        let text = format!("recording {program}: did not end within its deadline of {seconds} s (--run-timeout)");
        return Err(Error::Input(text));
    };
    sys::keep_signals();
    let status = ExitStatus::from_raw(status);
    if ends.is_some_and(|(signal, at)| !signal.has_ended(at.elapsed(), status.signal())) {
        (recorded.end, recorded.residents) = (0, Vec::new());
    }
    recorded.signal = status.signal();
    recorded.code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8;
    Ok(recorded)
}
