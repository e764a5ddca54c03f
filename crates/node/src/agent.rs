//! The agent. It counts all processes each minute, and in between has heaps read as its budget allows. In: a world, and a reader of heaps.
//! Out: reports.
//!
//! The agent itself reads only files of `/proc` that the kernel answers at once. A child reads the memory of processes, and is left behind
//! if it does not answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use allocanary_rows::fleet::{Machine, NodeReport, Own, SCHEMA};
use allocanary_sys::proc::Stat;
use allocanary_sys::proc::stat::time;

use crate::costs::Costs;
use crate::group::Membership;
use crate::known::ProcessRecord;
use crate::look::{CounterTarget, HeapReader, LookReply, LookRequest};
use crate::names::PodNames;
use crate::rows::rows;
use crate::schedule::{AgentStep, CpuBudget, next, step};
use crate::stat::{MemoryStatus, ProcessKey};
use crate::world::{Charged, World};

/// The time limit for reading one process. The kernel's locks are held for much shorter, because pages are asked for in pieces.
const TIME: Duration = Duration::from_secs(10);
/// The most processes that the agent keeps. More are in no row, and the report says so.
const MOST: usize = 20_000;
/// Profiles may cost this part of the agent's share in addition. They have a budget of their own: otherwise someone who asks without end
/// would leave nothing for heaps.
const FOR_PROFILES: f64 = 0.5;
/// The expected cost of a process that was never read is at most this many times the mean of the others.
const MOST_LARGER: f64 = 100.0;
/// The most problems in a report.
const PROBLEMS: usize = 20;
/// The most processes that may not be read that are named in a problem.
const NAMED: usize = 5;
/// How many processes are asked for their counters in one request. `COUNT_TIME` limits each request.
const AT_ONCE: usize = 100;
const COUNT_TIME: Duration = Duration::from_secs(2);
/// The time for the counters of all processes. A process whose turn does not come within it is asked at the next count.
const ALL_TIME: Duration = Duration::from_secs(30);

/// All that the agent knows.
#[derive(Debug)]
pub struct Agent<W> {
    world: W,
    node: String,
    /// The kernel's ID of this boot of the machine.
    boot: String,
    host: Machine,
    /// The time between two counts of all processes.
    every: Duration,
    due: Duration,
    budget: CpuBudget,
    /// The budget of profiles.
    for_profiles: CpuBudget,
    /// The number of readings so far, the sum of the anonymous bytes of these processes, and the cost of the readings.
    read_costs: (u32, u64, Duration),
    /// What the last count has cost.
    count_cost: Duration,
    known: BTreeMap<ProcessKey, ProcessRecord>,
    groups: BTreeMap<Membership, Charged>,
    names: PodNames,
    /// When the kubelet last told names, in milliseconds since 1970.
    named: Option<u64>,
    /// When all processes were last counted, in milliseconds since 1970.
    counted: Option<u64>,
    walks: u64,
    failed: u64,
    /// Whether a process that was never tried is read next, if there is one.
    new_first: bool,
    left_out: usize,
    /// Whether a reading also looks whether the process has a profile.
    profiles: bool,
    /// Why the kubelet's last answer brought no names, or not all.
    unnamed: Option<String>,
}

impl<W: World> Agent<W> {
    /// An agent that knows no process yet. `share` is the part of a core that it may use: 0.01.
    pub fn new(world: W, node: String, host: Machine, every: Duration, share: f64) -> Agent<W> {
        Agent {
            boot: world.boot(),
            world,
            node,
            host,
            every,
            due: Duration::ZERO,
            budget: CpuBudget::new(share),
            for_profiles: CpuBudget::with_loan(share * FOR_PROFILES),
            read_costs: (0, 0, Duration::ZERO),
            count_cost: Duration::ZERO,
            known: BTreeMap::new(),
            groups: BTreeMap::new(),
            names: PodNames::default(),
            named: None,
            counted: None,
            walks: 0,
            failed: 0,
            new_first: true,
            left_out: 0,
            profiles: false,
            unnamed: None,
        }
    }

    /// Sets whether a reading also looks whether the process has a profile.
    pub fn with_profiles(self, profiles: bool) -> Agent<W> {
        Agent { profiles, ..self }
    }

    /// The next step. `now` is the time since the start. `spent` is the CPU time spent on all but profiles.
    pub fn step(&mut self, now: Duration, spent: Duration) -> AgentStep {
        self.budget.look(now, spent);
        let waiting = || {
            let at = next(self.known.values().map(|one| one.waiting(now)), self.new_first)?;
            Some((at, self.expected(self.known.values().nth(at)?)))
        };
        step(&self.budget, now, self.due, self.count_cost, waiting)
    }

    /// How long to wait before a profile may be read, because profiles have cost too much. `None` if one may be read now. `spent` is what
    /// profiles have cost.
    pub fn owes(&mut self, now: Duration, spent: Duration) -> Option<Duration> {
        self.for_profiles.look(now, spent);
        Some(self.for_profiles.wait(Duration::ZERO)).filter(|wait| !wait.is_zero())
    }

    /// The expected cost of reading a process: that of its last reading, or one derived from other readings and the size of its memory.
    fn expected(&self, one: &ProcessRecord) -> Duration {
        let (walks, bytes, cost) = self.read_costs;
        let mean = cost.checked_div(walks).unwrap_or_default();
        let larger = one.status.anonymous as f64 * f64::from(walks) / (bytes as f64).max(1.0);
        one.cost.unwrap_or_else(|| mean.mul_f64(larger.clamp(1.0, MOST_LARGER)))
    }

    /// Notes what a reading of a process has cost, whether it succeeded or not.
    pub fn paid(&mut self, key: ProcessKey, cost: Duration) {
        let Some(one) = self.known.get_mut(&key) else { return };
        one.cost = Some(cost);
        let (walks, bytes, sum) = self.read_costs;
        self.read_costs = (walks.saturating_add(1), bytes.saturating_add(one.status.anonymous), sum + cost);
    }

    /// Is told what a count has cost. If that is much, the next count is later. `now` is the time since the start.
    pub fn counted_for(&mut self, now: Duration, cost: Duration) {
        self.count_cost = cost;
        self.due = now.saturating_add(self.budget.pause(self.every, cost));
    }

    /// Whether a number is that of the process that was counted, and not of another one that began since.
    pub fn is_same(&self, pid: u32) -> bool {
        let now = self.of_process(pid).map(|(stat, ..)| ProcessKey::of(&stat));
        now.is_some_and(|key| self.known.contains_key(&key))
    }

    /// The position of the process that needs its first reading most, if one is left. The budget does not count here.
    pub fn untried(&self, now: Duration) -> Option<usize> {
        let waiting = |one: &ProcessRecord| one.waiting(now);
        next(self.known.values().map(waiting), true)
            .filter(|at| self.known.values().nth(*at).is_some_and(|one| one.tried.is_none()))
    }

    /// Counts every process.
    pub fn count(&mut self, now: Duration, look: &mut dyn HeapReader) {
        // The next count is due from now on, not from the last due time, so that no two counts follow each other at once after a jump of
        // the clock.
        self.due = now.saturating_add(self.every);
        // Processes that are older than the agent count as seen twice.
        let is_first = self.counted.is_none();
        self.counted = Some(self.world.time());
        let mut here: BTreeSet<ProcessKey> = BTreeSet::new();
        self.left_out = 0;
        for pid in self.world.pids() {
            let Some((stat, status, listed)) = self.of_process(pid) else { continue };
            let key = ProcessKey::of(&stat);
            if here.len() >= MOST {
                self.left_out += 1;
                continue;
            }
            here.insert(key);
            let one = match self.known.get_mut(&key) {
                Some(one) => {
                    one.has_stayed = true;
                    one
                }
                None => self
                    .known
                    .entry(key)
                    .or_insert_with(|| ProcessRecord { has_stayed: is_first, ..ProcessRecord::default() }),
            };
            (one.cpu, one.pid, one.name, one.status) = (time(stat.cpu()).as_millis() as u64, pid, stat.name, status);
            one.started = self.world.booted().saturating_add(time(key.start).as_millis() as u64);
            if one.listed != listed {
                one.place = Membership::parse(&listed);
                one.listed = listed;
            }
        }
        self.known.retain(|key, _| here.contains(key));
        let lists: BTreeMap<&Membership, &str> =
            self.known.values().map(|one| (&one.place, one.listed.as_str())).collect();
        self.groups = lists.into_iter().map(|(place, listed)| (place.clone(), self.world.group(listed))).collect();
        self.read_counters(look);
    }

    /// What the kernel says of a process. `None` if it has ended, or has no memory.
    fn of_process(&self, pid: u32) -> Option<(Stat, MemoryStatus, String)> {
        let stat = self.world.stat(pid).filter(|stat| !stat.is_bare())?;
        let status = MemoryStatus::of(&self.world.status(pid)?)?;
        Some((stat, status, self.world.groups(pid)?))
    }

    /// Reads the counters of all processes that have some, and finds out whether the memory of new ones may be read. One of the processes
    /// in a request may keep the child waiting for ever. Then each half is asked again, until that process is found.
    fn read_counters(&mut self, look: &mut dyn HeapReader) {
        let begun = Instant::now();
        let mut all: Vec<(ProcessKey, CounterTarget)> = Vec::new();
        for (key, one) in &mut self.known {
            one.counters = None;
            let places = one.identity.as_ref().map_or(&[][..], |identity| &identity.places);
            if !one.is_stuck && (one.may_read.is_none() || !one.is_denied() && !places.is_empty()) {
                all.push((*key, CounterTarget { pid: key.pid, places: places.to_vec() }));
            }
        }
        let mut pieces: VecDeque<&[(ProcessKey, CounterTarget)]> = all.chunks(AT_ONCE).collect();
        while let Some(piece) = pieces.pop_front().filter(|_| begun.elapsed() < ALL_TIME) {
            let wanted: Vec<CounterTarget> = piece.iter().map(|(_, one)| one.clone()).collect();
            match (look.count(&wanted, COUNT_TIME), piece) {
                (Ok(told), _) => {
                    for ((key, _), told) in piece.iter().zip(told) {
                        let Some(one) = self.known.get_mut(key) else { continue };
                        one.may_read = told.may_read.or(one.may_read);
                        one.counters = told.counters;
                    }
                }
                (Err(_), [(key, _)]) => {
                    if let Some(one) = self.known.get_mut(key) {
                        one.is_stuck = true;
                    }
                }
                (Err(_), _) => {
                    // The halves go to the end of the queue, so that other requests use the time that is left first.
                    let (one, other) = piece.split_at(piece.len() / 2);
                    pieces.extend([one, other]);
                }
            }
        }
    }

    /// The request for the process at this position of the list.
    pub fn wanted(&self, at: usize) -> Option<(ProcessKey, LookRequest)> {
        let (key, one) = self.known.iter().nth(at)?;
        let quota = self.groups.get(&one.place).and_then(|group| group.quota);
        Some((*key, LookRequest { pid: key.pid, quota, time: TIME, profile: self.profiles }))
    }

    /// Keeps the result of reading a process.
    pub fn saw(&mut self, key: ProcessKey, now: Duration, seen: Result<LookReply, String>) {
        // By now the PID may belong to another process, and more memory may be resident than at the last count.
        let still = self.of_process(key.pid).filter(|(stat, ..)| ProcessKey::of(stat) == key);
        let Some(one) = self.known.get_mut(&key) else { return };
        self.new_first = one.tried.is_some();
        one.tried = Some(now);
        let Some((_, status, _)) = still else { return };
        one.status = status;
        let (heap, problem) = match seen {
            Ok(LookReply { identity, counters, heap, problem }) => {
                one.identity = Some(identity);
                (one.counters, one.is_stuck) = (counters, false);
                (heap, problem)
            }
            Err(problem) => (None, problem),
        };
        match heap {
            Some(heap) => {
                self.walks += 1;
                one.failures = 0;
                one.problem.clone_from(&heap.problem);
                one.heap = Some((self.world.time(), heap));
            }
            None => {
                self.failed += 1;
                one.failures = one.failures.saturating_add(1);
                // The problem begins with the PID. Without it, many processes have the same text.
                one.problem = problem.strip_prefix(&format!("process {}: ", key.pid)).unwrap_or(&problem).to_string();
            }
        }
    }

    /// Takes the names of pods from the kubelet.
    pub fn named(&mut self, names: PodNames) {
        let refused = names.refused;
        self.unnamed = (refused > 0).then(|| format!("the kubelet told {refused} pods whose names cannot be names"));
        (self.names, self.named) = (names, Some(self.world.time()));
    }

    /// Notes why the kubelet told no names. The names that are known stay.
    pub fn nameless_because(&mut self, error: String) {
        self.unnamed = Some(format!("names of pods: {error}"));
    }

    /// UIDs of pods, and IDs of containers, that have no name.
    pub fn nameless(&self) -> BTreeSet<String> {
        let mut nameless = BTreeSet::new();
        for place in self.groups.keys() {
            let Some(uid) = &place.pod else { continue };
            match (self.names.pod(uid), &place.container) {
                (None, _) => _ = nameless.insert(uid.clone()),
                (Some(pod), Some(id)) if !pod.containers.contains_key(id) => _ = nameless.insert(id.clone()),
                _ => {}
            }
        }
        nameless
    }

    fn problems(&self, denied: u64) -> Vec<String> {
        let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for one in self.known.values().filter(|one| !one.problem.is_empty()) {
            *counts.entry((&one.name, &one.problem)).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let told = counts.iter().take(PROBLEMS).map(|((name, problem), count)| match count {
            1 => format!("{name}: {problem}"),
            _ => format!("{name}: {problem} ({count} processes)"),
        });
        let mut problems: Vec<String> = told.collect();
        if counts.len() > PROBLEMS {
            problems.push(format!("{} more problems", counts.len() - PROBLEMS));
        }
        problems.extend(self.unnamed.clone());
        problems.extend(self.world.problems());
        if self.left_out > 0 {
            problems.push(format!("{} processes are in no row: more than {MOST} are here", self.left_out));
        }
        let stuck = self.known.values().filter(|one| one.is_stuck).count();
        if stuck > 0 {
            problems.push(format!("processes whose counters did not come within {} s: {stuck}", COUNT_TIME.as_secs()));
        }
        if let Some(option) = self.world.hides_by() {
            problems.push(format!(
                "processes of other users are hidden, and how many there are is not known: /proc is mounted with {option}. Wanted: \
                 CAP_SYS_PTRACE (run as root)"
            ));
        }
        if denied > 0 {
            let all = self.known.values().filter(|one| one.is_denied());
            let first: Vec<String> = all.take(NAMED).map(|one| format!("{} {}", one.pid, one.name)).collect();
            let more = if denied > NAMED as u64 { ", …" } else { "" };
            problems.push(format!(
                "processes that may not be read: {denied} ({}{more}). Wanted: CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH (run as root), and \
                 the host's process IDs",
                first.join(", ")
            ));
        }
        problems
    }

    /// The report of the last count. `costs` is what the agent has cost so far. `resident` is the resident bytes of this process and its
    /// child.
    pub fn report(&self, now: Duration, costs: &Costs, resident: u64) -> NodeReport {
        let denied = self.known.values().filter(|one| one.is_denied()).count() as u64;
        let pods: BTreeSet<&String> = self.groups.keys().filter_map(|place| place.pod.as_ref()).collect();
        let own = Own {
            cpu: costs.all().as_secs_f64(),
            cpu_counts: costs.counts.as_secs_f64(),
            cpu_walks: costs.walks.as_secs_f64(),
            up: now.as_secs_f64(),
            resident,
            processes: self.known.len() as u64,
            denied,
            hides_by: self.world.hides_by(),
            walks: self.walks,
            failed: self.failed,
            names: self.named,
            nameless: pods.into_iter().filter(|uid| self.names.pod(uid).is_none()).count() as u64,
            sent: None,
        };
        NodeReport {
            schema: SCHEMA,
            node: self.node.clone(),
            taken: self.counted.unwrap_or(0),
            boot: self.boot.clone(),
            host: self.host.clone(),
            rows: rows(&self.known, &self.names, &self.groups),
            own,
            problems: self.problems(denied),
        }
    }
}

#[cfg(test)]
#[path = "agent_test.rs"]
mod tests;
