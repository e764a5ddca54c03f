//! The agent: counts all processes each minute, and reads heaps in between as its budget allows. In: a world, and who reads. Out: reports.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use allocanary_fleet::{Host, Own, Report, SCHEMA};

use crate::group::Place;
use crate::known::{Known, rows};
use crate::look::{Seen, Wanted};
use crate::names::Names;
use crate::schedule::{Budget, Step, next, step};
use crate::stat::{Key, Stat, Status};
use crate::world::{Charged, File, World};

/// The time for one process. The kernel's locks are held for far shorter: its pages are asked for in pieces.
const TIME: Duration = Duration::from_secs(10);
/// The most processes that are known. More are counted in no row, and the report says so.
const MOST: usize = 20_000;
/// Milliseconds of a tick: the kernel tells programs hundredths of a second, whatever its own clock.
const TICK: u64 = 10;
/// The problems that are told.
const PROBLEMS: usize = 20;

/// What the agent knows.
#[derive(Debug)]
pub struct Agent<W> {
    world: W,
    node: String,
    host: Host,
    /// How often all are counted.
    every: Duration,
    due: Duration,
    budget: Budget,
    known: BTreeMap<Key, Known>,
    groups: BTreeMap<Place, Charged>,
    names: Names,
    told: Option<u64>,
    own: Own,
    /// CPU time of children, by what is known of them.
    children: Duration,
    /// What the present child had spent when it was last heard of.
    child: (u64, u64),
    left_out: usize,
    problems: BTreeMap<String, u64>,
    /// Why the kubelet told no names when it was last asked.
    unnamed: Option<String>,
}

impl<W: World> Agent<W> {
    /// Knows nothing yet. `share` is the part of a core that it may use.
    pub fn new(world: W, node: String, host: Host, every: Duration, share: f64) -> Agent<W> {
        Agent {
            world,
            node,
            host,
            every,
            due: Duration::ZERO,
            budget: Budget::new(share),
            known: BTreeMap::new(),
            groups: BTreeMap::new(),
            names: Names::default(),
            told: None,
            own: Own::default(),
            children: Duration::ZERO,
            child: (0, 0),
            left_out: 0,
            problems: BTreeMap::new(),
            unnamed: None,
        }
    }

    /// The next step at a time since the start, if this process has spent so much CPU time by itself.
    pub fn step(&mut self, now: Duration, spent: Duration) -> Step {
        self.spend(now, spent);
        step(&self.budget, now, self.due, || next(self.known.values().map(|one| one.waiting(now))))
    }

    /// The place of a process that waits, whatever was spent.
    pub fn next(&self, now: Duration) -> Option<usize> {
        next(self.known.values().map(|one| one.waiting(now)))
    }

    fn spend(&mut self, now: Duration, spent: Duration) {
        let all = spent + self.children;
        self.budget.look(now, all);
        (self.own.cpu, self.own.up) = (all.as_secs_f64(), now.as_secs_f64());
    }

    /// Counts every process.
    pub fn count(&mut self, now: Duration) {
        // A clock that jumps makes no two counts of one.
        self.due = now + self.every;
        let mut here: BTreeSet<Key> = BTreeSet::new();
        self.left_out = 0;
        for pid in self.world.pids() {
            let Some((stat, status, listed)) = self.counted(pid) else { continue };
            let key = stat.key;
            if here.len() >= MOST {
                self.left_out += 1;
                continue;
            }
            here.insert(key);
            let world = &self.world;
            let one =
                self.known.entry(key).or_insert_with(|| Known { is_denied: !world.may_read(pid), ..Known::default() });
            (one.name, one.status, one.cpu) = (stat.name, status, stat.cpu.saturating_mul(TICK));
            one.pid = pid;
            one.started = world.booted().saturating_add(key.start.saturating_mul(TICK));
            if one.listed != listed {
                one.place = Place::parse(&listed);
                one.listed = listed;
            }
            if let Some(identity) = one.identity.as_ref().filter(|_| !one.is_denied) {
                one.counters = world.counters(pid, &identity.places);
            }
        }
        self.known.retain(|key, _| here.contains(key));
        let lists: BTreeMap<&Place, &str> = self.known.values().map(|one| (&one.place, one.listed.as_str())).collect();
        self.groups = lists.into_iter().map(|(place, listed)| (place.clone(), self.world.group(listed))).collect();
    }

    /// What is read of each process. `None` if it has ended, or has no memory.
    fn counted(&self, pid: u32) -> Option<(Stat, Status, String)> {
        let stat = Stat::parse(&self.world.file(pid, File::Stat)?)?;
        if stat.is_bare {
            return None;
        }
        let status = Status::parse(&self.world.file(pid, File::Status)?)?;
        let listed = self.world.file(pid, File::Groups)?;
        Some((stat, status, String::from_utf8_lossy(&listed).into_owned()))
    }

    /// What is asked about the process at a place of the list.
    pub fn wanted(&self, at: usize) -> Option<(Key, Wanted)> {
        let (key, one) = self.known.iter().nth(at)?;
        let quota_milli = self.groups.get(&one.place).and_then(|group| group.quota_milli);
        Some((*key, Wanted { pid: key.pid, quota_milli, time: TIME }))
    }

    /// Keeps what was seen of a process. `took` is what a failure has cost, as nobody told it.
    pub fn saw(&mut self, key: Key, now: Duration, took: Duration, seen: Result<Seen, String>) {
        self.pay(took, seen.as_ref().ok());
        // The number may be another process's by now.
        let still = self.world.file(key.pid, File::Stat).and_then(|text| Stat::parse(&text));
        let Some(one) = self.known.get_mut(&key) else { return };
        one.tried = Some(now);
        if still.is_none_or(|stat| stat.key != key) {
            return;
        }
        let problem = match seen {
            Ok(Seen { identity, heap, problem, .. }) => {
                one.counters = self.world.counters(key.pid, &identity.places);
                one.identity = Some(identity);
                match heap {
                    Some(heap) => {
                        self.own.walks += 1;
                        one.failures = 0;
                        let problem = heap.problem.clone();
                        one.heap = Some((self.world.time(), heap));
                        problem
                    }
                    None => {
                        self.own.failed += 1;
                        one.failures += 1;
                        problem
                    }
                }
            }
            Err(problem) => {
                self.own.failed += 1;
                one.failures += 1;
                problem
            }
        };
        if !problem.is_empty() {
            // Without the number, which comes first: many processes have the same problem.
            let problem = problem.strip_prefix(&format!("process {}: ", key.pid)).unwrap_or(&problem);
            *self.problems.entry(format!("{}: {problem}", one.name)).or_default() += 1;
            while self.problems.len() > PROBLEMS {
                self.problems.pop_first();
            }
        }
    }

    fn pay(&mut self, took: Duration, seen: Option<&Seen>) {
        let cost = match seen {
            // A child that has spent less than before is another one.
            Some(seen) => {
                let before = if seen.spent >= self.child.0 { self.child.0 } else { 0 };
                self.child = (seen.spent, seen.resident);
                Duration::from_micros(seen.spent - before)
            }
            None => {
                self.child = (0, 0);
                took
            }
        };
        self.children += cost;
        self.own.cpu_walks += cost.as_secs_f64();
    }

    /// Adds what counting all has cost.
    pub fn count_cost(&mut self, cost: Duration) {
        self.own.cpu_counts += cost.as_secs_f64();
    }

    /// The child is gone.
    pub fn rested(&mut self) {
        self.child = (0, 0);
    }

    /// What the kubelet says.
    pub fn named(&mut self, names: Names) {
        let refused = names.refused;
        self.unnamed = (refused > 0).then(|| format!("the kubelet told {refused} pods whose names cannot be names"));
        (self.names, self.told) = (names, Some(self.world.time()));
    }

    /// The kubelet told no names. Those that are known stay.
    pub fn nameless_because(&mut self, error: String) {
        self.unnamed = Some(format!("names of pods: {error}"));
    }

    /// Whether a pod has no name yet.
    pub fn has_nameless(&self) -> bool {
        self.nameless() > 0
    }

    fn nameless(&self) -> u64 {
        let pods: BTreeSet<&String> = self.groups.keys().filter_map(|place| place.pod.as_ref()).collect();
        pods.into_iter().filter(|uid| self.names.pod(uid).is_none()).count() as u64
    }

    /// The report now. `resident` is what this process has.
    pub fn report(&self, resident: u64) -> Report {
        let mut problems: Vec<String> = { self.problems.iter() }
            .map(|(problem, count)| if *count > 1 { format!("{problem} ({count} times)") } else { problem.clone() })
            .collect();
        problems.extend(self.unnamed.clone());
        if self.left_out > 0 {
            problems.push(format!("{} processes are in no row: more than {MOST} are here", self.left_out));
        }
        let denied = self.known.values().filter(|one| one.is_denied).count() as u64;
        if denied > 0 {
            problems.push(format!(
                "processes that may not be read: {denied}. Wanted: CAP_SYS_PTRACE (run as root), and the host's process IDs"
            ));
        }
        let own = Own {
            resident: resident + self.child.1,
            processes: self.known.len() as u64,
            denied,
            names: self.told,
            nameless: self.nameless(),
            ..self.own.clone()
        };
        Report {
            schema: SCHEMA,
            node: self.node.clone(),
            taken: self.world.time(),
            host: self.host.clone(),
            rows: rows(&self.known, &self.names, &self.groups),
            own,
            problems,
        }
    }
}

#[cfg(test)]
#[path = "agent_test.rs"]
mod tests;
