//! Waits until a traced thread has stopped. A thread that stops too late, or at a signal, is released once it is stopped. The tracer must
//! not just end instead, because the thread's wait could then end with EINTR.

use std::io;
use std::time::Duration;

use allocanary_heap::ptrace::StopState;

/// If a thread does not stop within this time, it waits for a device or a file system, or has no processor. It is not
/// borrowed.
const PATIENCE: Duration = Duration::from_secs(2);

/// How much longer to wait for such a thread, so that it can be released.
const LAST: Duration = Duration::from_secs(20);

/// The thread that is traced.
pub trait Tracee {
    /// Whether it has stopped.
    fn stopped(&mut self) -> io::Result<StopState>;
    /// Releases it from a stop, with a signal that it was about to get, or 0. If the stop has ended a call, the thread makes the
    /// call again.
    fn let_go(&mut self, signal: i32);
    /// Waits for a short time. Returns how long it has waited.
    fn pause(&mut self, time: Duration) -> Duration;
}

/// The thread's state after the request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopOutcome {
    /// It is stopped.
    Still,
    /// It has ended, or was about to get a signal and has continued with it.
    Gone,
    /// It stopped too late, and was released.
    Late,
    /// It did not stop.
    Never,
}

/// Waits until a thread that was asked to stop has done so.
pub fn stop(thread: &mut dyn Tracee) -> io::Result<StopOutcome> {
    let (stop, is_late) = match wait(thread, PATIENCE)? {
        StopState::NotYet => (wait(thread, LAST)?, true),
        stop => (stop, false),
    };
    let signal = match stop {
        StopState::NotYet => return Ok(StopOutcome::Never),
        StopState::Ended => return Ok(StopOutcome::Gone),
        StopState::By(0) if !is_late => return Ok(StopOutcome::Still),
        StopState::By(signal) => signal,
        StopState::AtCall => 0,
    };
    thread.let_go(signal);
    Ok(if is_late { StopOutcome::Late } else { StopOutcome::Gone })
}

/// Waits until a thread stops. [`StopState::NotYet`] if it has not stopped within `time`.
pub fn wait(thread: &mut dyn Tracee, time: Duration) -> io::Result<StopState> {
    let (mut pause, mut waited) = (Duration::from_micros(20), Duration::ZERO);
    loop {
        match thread.stopped()? {
            StopState::NotYet if waited < time => {
                waited += thread.pause(pause);
                pause = (pause * 2).min(Duration::from_millis(1));
            }
            stop => return Ok(stop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that stops after some time or never, and the signal with which it was released.
    struct Scripted {
        stops: Option<(Duration, StopState)>,
        now: Duration,
        let_go: Vec<i32>,
    }

    impl Tracee for Scripted {
        fn stopped(&mut self) -> io::Result<StopState> {
            Ok(self.stops.filter(|(at, _)| self.now >= *at).map_or(StopState::NotYet, |(_, stop)| stop))
        }

        fn let_go(&mut self, signal: i32) {
            self.let_go.push(signal);
        }

        fn pause(&mut self, time: Duration) -> Duration {
            self.now += time;
            time
        }
    }

    fn after(ms: u64, stop: StopState) -> (StopOutcome, Vec<i32>) {
        let mut thread =
            Scripted { stops: Some((Duration::from_millis(ms), stop)), now: Duration::ZERO, let_go: Vec::new() };
        (super::stop(&mut thread).unwrap(), thread.let_go)
    }

    #[test]
    fn a_thread_that_stops_in_time_stands_still_for_us() {
        assert_eq!(after(0, StopState::By(0)), (StopOutcome::Still, vec![]));
        assert_eq!(after(1_900, StopState::By(0)), (StopOutcome::Still, vec![]));
    }

    #[test]
    fn one_that_stops_too_late_or_at_a_signal_is_let_go_in_its_stop() {
        assert_eq!(after(2_500, StopState::By(0)), (StopOutcome::Late, vec![0]));
        assert_eq!(after(2_500, StopState::By(10)), (StopOutcome::Late, vec![10]));
        assert_eq!(after(3, StopState::By(10)), (StopOutcome::Gone, vec![10]));
        assert_eq!(after(3, StopState::AtCall), (StopOutcome::Gone, vec![0]));
        assert_eq!(after(3_000, StopState::Ended), (StopOutcome::Gone, vec![]));
    }

    #[test]
    fn one_that_never_stops_cannot_be_let_go_and_that_is_told() {
        assert_eq!(after(60_000, StopState::By(0)), (StopOutcome::Never, vec![]));
    }
}
