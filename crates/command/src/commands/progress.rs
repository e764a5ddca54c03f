//! Shows the progress of a run. In: cells that are done. Out, on standard error: a bar if it is a terminal, otherwise a
//! line every ten seconds.

use std::io::{IsTerminal, Write, stderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::terminal;
use allocanary_rows::Cell;
use allocanary_rows::description::Description;
use allocanary_study::session::{expected_seconds, expected_time};
use allocanary_text::outside::harmless;
use allocanary_text::units::show_duration;

/// One of the studies that run one after the other.
#[derive(Clone, Debug)]
pub struct StudyProgress {
    /// The number of cells to run.
    pub cells: usize,
    /// The expected duration of each cell in relation to the others, in the order in which they run.
    weights: Vec<f64>,
    /// The expected duration of all cells, by the estimates of the workloads.
    pub expected: Duration,
    /// The time budget of the study.
    pub budget: Option<Duration>,
}

impl StudyProgress {
    /// A study that runs these cells.
    pub fn new(plan: &[Cell], cells: &[Description], budget: Option<Duration>) -> Self {
        let weights = weights(&expected_seconds(plan, cells));
        Self { cells: plan.len(), weights, expected: expected_time(plan, cells), budget }
    }
}

/// The estimates of cells as weights. A cell without an estimate weighs as much as the mean of the others.
fn weights(seconds: &[Option<f64>]) -> Vec<f64> {
    let usable = |seconds: &Option<f64>| seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    let known: Vec<f64> = seconds.iter().filter_map(usable).collect();
    let mean = if known.is_empty() { 1.0 } else { known.iter().sum::<f64>() / known.len() as f64 };
    seconds.iter().map(|seconds| usable(seconds).unwrap_or(mean)).collect()
}

/// The state of a run.
#[derive(Debug)]
struct Course {
    stretches: Vec<StudyProgress>,
    /// The index of the current study.
    at: usize,
    /// The number of its cells that are done.
    done: usize,
    /// How long they took together.
    took: Duration,
    /// The number of cells that are done in the studies before.
    before: usize,
    /// The start of the current study.
    since: Instant,
}

impl Course {
    /// Counts a cell as done, after the current study has run for `elapsed`.
    fn finish(&mut self, elapsed: Duration) {
        (self.done, self.took) = (self.done + 1, elapsed);
    }

    /// The remaining time, after the current study has run for `elapsed`. It never exceeds what the budgets leave.
    ///
    /// The estimates come from another machine. They are corrected by the time of the finished cells, divided by their
    /// estimates. Before the first cell is done, the estimates count as they are, unless the first cell has already run
    /// for longer than its own. The time of the running cell is not added to that of the finished ones: with few cells
    /// done, the estimate would double until the running cell ends.
    fn left(&self, elapsed: Duration) -> Duration {
        let within = |time: Duration, budget: Option<Duration>| budget.map_or(time, |budget| budget.min(time));
        let Some(now) = self.stretches.get(self.at) else { return Duration::ZERO };
        let (done, left) = now.weights.split_at(self.done.min(now.weights.len()));
        let running = left.first().copied().unwrap_or_default();
        let sum = |weights: &[f64]| weights.iter().sum::<f64>();
        let into = elapsed.saturating_sub(self.took).as_secs_f64();
        let pace = match self.done {
            0 => (now.expected.as_secs_f64() / sum(left).max(f64::MIN_POSITIVE))
                .max(into / running.max(f64::MIN_POSITIVE)),
            _ => self.took.as_secs_f64() / sum(done),
        };
        let time = (running * pace - into).max(0.0) + sum(left.get(1..).unwrap_or_default()) * pace;
        // An estimate may be too large for a `Duration`.
        let time = Duration::try_from_secs_f64(time).unwrap_or(Duration::MAX);
        let later = self.stretches[self.at + 1..].iter().map(|later| within(later.expected, later.budget));
        later.fold(within(time, now.budget.map(|budget| budget.saturating_sub(elapsed))), Duration::saturating_add)
    }

    fn line(&self) -> String {
        let cells: usize = self.stretches.iter().map(|stretch| stretch.cells).sum();
        let (done, elapsed) = (self.before + self.done, self.since.elapsed());
        let budget = self.stretches.get(self.at).and_then(|now| now.budget);
        if budget.is_some_and(|budget| elapsed >= budget) {
            return format!(
                "{done} of {cells} processes; the time budget is over, and the round that runs is the last"
            );
        }
        format!("{done} of {cells} processes, about {} left", show_duration(self.left(elapsed)))
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
    pub fn new(stretches: Vec<StudyProgress>) -> Progress {
        /// The interval of the lines if standard error is not a terminal.
        const EVERY: Duration = Duration::from_secs(10);
        let cells: usize = stretches.iter().map(|stretch| stretch.cells).sum();
        let course = Course { stretches, at: 0, done: 0, took: Duration::ZERO, before: 0, since: Instant::now() };
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

    /// Begins the study with this index.
    pub fn begin(&self, at: usize) {
        let mut course = self.course.lock().unwrap();
        course.before += course.done;
        (course.at, course.done, course.took, course.since) = (at, 0, Duration::ZERO, Instant::now());
        if let Some(bar) = &self.bar {
            bar.set_message(course.line());
        }
    }

    /// Counts a cell of a candidate as done.
    pub fn done(&self, candidate: &str) {
        let mut course = self.course.lock().unwrap();
        let elapsed = course.since.elapsed();
        course.finish(elapsed);
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

    /// Ends the display.
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
        let stretch = |(cells, expected, budget): &(usize, u32, Option<u32>)| StudyProgress {
            cells: *cells,
            weights: vec![1.0; *cells],
            expected: SECOND * *expected,
            budget: budget.map(|budget| SECOND * budget),
        };
        Course {
            stretches: stretches.iter().map(stretch).collect(),
            at: 0,
            done: 0,
            took: Duration::ZERO,
            before: 0,
            since: Instant::now(),
        }
    }

    #[test]
    fn the_time_left_follows_the_pace_and_the_budgets() {
        let mut run = course(&[(10, 50, None), (4, 8, None)]);
        assert_eq!(run.left(SECOND), 57 * SECOND, "nothing is done: by the estimates");
        assert_eq!(run.left(20 * SECOND), (9 * 20 + 8) * SECOND, "the first one takes longer than was expected");
        (run.done, run.took) = (4, 8 * SECOND);
        assert_eq!(run.left(8 * SECOND), (6 * 2 + 8) * SECOND);
        assert_eq!(run.left(9 * SECOND), (6 * 2 - 1 + 8) * SECOND, "half of the fifth is over");
        assert_eq!(run.left(20 * SECOND), (5 * 2 + 8) * SECOND, "the fifth takes longer");
        let mut run = course(&[(10, 50, Some(20)), (4, 8, Some(5)), (1, 3, None)]);
        assert_eq!(run.left(SECOND), (19 + 5 + 3) * SECOND, "the budgets end both");
        (run.done, run.took) = (4, 16 * SECOND);
        assert_eq!(run.left(16 * SECOND), (4 + 5 + 3) * SECOND);
        assert_eq!(run.left(99 * SECOND), (5 + 3) * SECOND, "a round that goes on beyond the budget");
        (run.at, run.done, run.took) = (2, 1, SECOND);
        assert_eq!(run.left(SECOND), Duration::ZERO);
        assert_eq!(course(&[]).left(SECOND), Duration::ZERO);
    }

    /// A replay whose estimate is wrong by a factor of forty, with candidates that differ. As soon as one cell is done,
    /// the time left is right within a factor of two, or within the length of a cell.
    #[test]
    fn the_time_left_of_a_replay_is_right_from_the_second_cell_on() {
        const ROUNDS: usize = 6;
        for first in 0..5 {
            // Seconds of each candidate. The expected time of each is 0.1 s.
            let mut round = [3.0, 4.0, 5.0, 4.5, 3.5];
            round.rotate_left(first);
            let cells = round.repeat(ROUNDS);
            let total: f64 = cells.iter().sum();
            let stretch = StudyProgress {
                cells: cells.len(),
                weights: weights(&vec![Some(0.1); cells.len()]),
                expected: Duration::from_millis(100) * cells.len() as u32,
                budget: None,
            };
            let mut run = Course { stretches: vec![stretch], ..course(&[]) };
            let mut clock = 0.0;
            for seconds in &cells {
                for part in 0..10 {
                    let now = clock + seconds * f64::from(part) / 10.0;
                    let (said, left) = (run.left(Duration::from_secs_f64(now)).as_secs_f64(), total - now);
                    let near = (said / left).max(left / said) <= 2.0 || (said - left).abs() <= 5.0;
                    assert!(run.done == 0 || near, "{} of {} done: {said} said, {left} left", run.done, cells.len());
                }
                clock += seconds;
                run.finish(Duration::from_secs_f64(clock));
            }
            assert_eq!(run.left(Duration::from_secs_f64(clock)), Duration::ZERO);
        }
    }

    /// The cells of this study differ, such as cells of 1 and of 64 threads. A short cell that comes first does not
    /// shorten the estimates of the others.
    #[test]
    fn a_cell_counts_by_its_estimate() {
        assert_eq!(weights(&[None, Some(1.0), Some(3.0), Some(f64::NAN)]), [2.0, 1.0, 3.0, 2.0]);
        assert_eq!(weights(&[None, None]), [1.0, 1.0]);
        let stretch = StudyProgress { cells: 3, weights: vec![1.0, 10.0, 10.0], expected: 21 * SECOND, budget: None };
        let mut run = Course { stretches: vec![stretch], ..course(&[]) };
        run.finish(2 * SECOND);
        assert_eq!(run.left(2 * SECOND), 40 * SECOND, "twice as slow as was expected");
    }

    /// The output that the ticker writes to.
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
