//! Shows the progress of a run. In: cells that are done. Out, on standard error: a bar on a terminal, or else a line
//! every ten seconds.

use std::io::{IsTerminal, Write, stderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::terminal;
use allocanary_cell::Cell;
use allocanary_cell::description::Description;
use allocanary_kernel::terminal::harmless;
use allocanary_kernel::units::show_duration;
use allocanary_study::expected_time;

/// One of the studies that run one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// The number of cells to run.
    pub cells: usize,
    /// Their expected duration, by the estimates of the workloads.
    pub expected: Duration,
    /// The time budget of the study.
    pub budget: Option<Duration>,
}

impl Stretch {
    /// A study that runs these cells.
    pub fn new(plan: &[Cell], cells: &[Description], budget: Option<Duration>) -> Self {
        Self { cells: plan.len(), expected: expected_time(plan, cells), budget }
    }
}

/// The state of a run.
#[derive(Debug)]
struct Course {
    stretches: Vec<Stretch>,
    /// The index of the current study.
    at: usize,
    /// The number of its cells that are done.
    done: usize,
    /// The number of cells that are done in the studies before.
    before: usize,
    /// The start of the current study.
    since: Instant,
}

impl Course {
    /// The remaining time, after the current study has run for `elapsed`. It follows from the pace so far, or from the
    /// estimates if no cell is done, and never exceeds what the budgets leave.
    fn left(&self, elapsed: Duration) -> Duration {
        let within = |time: Duration, budget: Option<Duration>| budget.map_or(time, |budget| budget.min(time));
        let Some(now) = self.stretches.get(self.at) else { return Duration::ZERO };
        let left = (now.cells - self.done.min(now.cells)) as f64;
        let pace = match self.done {
            0 => now.expected.as_secs_f64() / now.cells.max(1) as f64,
            done => elapsed.as_secs_f64() / done as f64,
        };
        // An estimate may be more than fits a `Duration`.
        let time = Duration::try_from_secs_f64(left * pace).unwrap_or(Duration::MAX);
        let later = self.stretches[self.at + 1..].iter().map(|later| within(later.expected, later.budget));
        later.fold(within(time, now.budget.map(|budget| budget.saturating_sub(elapsed))), Duration::saturating_add)
    }

    fn line(&self) -> String {
        let cells: usize = self.stretches.iter().map(|stretch| stretch.cells).sum();
        let left = show_duration(self.left(self.since.elapsed()));
        format!("{} of {cells} processes, about {left} left", self.before + self.done)
    }
}

/// The display of the progress.
pub struct Progress {
    course: Arc<Mutex<Course>>,
    bar: Option<ProgressBar>,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts the display for a run of these studies.
    pub fn new(stretches: Vec<Stretch>) -> Progress {
        /// The interval of the lines if standard error is not a terminal.
        const EVERY: Duration = Duration::from_secs(10);
        let cells: usize = stretches.iter().map(|stretch| stretch.cells).sum();
        let course = Course { stretches, at: 0, done: 0, before: 0, since: Instant::now() };
        let course = Arc::new(Mutex::new(course));
        if !stderr().is_terminal() {
            let ticker = tick(course.clone(), EVERY, stderr()).ok();
            return Progress { course, bar: None, ticker };
        }
        let bar = ProgressBar::with_draw_target(Some(cells as u64), ProgressDrawTarget::stderr_with_hz(5));
        let style = ProgressStyle::with_template("{bar:24} {msg}").expect("the template is a constant");
        bar.set_style(style);
        Progress { course, bar: Some(bar), ticker: None }
    }

    /// The study with this index begins.
    pub fn begin(&self, at: usize) {
        let mut course = self.course.lock().unwrap();
        course.before += course.done;
        (course.at, course.done, course.since) = (at, 0, Instant::now());
        if let Some(bar) = &self.bar {
            bar.set_message(course.line());
        }
    }

    /// A cell of a candidate is done.
    pub fn done(&self, candidate: &str) {
        let mut course = self.course.lock().unwrap();
        course.done += 1;
        if let Some(bar) = &self.bar {
            bar.set_position((course.before + course.done) as u64);
            bar.set_message(format!("{}  {}", course.line(), harmless(candidate)));
        }
    }

    /// Prints a line.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(harmless(line)),
            None => terminal::tell(harmless(line)),
        }
    }

    /// The run is over.
    pub fn end(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if let Some((stop, ticker)) = self.ticker {
            drop(stop);
            let _ = ticker.join();
        }
    }
}

/// Writes a line to `out` once per interval `every`, until the sender is dropped.
fn tick(
    course: Arc<Mutex<Course>>,
    every: Duration,
    mut out: impl Write + Send + 'static,
) -> std::io::Result<(Sender<()>, JoinHandle<()>)> {
    let (stop, stopped): (Sender<()>, Receiver<()>) = channel();
    let tell = move || {
        while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
            let line = course.lock().unwrap().line();
            let _ = writeln!(out, "{line}");
        }
    };
    Ok((stop, thread::Builder::new().spawn(tell)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn course(stretches: &[(usize, u32, Option<u32>)]) -> Course {
        let stretch = |(cells, expected, budget): &(usize, u32, Option<u32>)| Stretch {
            cells: *cells,
            expected: SECOND * *expected,
            budget: budget.map(|budget| SECOND * budget),
        };
        Course { stretches: stretches.iter().map(stretch).collect(), at: 0, done: 0, before: 0, since: Instant::now() }
    }

    #[test]
    fn the_time_left_follows_the_pace_and_the_budgets() {
        let mut run = course(&[(10, 50, None), (4, 8, None)]);
        assert_eq!(run.left(SECOND), 58 * SECOND, "nothing is done: by the estimates");
        run.done = 4;
        assert_eq!(run.left(8 * SECOND), (6 * 2 + 8) * SECOND);
        let mut run = course(&[(10, 50, Some(20)), (4, 8, Some(5)), (1, 3, None)]);
        assert_eq!(run.left(SECOND), (19 + 5 + 3) * SECOND, "the budgets end both");
        run.done = 4;
        assert_eq!(run.left(16 * SECOND), (4 + 5 + 3) * SECOND);
        assert_eq!(run.left(99 * SECOND), (5 + 3) * SECOND, "a round that goes on beyond the budget");
        (run.at, run.done) = (2, 1);
        assert_eq!(run.left(SECOND), Duration::ZERO);
        assert_eq!(course(&[]).left(SECOND), Duration::ZERO);
    }

    /// What the ticker writes to.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn without_a_terminal_lines_come_until_the_end() {
        let lines = Lines::default();
        let course = Arc::new(Mutex::new(course(&[(10, 0, None), (4, 0, None)])));
        let (stop, ticker) = tick(course.clone(), Duration::from_millis(1), lines.clone()).unwrap();
        let progress = Progress { course, bar: None, ticker: Some((stop, ticker)) };
        let text = || String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        // Waits for two lines, however long the machine takes.
        while text().lines().count() < 2 {
            thread::yield_now();
        }
        assert!(text().starts_with("0 of 14 processes, about "), "{}", text());
        (0..10).for_each(|_| progress.done("system"));
        progress.begin(1);
        progress.done("system");
        while !text().contains("11 of 14 processes, about ") {
            thread::yield_now();
        }
        progress.end();
        let said = text();
        assert!(said.ends_with(" left\n"));
        thread::sleep(Duration::from_millis(20));
        assert_eq!(text(), said, "no line comes after the end");
    }
}
