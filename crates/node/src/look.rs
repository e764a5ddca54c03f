//! What the agent's child does. It reads processes within limits, because a process may hold anything, and may keep its reader waiting. In:
//! a process and its quota. Out: its allocator, and its heap by part. Or in: processes, and the addresses of their counters. Out: the
//! counts.

use std::time::{Duration, Instant};

use allocanary_doctor::arenas::arena_limit;
use allocanary_doctor::environment::examine;
use allocanary_doctor::host::Surroundings;
use allocanary_doctor::judgement::ArenaLimit;
use allocanary_doctor::process::ProcessFacts;
use allocanary_doctor::remedies::{CallChecks, Gives, Remedy, remedies};
use allocanary_doctor::{Flavour, VariableEffect};
use allocanary_heap::counters::{self, AllocatorCounters, CounterPlace, Remote};
use allocanary_heap::{LiveProcess, ReadMode, Reading, Shares, take_with};
use allocanary_profile::reader::is_profiled;
use allocanary_rows::fleet::{Bound, Follows, Parts};
use allocanary_sys::container::Cpus;
use allocanary_sys::sys::affinity_of;
use serde::{Deserialize, Serialize};

use crate::world::Quota;

/// A request to the child: read this process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LookRequest {
    /// The process.
    pub pid: u32,
    /// The CPU quota of its container, if it is known. The child may not see the control groups that the agent sees.
    pub quota: Option<Quota>,
    /// The time limit of the reading.
    pub time: Duration,
    /// Whether to look whether it has a profile.
    pub profile: bool,
}

/// The child's answer to a [`LookRequest`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LookReply {
    /// Its allocators.
    pub identity: ProcessIdentity,
    /// The counters of its allocators. `None` if one of them did not answer.
    pub counters: Option<Vec<AllocatorCounters>>,
    /// Its heap, if it could be read.
    pub heap: Option<HeapState>,
    /// Why the heap could not be read. Empty if it could.
    pub problem: String,
}

/// The allocator of a process, its settings, and where its counters are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Its allocator: `glibc`, `jemalloc`, `go`.
    pub allocator: String,
    /// The allocator's version, if it tells one.
    pub version: String,
    /// The settings in force: variables that are read, and what code has set. They contain `unknown` if the process does not show its
    /// variables.
    pub settings: Vec<String>,
    /// Whether the number of arenas follows the host or the quota.
    pub follows: Follows,
    /// Where its counters are.
    pub places: Vec<CounterPlace>,
    /// Whether it has a profile. `None` if nobody looked, or the answer is not known.
    pub profile: Option<bool>,
}

/// A heap that was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeapState {
    /// Resident bytes by part.
    pub parts: Parts,
    /// Arenas with resident memory; `None` if its allocator has none.
    pub arenas: Option<u64>,
    /// What each remedy would give back, at most.
    pub bounds: Vec<Bound>,
    /// Why a heap is not analysed; empty if all are.
    pub problem: String,
}

/// A process whose counters are asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CounterTarget {
    /// Its number.
    pub pid: u32,
    /// Where its counters are. If the list is empty, only its permission is asked for.
    pub places: Vec<CounterPlace>,
}

/// The child's answer for one [`CounterTarget`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterReply {
    /// Whether its memory may be read. `None` if it has ended, or the time was over before its turn.
    pub may_read: Option<bool>,
    /// The counters of its allocators. `None` if one of them did not answer.
    pub counters: Option<Vec<AllocatorCounters>>,
}

/// Why a process has no profile, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoProfile {
    /// It has none, or has ended.
    None(String),
    /// It could not be read.
    Failed(String),
}

/// Reads processes for the agent.
pub trait HeapReader {
    /// Reads one process. The error is a sentence.
    fn look(&mut self, wanted: &LookRequest) -> Result<LookReply, String>;

    /// Reads the counters of some processes, within a time limit: one answer each, in their order. The error is a sentence, and means that
    /// there is no answer for any of them.
    fn count(&mut self, wanted: &[CounterTarget], time: Duration) -> Result<Vec<CounterReply>, String>;

    /// Reads the profile of one process, in the format of pprof.
    fn profile(&mut self, pid: u32) -> Result<Vec<u8>, NoProfile>;

    /// The PID of the child that reads, if there is one now. Its costs are the agent's.
    fn child(&self) -> Option<u32> {
        None
    }

    /// Called when nothing is to be read for a while. The memory that reading needs can be given back.
    fn rest(&mut self) {}
}

/// The longest text that is kept of a process, in characters: a setting, a version, a problem.
const LONGEST: usize = 200;
/// The most settings that are kept of one process.
const MOST: usize = 32;

/// A text of a process, cut to `LONGEST` characters.
fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// The child's side of [`HeapReader::look`].
pub fn look(wanted: &LookRequest, surroundings: Surroundings) -> Result<LookReply, String> {
    let until = Instant::now().checked_add(wanted.time);
    let mut process = ProcessFacts::look_at(wanted.pid, surroundings).map_err(|error| cut(&error.to_string()))?;
    let quota_milli = match wanted.quota {
        Some(Quota::Milli(milli)) => Some(milli),
        _ => None,
    };
    process.surroundings.cpus = Cpus::new(affinity_of(wanted.pid), quota_milli);
    let mut identity = identity(&process);
    if wanted.quota.is_none() {
        identity.follows = Follows::Unknown;
    }
    // Even if its heap cannot be read, the answer says who it is.
    let (heap, problem) = match take_with(wanted.pid, ReadMode::Running, Shares::NotRead, wanted.time) {
        Ok(reading) => {
            if let Some(heap) = reading.heaps.iter().find(|heap| heap.allocator == identity.allocator) {
                identity.version = cut(&heap.version);
            }
            (Some(heap(&reading, &remedies(&reading, Some(&process), &CallChecks::default()))), String::new())
        }
        Err(trouble) => (None, cut(&trouble.to_string())),
    };
    // After the walk, because new arenas may have begun during it.
    identity.places = counters::locate_in(wanted.pid, until).unwrap_or_default();
    let places = std::mem::take(&mut identity.places);
    let asked = CounterTarget { pid: wanted.pid, places };
    let counters = counted(&asked).counters;
    identity.places = asked.places;
    if wanted.profile {
        let live = LiveProcess::open_until(wanted.pid, until).ok();
        identity.profile = live.and_then(|live| is_profiled(&live, until));
    }
    Ok(LookReply { identity, counters, heap, problem })
}

/// The child's side of [`HeapReader::count`]. It returns when the time is over. If a read waits in the kernel, the parent ends the child.
pub fn count(wanted: &[CounterTarget], time: Duration) -> Vec<CounterReply> {
    let start = Instant::now();
    let one = |one: &CounterTarget| if start.elapsed() < time { counted(one) } else { CounterReply::default() };
    wanted.iter().map(one).collect()
}

fn counted(one: &CounterTarget) -> CounterReply {
    match Remote::open(one.pid) {
        Ok(remote) => CounterReply {
            may_read: Some(true),
            counters: one.places.iter().map(|place| place.read(&remote)).collect(),
        },
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            CounterReply { may_read: Some(false), counters: None }
        }
        // The process has ended, or starts another program at this moment.
        Err(_) => CounterReply::default(),
    }
}

fn identity(process: &ProcessFacts) -> ProcessIdentity {
    let flavours = process.identity.flavours();
    let read = examine(&process.variables, Some(&flavours), &process.seen.libraries).into_iter();
    let mut settings: Vec<String> = read
        .filter(|remark| remark.verdict == VariableEffect::Read)
        .map(|remark| cut(&format!("{}={}", remark.variable, remark.value)))
        .collect();
    settings.extend(process.seen.code.iter().map(|(key, value)| cut(&format!("{key}={value}"))));
    settings.truncate(MOST);
    // A program that writes its title over its environment has read its settings before. They are not known, and neither is whether arenas
    // follow the quota.
    if process.seen.overwritten {
        settings.push("unknown".into());
    }
    let follows = match arena_limit(&process.surroundings, &process.variables, &flavours, &process.seen) {
        None => Follows::Unknown,
        Some(ArenaLimit::Host(_)) => Follows::Host,
        Some(ArenaLimit::Fits) => Follows::Quota,
    };
    let own = flavours.first().copied().unwrap_or(Flavour::Unknown);
    let version = match own {
        Flavour::Glibc => process.surroundings.libc.split_once(' ').map_or("", |(_, version)| version).to_string(),
        own if own.is_jemalloc() => cut(process.seen.libraries.jemalloc.as_deref().unwrap_or_default()),
        _ => String::new(),
    };
    ProcessIdentity { allocator: name(own).into(), version, settings, follows, places: Vec::new(), profile: None }
}

/// The name of an allocator's heap.
fn name(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::Go => "go",
        Flavour::OtherLibc => "libc",
        Flavour::Unknown => "unknown",
        known => known.allocator().map_or("unknown", |one| one.heap),
    }
}

/// The parts and bounds of a reading.
fn heap(reading: &Reading, remedies: &[Remedy]) -> HeapState {
    let parts = reading.parts();
    let bound = |one: &Remedy| {
        let bytes = one.gives.bytes()?;
        Some(Bound { remedy: one.id.clone(), bytes, exact: matches!(one.gives, Gives::Exact { .. }) })
    };
    let problem = if reading.is_divided() {
        String::new()
    } else {
        reading.problems.first().map_or_else(String::new, |one| cut(one))
    };
    // The entry for blocks with pages of their own has no address, and is no arena.
    let arenas = |heap: &allocanary_heap::Heap| heap.arenas.iter().filter(|arena| arena.at != 0).count() as u64;
    let arenas = reading.heaps.iter().map(arenas).max().filter(|count| *count > 0);
    HeapState { parts, arenas, bounds: remedies.iter().filter_map(bound).collect(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocanary_rows::fleet::Part;

    #[test]
    fn this_process_is_seen() {
        let wanted = LookRequest {
            pid: std::process::id(),
            quota: Some(Quota::None),
            time: Duration::from_secs(60),
            profile: true,
        };
        let seen = look(&wanted, Surroundings::of(wanted.pid)).unwrap();
        assert_eq!(seen.identity.profile, Some(false));
        let heap = seen.heap.clone().unwrap();
        assert!(heap.parts.of(Part::Files) > 1 << 19, "{heap:?}");
        assert!(heap.parts.sum() > 1 << 20);
        assert!(!seen.identity.allocator.is_empty());
        let text = serde_json::to_string(&seen).unwrap();
        assert_eq!(serde_json::from_str::<LookReply>(&text).unwrap(), seen);
        let unplaced = look(&LookRequest { quota: None, ..wanted.clone() }, Surroundings::of(wanted.pid)).unwrap();
        assert_eq!(unplaced.identity.follows, Follows::Unknown, "without the quota");
        assert!(look(&LookRequest { pid: 0x3fff_ffff, ..wanted }, Surroundings::here()).is_err());
    }

    #[test]
    fn arenas_follow_the_host_only_of_a_process_that_may_use_less_of_it() {
        let mut process = ProcessFacts::look_at(std::process::id(), Surroundings::of(std::process::id())).unwrap();
        process.surroundings.host.cores = 40;
        process.seen.threads = Some(9);
        let mut follows = |quota_milli| {
            process.surroundings.cpus = Cpus::new(40, quota_milli);
            identity(&process).follows
        };
        assert_eq!((follows(None), follows(Some(500))), (Follows::Quota, Follows::Host));
    }

    #[test]
    fn counters_are_read_within_a_time() {
        let places = counters::locate_in(std::process::id(), None).unwrap();
        let own = CounterTarget { pid: std::process::id(), places };
        let gone = CounterTarget { pid: 0x3fff_ffff, places: Vec::new() };
        let all = [own, gone];
        let told = count(&all, Duration::from_secs(60));
        assert_eq!((told[0].may_read, told[1].clone()), (Some(true), CounterReply::default()));
        assert_eq!(told[0].counters.as_ref().map(Vec::len), Some(all[0].places.len()));
        assert_eq!(count(&all, Duration::ZERO), [CounterReply::default(), CounterReply::default()], "the time is over");
    }

    #[test]
    fn no_text_of_a_process_is_kept_that_is_too_long() {
        let long = "\u{20ac}".repeat(100_000);
        assert!(cut(&long).chars().count() == LONGEST + 3 && cut(&long).ends_with("\u{20ac}..."));
        assert_eq!(cut("narenas:1"), "narenas:1");
    }
}
