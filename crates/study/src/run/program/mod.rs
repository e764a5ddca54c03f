//! Runs the user's program as a cell: starts it with an allocator preloaded, watches it from outside, and ends it with all
//! that it has started. In: a cell with a program. Out: what a cell's answer has, or a failure.

mod around;
mod figures;
mod group;
mod launcher;
mod pipes;
mod proof;
mod ready;
mod tree;
mod watch;

pub use figures::Wanted;
pub use group::Limits;
pub use launcher::{Launcher, check, limits};
pub use ready::Ready;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::cause::cause;
use allocanary_cell::Cell;
use allocanary_cell::program::Program;
use allocanary_cell::sample::{Answer, Failure, FailureKind};
use allocanary_cell::workload::Phase;
use allocanary_kernel::sys::{self, Usage};
use allocanary_kernel::units::parse_duration;
use around::{Around, how, signal_number};
use group::Group;
use pipes::Pipe;
use tree::{Details, Sizes};
use watch::Watch;

/// The time that a service has to end after its signal, and processes that a program leaves have to end by themselves.
const GRACE: Duration = Duration::from_secs(10);
const LEFT: Duration = Duration::from_secs(1);

/// Where one run happens, and with what.
pub struct Place<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Its program, with its port and folder filled in.
    pub program: Program,
    /// Files of the run.
    pub folder: PathBuf,
    /// The environment of the program.
    pub environment: BTreeMap<String, String>,
    /// The environment of the commands around it.
    pub around: BTreeMap<String, String>,
    /// When it must have ended.
    pub deadline: Duration,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
}

/// A run that has ended.
pub struct Ran {
    /// What was measured.
    pub answer: Answer,
    /// The process that had the most memory, and its program.
    pub main: (u32, String),
    /// The last lines of its standard error.
    pub complaint: String,
}

fn fail<T>(kind: FailureKind, text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure { kind, text: text.into() })
}

/// The readings at each mark.
#[derive(Default)]
struct Marks {
    phases: Vec<Phase>,
    columns: BTreeMap<String, Vec<Option<u64>>>,
}

impl Marks {
    fn mark(&mut self, phase: Phase, readings: &[(&str, Option<u64>)]) {
        for (name, value) in readings {
            let column = self.columns.entry(name.to_string()).or_default();
            column.resize(self.phases.len(), None);
            column.push(*value);
        }
        self.phases.push(phase);
        self.columns.values_mut().for_each(|column| column.resize(self.phases.len(), None));
    }

    /// Replaces a value at the last mark.
    fn set(&mut self, name: &str, value: u64) {
        let marks = self.phases.len();
        let column = self.columns.entry(name.to_string()).or_default();
        column.resize(marks, None);
        if let Some(last) = column.last_mut() {
            *last = Some(value);
        }
    }

    /// A mark with a complete reading.
    fn read(&mut self, phase: Phase, watch: &mut Watch) {
        let (sizes, details) = watch.read();
        self.mark(phase, &readings(&sizes, &details, watch.peak));
    }
}

/// How many of the readings are sizes of processes.
const SIZES: usize = 6;

fn readings(sizes: &Sizes, details: &Details, peak: u64) -> [(&'static str, Option<u64>); 14] {
    [
        ("rss_bytes", Some(sizes.rss)),
        ("peak_rss_bytes", Some(peak)),
        ("rss_anon_bytes", Some(sizes.anon)),
        ("vsz_bytes", Some(sizes.vsz)),
        ("threads", Some(sizes.threads)),
        ("processes", Some(sizes.processes)),
        ("minor_faults", Some(details.minor_faults)),
        ("major_faults", Some(details.major_faults)),
        ("user_us", Some(details.user_us)),
        ("system_us", Some(details.system_us)),
        ("pss_bytes", details.pss),
        ("private_bytes", details.private),
        ("lazy_free_bytes", details.lazy_free),
        ("anon_huge_bytes", details.huge),
    ]
}

/// A program that was started. Whatever happens, dropping it ends it with all that it has started.
struct Running<'a> {
    place: &'a Place<'a>,
    root: u32,
    watch: Watch,
    out: Pipe,
    err: Pipe,
    group: Option<Group>,
    started: Instant,
    /// The first process's status and resources, when it has ended.
    ended: Option<(i32, Usage)>,
    /// The resources of processes that it left to us.
    orphans: Usage,
    is_over: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<'a> Running<'a> {
    fn start(place: &'a Place<'a>) -> Result<Running<'a>, Failure> {
        let program = &place.program;
        let limits = limits(program).map_err(|text| Failure { kind: FailureKind::Start, text })?;
        let start = |text: String| Failure { kind: FailureKind::Start, text };
        let group = match limits == Limits::default() {
            true => None,
            false => Some(Group::make(limits).map_err(start)?),
        };
        let entries = group.as_ref().map_or(Ok(Vec::new()), Group::entries).map_err(start)?;
        let name = program.command.first().map_or("", String::as_str);
        let spawn = || -> std::io::Result<(u32, Pipe, Pipe)> {
            let mut command = Command::new(name);
            command.args(&program.command[1..]).env_clear().envs(&place.environment);
            let input = program.stdin.as_ref().map(std::fs::File::open).transpose()?;
            command.stdin(input.map_or_else(Stdio::null, Stdio::from)).stdout(Stdio::piped()).stderr(Stdio::piped());
            sys::prepare(&mut command, entries);
            let mut child = command.spawn()?;
            let line = program.ready.as_deref().and_then(|text| text.strip_prefix("line:"));
            let mut pipes = || -> std::io::Result<(Pipe, Pipe)> {
                let (out, err) = (child.stdout.take().expect("it is piped"), child.stderr.take().expect("it is piped"));
                let file = |name: &str| place.folder.join(name);
                Ok((Pipe::read(out, &file("stdout"), line)?, Pipe::read(err, &file("stderr"), line)?))
            };
            match pipes() {
                Ok((out, err)) => Ok((child.id(), out, err)),
                Err(error) => {
                    tree::end(child.id(), &Default::default());
                    let _ = child.wait();
                    Err(error)
                }
            }
        };
        let (root, out, err) = spawn()
            .map_err(|error| start(format!("{name} could not be started: {}", cause(&error, Path::new(name)))))?;
        Ok(Running {
            place,
            root,
            watch: Watch::of(root),
            out,
            err,
            group,
            started: Instant::now(),
            ended: None,
            orphans: Usage::default(),
            is_over: false,
        })
    }

    fn until(&self) -> Instant {
        self.started + self.place.deadline
    }

    /// Whether the run has to stop: its time is over, or the user has interrupted it.
    fn must_stop(&self) -> bool {
        self.place.stop.load(Ordering::Relaxed) || Instant::now() >= self.until()
    }

    /// Waits and samples for a moment; whether the first process still runs.
    fn step(&mut self, watched: &sys::Watched) -> bool {
        self.watch.sample();
        watched.sleep(self.watch.pause().min(Duration::from_millis(20)));
        self.is_running()
    }

    fn is_running(&mut self) -> bool {
        if self.ended.is_none() {
            match sys::reap(self.root) {
                Ok(None) => {}
                Ok(Some(ended)) => self.ended = Some(ended),
                Err(_) => self.ended = Some((0, Usage::default())),
            }
        }
        self.ended.is_none()
    }

    /// Collects orphans that have ended; whether any process of the program is alive.
    fn is_alive(&mut self) -> bool {
        let running = self.is_running();
        let alive: Vec<u32> = tree::members(&self.watch.others);
        for pid in alive {
            if pid != self.root
                && let Ok(Some((_, usage))) = sys::reap(pid)
            {
                self.orphans = tree::added(self.orphans, usage);
            }
        }
        running || !self.watch.alive().is_empty()
    }

    /// Ends all processes.
    fn end(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.orphans = tree::added(self.orphans, tree::end(self.root, &self.watch.others));
        self.is_running();
        self.out.finish(LEFT);
        self.err.finish(LEFT);
    }

    /// What it wrote last.
    fn last(&self) -> String {
        let (err, out) = (self.err.last_lines(), self.out.last_lines());
        match (err.is_empty(), out.is_empty()) {
            (false, _) => format!(": {err}"),
            (true, false) => format!(": {out}"),
            (true, true) => String::new(),
        }
    }

    /// The failure of a program that has ended when it should not, or by a signal or an exit code.
    fn failure(&mut self, when: &str) -> Failure {
        self.end();
        let Some((status, _)) = self.ended else {
            return Failure { kind: FailureKind::Crashed, text: format!("ended{when}{}", self.last()) };
        };
        if self.group.as_ref().is_some_and(|group| group.kills() > 0) {
            let memory = self.place.program.memory.as_deref().unwrap_or_default();
            let text = format!("killed by the kernel for memory: it needs more than --memory {memory}{}", self.last());
            return Failure { kind: FailureKind::OutOfMemory, text };
        }
        Failure { kind: FailureKind::Crashed, text: format!("{}{when}{}", how(status), self.last()) }
    }

    fn late(&mut self, what: &str) -> Failure {
        self.end();
        let seconds = self.place.deadline.as_secs_f64();
        let text = format!("{what} within its deadline of {seconds} s (--deadline){}", self.last());
        Failure { kind: FailureKind::Late, text }
    }

    /// All that it and its descendants have used.
    fn used(&self) -> Usage {
        tree::added(self.ended.map_or(Usage::default(), |(_, usage)| usage), self.orphans)
    }

    /// A command of the user's around the program.
    fn around<'b>(&'b self, flag: &'b str, text: &'b str, input: Option<&'b Path>) -> Around<'b> {
        self.place.around(flag, text, input)
    }
}

impl Place<'_> {
    fn around<'b>(&'b self, flag: &'b str, text: &'b str, input: Option<&'b Path>) -> Around<'b> {
        let output = self.folder.join(flag.trim_start_matches('-'));
        Around { flag, text, folder: Path::new("."), environment: &self.around, output, input }
    }

    /// Runs the program, and the commands before and after it.
    pub fn run(&self) -> Result<Ran, Failure> {
        let until = Instant::now() + self.deadline;
        if let Some(text) = &self.program.before {
            self.around("--before", text, None).run(None, until, self.stop)?;
        }
        let ran = if self.program.is_service() { self.service() } else { self.once() };
        if let Some(text) = &self.program.after {
            // After a failure too: it cleans up. The failure of the program says more than that of the cleaning.
            let after = self.around("--after", text, None).run(None, Instant::now() + self.deadline, self.stop);
            if ran.is_ok() {
                after?;
            }
        }
        ran
    }

    /// A program that ends.
    fn once(&self) -> Result<Ran, Failure> {
        let mut running = Running::start(self)?;
        let watched = sys::Watched::of(running.root);
        let mut marks = Marks::default();
        marks.mark(Phase::Start, &START);
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
        let most = running.watch.most;
        let details = Details {
            minor_faults: used.minor_faults,
            major_faults: used.major_faults,
            user_us: used.user_us,
            system_us: used.system_us,
            ..Details::default()
        };
        let mut found = readings(&most, &details, running.watch.peak);
        if most.processes == 0 {
            // It ended before it could be looked at: its sizes are not known.
            found[..SIZES].iter_mut().for_each(|(_, value)| *value = None);
        }
        marks.mark(Phase::Peak, &found);
        marks.set("context_switches", used.switches);
        let output = running.out.output();
        if running.out.is_full() && (self.program.check.is_some() || !self.program.metric.is_empty()) {
            return fail(FailureKind::Around, "its output could not be kept for --check or --metric: the disk is full");
        }
        if let Some(text) = &self.program.check {
            let until = Instant::now() + self.deadline;
            running.around("--check", text, Some(&running.out.file)).run(None, until, self.stop)?;
        }
        let figures = self.figures(&running.out.file, &running)?;
        let answer = Answer {
            operations: 1,
            active_ns: wall.as_nanos() as u64,
            output: Some(output),
            figures,
            ..self.answer(marks, &running)
        };
        Ok(self.ran(answer, &running))
    }

    /// A program that runs until it is stopped.
    fn service(&self) -> Result<Ran, Failure> {
        let wrong = |text: String| Failure { kind: FailureKind::Start, text };
        let ready = self.program.ready.as_deref().map(Ready::parse).transpose().map_err(wrong)?;
        if let Some(taken) = ready.as_ref().and_then(Ready::is_taken) {
            let text =
                format!("{taken} answers before the program is started: another program has that port; use {{port}}");
            return fail(FailureKind::Start, text);
        }
        let mut running = Running::start(self)?;
        let watched = sys::Watched::of(running.root);
        let mut marks = Marks::default();
        marks.mark(Phase::Start, &START);
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
        marks.read(Phase::Ready, &mut running.watch);
        running.watch.forget();
        let mut wall = Duration::ZERO;
        if let Some(text) = &self.program.load {
            let until = running.until();
            let mut watch = std::mem::replace(&mut running.watch, Watch::of(running.root));
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
        marks.mark(Phase::Peak, &readings(&running.watch.most, &details, running.watch.peak));
        let settle = self.program.settle.as_deref().and_then(parse_duration).unwrap_or(SETTLE);
        let settled = Instant::now() + settle;
        while Instant::now() < settled {
            if running.must_stop() {
                return Err(running.late("did not settle (--settle)"));
            }
            running.watch.sample();
            let pause = running.watch.pause().min(settled.saturating_duration_since(Instant::now()));
            watched_sleep(&mut running, &watched, pause.min(Duration::from_millis(50)));
        }
        if !running.is_alive() {
            return Err(running.failure(" while it was idle"));
        }
        marks.read(Phase::Idle, &mut running.watch);
        let over = running.watch.over_time();
        let killed = running.stop();
        let used = running.used();
        marks.set("context_switches", used.switches);
        let figures = match &self.program.load {
            Some(_) => self.figures(&self.folder.join("load"), &running)?,
            None => BTreeMap::new(),
        };
        let mut answer = Answer { active_ns: wall.as_nanos() as u64, figures, ..self.answer(marks, &running) };
        answer.over_time = Some(over);
        if killed {
            answer.notes.insert("killed_after_stop".into(), 1);
        }
        Ok(self.ran(answer, &running))
    }

    fn answer(&self, marks: Marks, running: &Running) -> Answer {
        Answer {
            live_bytes: vec![0; marks.phases.len()],
            phases: marks.phases,
            readings: marks.columns,
            over_time: Some(running.watch.over_time()),
            ..Answer::default()
        }
    }

    fn ran(&self, answer: Answer, running: &Running) -> Ran {
        Ran {
            answer,
            main: (running.watch.biggest.0, running.watch.biggest_name.clone()),
            complaint: running.err.last_lines(),
        }
    }

    /// The figures that the user named, from an output.
    fn figures(
        &self,
        output: &Path,
        _running: &Running,
    ) -> Result<BTreeMap<String, allocanary_cell::program::Figure>, Failure> {
        let mut found = BTreeMap::new();
        if self.program.metric.is_empty() {
            return Ok(found);
        }
        let bytes = std::fs::read(output).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).replace('\r', "\n");
        let around = |text: String| Failure { kind: FailureKind::Around, text };
        for (key, expression) in &self.program.metric {
            let wanted = Wanted::parse(key, expression).map_err(around)?;
            let last = pipes::last_lines(text.as_bytes());
            let last = if last.is_empty() { "it was empty".to_string() } else { format!("it ended with: {last}") };
            let figure = wanted.find(&text).map_err(|error| around(format!("{error}; {last}")))?;
            found.insert(wanted.name, figure);
        }
        Ok(found)
    }
}

/// The default time that a service is idle.
const SETTLE: Duration = Duration::from_secs(5);

/// At its start a program has used nothing. Its memory is not read: the loader may still be at work.
const START: [(&str, Option<u64>); 4] =
    [("user_us", Some(0)), ("system_us", Some(0)), ("minor_faults", Some(0)), ("major_faults", Some(0))];

fn watched_sleep(running: &mut Running, watched: &sys::Watched, most: Duration) {
    match running.ended {
        None => watched.sleep(most),
        Some(_) => std::thread::sleep(most),
    }
    running.is_running();
}

impl Running<'_> {
    fn is_ready(&mut self, ready: &Ready) -> Result<bool, Failure> {
        Ok(match ready {
            Ready::Line(_) => self.out.has_wanted() || self.err.has_wanted(),
            Ready::Command(text) => {
                let mut watch = std::mem::replace(&mut self.watch, Watch::of(self.root));
                let (place, until) = (self.place, self.until());
                let done = place.around("--ready", text, None).attempt(Some(&mut watch), until, place.stop);
                self.watch = watch;
                done?.ok
            }
            _ => ready.answers() == Some(true),
        })
    }

    /// Sends the signal that ends a service, and waits; whether it had to be killed.
    fn stop(&mut self) -> bool {
        let signal = self.place.program.stop.as_deref().and_then(signal_number).unwrap_or(libc::SIGTERM);
        // A daemon has left the first process, so every process that has no parent below us gets the signal.
        let roots: Vec<u32> = if self.is_running() { vec![self.root] } else { self.watch.alive().to_vec() };
        roots.iter().for_each(|pid| sys::signal(*pid, false, signal));
        let until = Instant::now() + GRACE;
        let mut pause = Duration::from_millis(1);
        while self.is_alive() {
            if Instant::now() >= until || self.place.stop.load(Ordering::Relaxed) {
                self.end();
                return true;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        self.end();
        false
    }
}
