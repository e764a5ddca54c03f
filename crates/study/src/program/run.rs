//! One run of the user's program. A program that ends runs to its end. A service runs until its load is done and it was idle. In: a
//! context. Out: what was measured, or a failure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::huge_pages::HugePageUse;
use super::marks::{Marks, SIZES, START, readings};
use super::running::{LEFT, Running};
use super::tree::{self, Details};
use super::watch::ProgramUse;
use super::{FigurePattern, Ready, Residents, RunContext, pipes, runtimes};
use allocanary_rows::Moment;
use allocanary_rows::sample::{Failure, FailureKind, Measured};
use allocanary_sys::sys;
use allocanary_text::units::parse_duration;

/// The default time that a service is idle.
pub const SETTLE: Duration = Duration::from_secs(5);

/// The time for the command after the program, if the user has interrupted the run.
const CLEANING: Duration = Duration::from_secs(10);

/// A run that has ended.
pub struct Ran {
    /// What was measured.
    pub answer: Measured,
    /// The process that had the most memory, and its program.
    pub main: (u32, String),
    /// The last lines of its standard error.
    pub complaint: String,
    /// What the kernel said of the huge pages of that process.
    pub huge_pages: HugePageUse,
    /// The runtime's view of that process, if it was read.
    pub runtime: Option<runtimes::RuntimeView>,
    /// Whether that process had mapped the library of others. `None` if nobody looked.
    pub mapped: Option<bool>,
    /// When each mark was set, in nanoseconds of the monotonic clock.
    pub moments: Vec<(Moment, u64)>,
    /// The resident pages of each process at the marks of a service, if it was recorded.
    pub residents: Vec<Residents>,
}

/// The reading of the most resident memory.
const PEAK: &str = "peak_resident_bytes";

impl Ran {
    /// Whether its most resident memory is known.
    pub fn has_peak(&self) -> bool {
        self.answer.reading(PEAK, Moment::Peak).is_some()
    }

    /// Takes the most resident memory of another run of the same program.
    pub fn set_peak(&mut self, bytes: u64) {
        let at = self.answer.moments.iter().rposition(|moment| *moment == Moment::Peak);
        let column = self.answer.readings.get_mut(PEAK);
        if let Some(value) = at.zip(column).and_then(|(at, column)| column.get_mut(at)) {
            *value = Some(bytes);
        }
    }
}

/// Kills every process that this one has started, and their descendants. Those that have left their parents are found
/// after [`sys::adopt_orphans`] only. `root` may lead a process group.
pub fn end_all(root: u32) {
    tree::end(root, &BTreeSet::new());
}

pub(super) fn fail<T>(kind: FailureKind, text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure { kind, text: text.into() })
}

impl RunContext<'_> {
    /// Runs the program, and the commands before and after it.
    pub fn run(&self) -> Result<Ran, Failure> {
        let until = Instant::now() + self.deadline;
        if let Some(text) = &self.program.before {
            self.around("--before", text, None).run(None, until, self.stop)?;
        }
        let ran = if self.program.is_service() { self.service() } else { self.once() };
        if let Some(text) = &self.program.after {
            // The command cleans up, so it runs after a failure too. Then the failure of the program is returned, which says more than a
            // failure of the cleaning. After an interrupt the command has a short time of its own.
            let unset = AtomicBool::new(false);
            let (stop, time) = match self.stop.load(Ordering::Relaxed) {
                true => (&unset, self.deadline.min(CLEANING)),
                false => (self.stop, self.deadline),
            };
            let after = self.around("--after", text, None).run(None, Instant::now() + time, stop);
            if ran.is_ok() {
                after?;
            }
        }
        ran
    }

    /// The most resident memory of a program that ends so early that [`RunContext::run`] cannot know it: that of another run, which is
    /// traced to its exit. The run that is measured is not traced, because tracing takes some of the time of such a program. `None` for a
    /// program with commands around it, which may allow one run only, or if it may not be traced.
    pub fn peak_at_exit(&self) -> Option<u64> {
        let program = &self.program;
        if program.is_service() || program.before.is_some() || program.after.is_some() {
            return None;
        }
        let mut running = Running::start(self, true).ok()?;
        let watched = sys::Watched::of(running.root);
        while running.step(&watched) {
            if running.must_stop() {
                return None;
            }
        }
        running.end();
        let succeeded = running.ended.is_some_and(|(status, _)| status == 0);
        running.peak_at_exit().filter(|_| succeeded)
    }

    /// A program that ends.
    fn once(&self) -> Result<Ran, Failure> {
        let mut running = Running::start(self, false)?;
        running.watch.keeps_parts = true;
        let candidate = self.cell.candidate.to_string();
        let unspent = || self.unspent.lock().unwrap_or_else(PoisonError::into_inner);
        running.watch.walks.schedule.saved = unspent().get(&candidate).copied().unwrap_or_default();
        let watched = sys::Watched::of(running.root);
        let mut marks = Marks::default();
        marks.mark(Moment::Start, &START);
        while running.step(&watched) {
            if running.must_stop() {
                return Err(running.late("did not end"));
            }
        }
        let wall = running.started.elapsed();
        // Helpers in the background may end a moment later.
        let patience = Instant::now() + LEFT;
        while running.is_alive() {
            if Instant::now() >= patience || running.must_stop() {
                let left = running.watch.alive().to_vec();
                let names: Vec<String> = left.iter().take(3).map(|pid| tree::name(*pid)).collect();
                running.end();
                let (count, names) = (left.len(), names.join(", "));
                let what = if count == 1 { "process" } else { "processes" };
                return fail(
                    FailureKind::Crashed,
                    format!(
                        "ended and left {count} {what} behind ({names}), which were killed: keep it in the foreground, or \
                         measure it as a service with --ready"
                    ),
                );
            }
            running.watch.sample();
            std::thread::sleep(Duration::from_millis(2));
        }
        running.end();
        let status = running.ended.map_or(0, |(status, _)| status);
        if status != 0 {
            return Err(running.failure(""));
        }
        let used = running.used();
        let most = running.watch.most();
        let details = Details {
            minor_faults: used.minor_faults,
            major_faults: used.major_faults,
            user_us: used.user_us,
            system_us: used.system_us,
            ..Details::default()
        };
        let mut found = readings(&most, &details, running.peak());
        if !running.is_known() {
            // It ended before it could be looked at often enough: its sizes are not known, but for the kernel's account.
            found[..SIZES].iter_mut().for_each(|(name, value)| {
                *value = value.filter(|bytes| *name == PEAK && *bytes > 0);
            });
        }
        marks.mark(Moment::Peak, &found);
        marks.set("context_switches", used.switches);
        marks.set_parts(running.watch.parts_near_peak());
        unspent().insert(candidate, running.watch.walks.schedule.balance(wall));
        let output = running.out.output();
        if running.out.is_full() && (self.program.check.is_some() || !self.program.metric.is_empty()) {
            return fail(FailureKind::Around, "its output could not be kept for --check or --metric: the disk is full");
        }
        if let Some(text) = &self.program.check {
            let until = Instant::now() + self.deadline;
            running.around("--check", text, Some(&running.out.file)).run(None, until, self.stop)?;
        }
        let figures = self.figures(&running.out.file)?;
        let moments = std::mem::take(&mut marks.times);
        let answer = Measured {
            operations: 1,
            active_ns: wall.as_nanos() as u64,
            output: Some(output),
            figures,
            ..self.answer(marks, &running)
        };
        Ok(self.ran(answer, &running, moments))
    }

    /// Runs a service: a program that runs until it is stopped.
    fn service(&self) -> Result<Ran, Failure> {
        let (mut marks, mut residents) = (Marks::default(), Vec::new());
        let ran = self.served(&mut marks, &mut residents);
        if let (Err(_), Some(interrupted)) = (&ran, self.interrupted) {
            let mut interrupted = interrupted.lock().unwrap_or_else(PoisonError::into_inner);
            interrupted.moments = marks.times;
            interrupted.residents.extend(residents);
        }
        ran
    }

    /// Runs the service. If it fails, `marks` and `residents` have what was read so far.
    fn served(&self, marks: &mut Marks, residents: &mut Vec<Residents>) -> Result<Ran, Failure> {
        let wrong = |text: String| Failure { kind: FailureKind::Start, text };
        let ready = self.program.ready.as_deref().map(Ready::parse).transpose().map_err(wrong)?;
        if let Some(taken) = ready.as_ref().and_then(Ready::is_taken) {
            let text =
                format!("{taken} answers before the program is started: another program has that port; use {{port}}");
            return fail(FailureKind::Start, text);
        }
        let mut running = Running::start(self, false)?;
        let watched = sys::Watched::of(running.root);
        marks.mark(Moment::Start, &START);
        while !ready.as_ref().map_or(Ok(true), |ready| running.is_ready(ready))? {
            if running.must_stop() {
                let what = ready.as_ref().map_or(String::new(), Ready::text);
                return Err(running.late(&format!("was not ready (--ready: wanted {what})")));
            }
            running.step(&watched);
            if !running.is_alive() {
                return Err(running.failure(" before it was ready"));
            }
        }
        marks.read(Moment::Ready, &mut running.watch);
        running.watch.forget();
        let mut wall = Duration::ZERO;
        if let Some(text) = &self.program.load {
            let until = running.until();
            let mut watch = std::mem::replace(&mut running.watch, ProgramUse::of(running.root));
            let done = self.around("--load", text, None).attempt(Some(&mut watch), until, self.stop);
            running.watch = watch;
            let done = done?;
            wall = done.wall;
            if !running.is_alive() {
                return Err(running.failure(" under its load"));
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(running.late("did not end"));
            }
            if !done.ok {
                return fail(FailureKind::Around, format!("--load `{text}` {}", done.text));
            }
        }
        let (_, details) = running.watch.read();
        marks.mark(Moment::Peak, &readings(&running.watch.most(), &details, running.watch.peak));
        residents.extend(self.residents(Some(Moment::Peak), &mut running.watch));
        let settle = self.program.settle.as_deref().and_then(parse_duration).unwrap_or(SETTLE);
        let settled = Instant::now() + settle;
        while Instant::now() < settled {
            if running.must_stop() {
                return Err(running.late("did not settle (--settle)"));
            }
            running.watch.sample();
            let pause = running.watch.pause().min(settled.saturating_duration_since(Instant::now()));
            running.sleep(&watched, pause.min(Duration::from_millis(50)));
        }
        if !running.is_alive() {
            return Err(running.failure(" while it was idle"));
        }
        marks.read(Moment::Idle, &mut running.watch);
        residents.extend(self.residents(Some(Moment::Idle), &mut running.watch));
        marks.set_parts(running.watch.parts_now());
        let over = running.watch.over_time();
        let killed = running.stop();
        let used = running.used();
        marks.set("context_switches", used.switches);
        let figures = match &self.program.load {
            Some(_) => self.figures(&self.folder.join("load"))?,
            None => BTreeMap::new(),
        };
        let moments = std::mem::take(&mut marks.times);
        let marks = std::mem::take(marks);
        let mut answer = Measured { active_ns: wall.as_nanos() as u64, figures, ..self.answer(marks, &running) };
        answer.over_time = Some(over);
        if killed {
            answer.notes.insert("killed_after_stop".into(), 1);
        }
        let residents = std::mem::take(residents);
        Ok(Ran { residents, ..self.ran(answer, &running, moments) })
    }

    fn answer(&self, marks: Marks, running: &Running) -> Measured {
        Measured {
            requested_bytes: vec![0; marks.moments.len()],
            moments: marks.moments,
            readings: marks.columns,
            over_time: Some(running.watch.over_time()),
            ..Measured::default()
        }
    }

    fn ran(&self, answer: Measured, running: &Running, moments: Vec<(Moment, u64)>) -> Ran {
        Ran {
            answer,
            moments,
            residents: Vec::new(),
            main: (running.watch.biggest.0, running.watch.biggest_name.clone()),
            complaint: running.err.last_lines(),
            huge_pages: running.watch.huge_pages,
            runtime: running.watch.runtime_seen.clone(),
            mapped: running.watch.mapped,
        }
    }

    /// The figures that the user named, from an output.
    fn figures(&self, output: &Path) -> Result<BTreeMap<String, allocanary_rows::program::Figure>, Failure> {
        let mut found = BTreeMap::new();
        if self.program.metric.is_empty() {
            return Ok(found);
        }
        let bytes = std::fs::read(output).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).replace('\r', "\n");
        let around = |text: String| Failure { kind: FailureKind::Around, text };
        for (key, expression) in &self.program.metric {
            let wanted = FigurePattern::parse(key, expression).map_err(around)?;
            let last = pipes::last_lines(text.as_bytes());
            let last = if last.is_empty() { "it was empty".to_string() } else { format!("it ended with: {last}") };
            let figure = wanted.find(&text).map_err(|error| around(format!("{error}; {last}")))?;
            found.insert(wanted.name, figure);
        }
        Ok(found)
    }
}
