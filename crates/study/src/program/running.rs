//! A program that was started, with all processes that it starts. In: a context. Out: whether it runs, whether it is ready, and how it has
//! ended. It is ended whatever happens.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::ContainerLimits;
use super::around::{ShellCommand, how, is_killed, signal_number};
use super::cause::{cause, killed_for_memory};
use super::context::RunContext;
use super::group::ControlGroup;
use super::huge_pages;
use super::pipes::Pipe;
use super::ready::Ready;
use super::tree;
use super::values::limits;
use super::variables;
use super::watch::{LEAST_PARTS, LOADED, ProgramUse};
use allocanary_rows::sample::{Failure, FailureKind};
use allocanary_sys::sys::{self, HugePages, ResourceUsage};

/// The most bytes that the child may touch after it has read its own memory and before `exec`.
const FAULTED: u64 = 256 << 10;
/// The time that a service has to end after its signal.
const GRACE: Duration = Duration::from_secs(10);
/// The time that leftover processes of a program, and its outputs, have to end by themselves.
pub(super) const LEFT: Duration = Duration::from_secs(1);

/// A program that was started. Whatever happens, dropping it ends it with all that it has started.
pub(super) struct Running<'a> {
    place: &'a RunContext<'a>,
    pub(super) root: u32,
    pub(super) watch: ProgramUse,
    pub(super) out: Pipe,
    pub(super) err: Pipe,
    group: Option<ControlGroup>,
    /// How many processes of our own control group the kernel had killed for memory before it was started.
    kills_before: u64,
    pub(super) started: Instant,
    /// The first process's status and resources, once it has ended.
    pub(super) ended: Option<(i32, ResourceUsage)>,
    /// The resources of processes that became our children when their parents had ended.
    orphans: ResourceUsage,
    /// How much of this process's most resident memory the kernel counts for the program, across fork and exec: see [`sys::Carried`].
    carried: u64,
    /// What a tracer sees at its exit, if it is traced.
    at_exit: Option<sys::AtExit>,
    is_over: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<'a> Running<'a> {
    /// Starts the program. `is_traced`: whether its most resident memory is read at its exit, which makes it slower.
    pub(super) fn start(place: &'a RunContext<'a>, is_traced: bool) -> Result<Running<'a>, Failure> {
        let program = &place.program;
        let limits = limits(program).map_err(|text| Failure { kind: FailureKind::Start, text })?;
        let start = |text: String| Failure { kind: FailureKind::Start, text };
        let group = match limits == ContainerLimits::default() {
            true => None,
            false => Some(ControlGroup::make(limits).map_err(start)?),
        };
        let entries = group.as_ref().map_or(Ok(Vec::new()), ControlGroup::entries).map_err(start)?;
        let name = program.command.first().map_or("", String::as_str);
        let kills_before = sys::memory_kills();
        let huge_pages = huge_pages::wanted(place.cell);
        let mut at_exit = None;
        let spawn = || -> std::io::Result<(u32, u64, Pipe, Pipe, Instant)> {
            let mut command = Command::new(name);
            command.args(&program.command[1..]).env_clear().envs(variables::others()).envs(&place.environment);
            let input = program.stdin.as_ref().map(std::fs::File::open).transpose()?;
            command.stdin(input.map_or_else(Stdio::null, Stdio::from)).stdout(Stdio::piped()).stderr(Stdio::piped());
            let carried = sys::prepare(&mut command, entries, huge_pages)?;
            at_exit = is_traced.then(|| sys::AtExit::of(&mut command)).transpose()?;
            // Before it starts: on a busy machine this thread may not run for 50 ms after that.
            let started = Instant::now();
            let mut child = command.spawn()?;
            let line = program.ready.as_deref().and_then(|text| text.strip_prefix("line:"));
            let mut pipes = || -> std::io::Result<(Pipe, Pipe)> {
                let (out, err) = (child.stdout.take().expect("it is piped"), child.stderr.take().expect("it is piped"));
                let file = |name: &str| place.folder.join(name);
                Ok((Pipe::read(out, &file("stdout"), line)?, Pipe::read(err, &file("stderr"), line)?))
            };
            match pipes() {
                Ok((out, err)) => Ok((child.id(), carried.bytes().unwrap_or(u64::MAX), out, err, started)),
                Err(error) => {
                    tree::end(child.id(), &Default::default());
                    let _ = child.wait();
                    Err(error)
                }
            }
        };
        let (root, carried, out, err, started) = spawn()
            .map_err(|error| start(format!("{name} could not be started: {}", cause(&error, Path::new(name)))))?;
        let mut watch = ProgramUse::of(root);
        watch.library = place.library.as_ref().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
        watch.runtime = place.runtime.cloned();
        watch.reads_advice = huge_pages == Some(HugePages::Advised);
        Ok(Running {
            place,
            root,
            carried,
            at_exit,
            watch,
            out,
            err,
            group,
            kills_before,
            started,
            ended: None,
            orphans: ResourceUsage::default(),
            is_over: false,
        })
    }

    pub(super) fn until(&self) -> Instant {
        self.started + self.place.deadline
    }

    /// Whether the run has to stop: its time is over, or the user has interrupted it.
    pub(super) fn must_stop(&self) -> bool {
        self.place.stop.load(Ordering::Relaxed) || Instant::now() >= self.until()
    }

    /// Waits for a moment and samples. Returns whether the first process still runs.
    pub(super) fn step(&mut self, watched: &sys::Watched) -> bool {
        self.watch.sample();
        watched.sleep(self.watch.pause().min(Duration::from_millis(20)));
        self.is_running()
    }

    pub(super) fn is_running(&mut self) -> bool {
        if self.ended.is_none() {
            match sys::reap(self.root) {
                Ok(None) => {}
                Ok(Some(ended)) => self.ended = Some(ended),
                Err(_) => self.ended = Some((0, ResourceUsage::default())),
            }
        }
        self.ended.is_none()
    }

    /// Collects orphans that have ended. Returns whether any process of the program is alive.
    pub(super) fn is_alive(&mut self) -> bool {
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
    pub(super) fn end(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.orphans = tree::added(self.orphans, tree::end(self.root, &self.watch.others));
        self.is_running();
        self.out.finish(LEFT);
        self.err.finish(LEFT);
    }

    /// The last lines that it wrote.
    pub(super) fn last(&self) -> String {
        let (err, out) = (self.err.last_lines(), self.out.last_lines());
        match (err.is_empty(), out.is_empty()) {
            (false, _) => format!(": {err}"),
            (true, false) => format!(": {out}"),
            (true, true) => String::new(),
        }
    }

    /// The failure of a program that ended when it should not have, by a signal, or with an exit code.
    pub(super) fn failure(&mut self, when: &str) -> Failure {
        self.end();
        let Some((status, _)) = self.ended else {
            return Failure { kind: FailureKind::Crashed, text: format!("ended{when}{}", self.last()) };
        };
        if self.group.as_ref().is_some_and(|group| group.kills() > 0) {
            let memory = self.place.program.memory_limit.as_deref().unwrap_or_default();
            let text =
                format!("killed by the kernel for memory: it needs more than --memory-limit {memory}{}", self.last());
            return Failure { kind: FailureKind::OutOfMemory, text };
        }
        // Without --memory-limit the program is in our own group, which may be that of a container and have a limit.
        if is_killed(status) && self.kills_before != sys::memory_kills() {
            let text = format!("{}{when}{}", killed_for_memory(sys::memory_limit()), self.last());
            return Failure { kind: FailureKind::OutOfMemory, text };
        }
        Failure { kind: FailureKind::Crashed, text: format!("{}{when}{}", how(status), self.last()) }
    }

    /// The failure of a program that had to stop: by its deadline, or because the user has interrupted it.
    pub(super) fn late(&mut self, what: &str) -> Failure {
        if self.place.stop.load(Ordering::Relaxed) {
            self.place.interrupt(&mut self.watch);
        }
        self.end();
        if self.place.stop.load(Ordering::Relaxed) {
            return Failure { kind: FailureKind::Late, text: "was interrupted".into() };
        }
        let seconds = self.place.deadline.as_secs_f64();
        // Without --ready or --load a program counts as one that ends.
        let service = match self.place.program.is_service() {
            true => "",
            false => "; if it is a service, say how to tell that it is ready (--ready) and how to use it (--load)",
        };
        let text = format!("{what} within its deadline of {seconds} s (--run-timeout){service}{}", self.last());
        Failure { kind: FailureKind::Late, text }
    }

    /// The resources that it and its descendants have used.
    pub(super) fn used(&self) -> ResourceUsage {
        tree::added(self.ended.map_or(ResourceUsage::default(), |(_, usage)| usage), self.orphans)
    }

    /// Whether the samples show the program, which has ended: there are enough, and it had begun by then. On a busy machine a program may
    /// wait for a processor for longer than a sample takes, and has only the few pages that exec gave it.
    pub(super) fn is_known(&self) -> bool {
        let used = self.used();
        let had_begun =
            self.watch.peak >= LEAST_PARTS || Duration::from_micros(used.user_us + used.system_us) >= LOADED;
        self.watch.is_known() && had_begun
    }

    /// The most resident memory since its start: of all processes as sampled, or of one by the kernel's account, which has
    /// the last moment too. 0 if neither knows it.
    pub(super) fn peak(&self) -> u64 {
        let of_one = Some(self.used().most_rss).filter(|most| *most > self.carried.saturating_add(FAULTED));
        let sampled = if self.is_known() { self.watch.peak } else { 0 };
        sampled.max(of_one.unwrap_or(0))
    }

    /// Its most resident memory, as a tracer saw it at its exit. The program has ended.
    pub(super) fn peak_at_exit(&self) -> Option<u64> {
        self.at_exit.as_ref()?.most_resident()
    }

    /// A command of the user's around the program.
    pub(super) fn around<'b>(&'b self, flag: &'b str, text: &'b str, input: Option<&'b Path>) -> ShellCommand<'b> {
        self.place.around(flag, text, input)
    }

    /// Waits for a moment, or until the first process ends.
    pub(super) fn sleep(&mut self, watched: &sys::Watched, most: Duration) {
        match self.ended {
            None => watched.sleep(most),
            Some(_) => std::thread::sleep(most),
        }
        self.is_running();
    }

    pub(super) fn is_ready(&mut self, ready: &Ready) -> Result<bool, Failure> {
        Ok(match ready {
            Ready::Line(_) => self.out.has_wanted() || self.err.has_wanted(),
            Ready::Command(text) => {
                let mut watch = std::mem::replace(&mut self.watch, ProgramUse::of(self.root));
                let (place, until) = (self.place, self.until());
                let done = place.around("--ready", text, None).attempt(Some(&mut watch), until, place.stop);
                self.watch = watch;
                done?.ok
            }
            _ => ready.answers() == Some(true),
        })
    }

    /// Sends the signal that ends a service, and waits. Returns whether it had to be killed.
    pub(super) fn stop(&mut self) -> bool {
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
