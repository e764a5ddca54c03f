//! What the agent has a child do, which reads processes within limits: a process may hold anything. In: a process and its quota. Out: its
//! allocator, and its heap by part.

use std::time::{Duration, Instant};

use allocanary_doctor::advice::advice;
use allocanary_doctor::environment::examine;
use allocanary_doctor::process::Process;
use allocanary_doctor::remedies::{Gives, Remedy, remedies};
use allocanary_doctor::{Effect, Flavour};
use allocanary_fleet::{Bound, Follows, Part, Parts};
use allocanary_heap::counters::{self, Place};
use allocanary_heap::{How, Reading, Shares, Sort, take_with};
use allocanary_kernel::container::Cpus;
use allocanary_kernel::sys::affinity_of;
use serde::{Deserialize, Serialize};

/// What the child is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// The process.
    pub pid: u32,
    /// The CPU quota of its container, in thousandths: the agent's view of control groups may be the only one.
    pub quota_milli: Option<u64>,
    /// The time for it.
    pub time: Duration,
}

/// What the child answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Its allocators.
    pub identity: Identity,
    /// Its heap, if it could be read.
    pub heap: Option<Heap>,
    /// Why it could not; empty if it could.
    pub problem: String,
    /// CPU time of the child since its start, in microseconds.
    pub spent: u64,
    /// Resident bytes of the child.
    pub resident: u64,
}

/// What is read once of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Its allocator: `glibc`, `jemalloc`, `go`.
    pub allocator: String,
    /// The version, if it tells one.
    pub version: String,
    /// The settings in force: variables that are read, and what code has set; `unknown` if the process does not show its variables.
    pub settings: Vec<String>,
    /// What its arenas follow.
    pub follows: Follows,
    /// Where its counters are.
    pub places: Vec<Place>,
}

/// A heap that was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Heap {
    /// Resident bytes by part.
    pub parts: Parts,
    /// Arenas with resident memory.
    pub arenas: Option<u64>,
    /// What remedies would give at most.
    pub bounds: Vec<Bound>,
    /// Why a heap is not divided; empty if all are.
    pub problem: String,
}

/// Who reads processes for the agent.
pub trait Look {
    /// Reads one. The error is a sentence.
    fn look(&mut self, wanted: &Wanted) -> Result<Seen, String>;

    /// Nothing is wanted for a while: what it needs for reading can go.
    fn rest(&mut self) {}
}

/// The child's side.
pub fn look(wanted: &Wanted) -> Result<Seen, String> {
    let until = Instant::now().checked_add(wanted.time);
    let mut process = Process::look_at(wanted.pid).map_err(|error| error.to_string())?;
    process.surroundings.cpus = Cpus::new(affinity_of(wanted.pid), wanted.quota_milli);
    let mut identity = identity(&process);
    // Who it is stays known if its heap cannot be read.
    let (heap, problem) = match take_with(wanted.pid, How::Running, Shares::NotRead, wanted.time) {
        Ok(reading) => {
            if let Some(heap) = reading.heaps.iter().find(|heap| heap.allocator == identity.allocator) {
                identity.version = heap.version.clone();
            }
            (Some(heap(&reading, &remedies(&reading, Some(&process)))), String::new())
        }
        Err(trouble) => (None, trouble.to_string()),
    };
    // Afterwards: arenas may have begun while it was walked.
    identity.places = counters::locate_in(wanted.pid, until).unwrap_or_default();
    let own = allocanary_kernel::sys::usage();
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let resident = crate::stat::Status::parse(&status).map_or(0, |status| status.resident);
    Ok(Seen { identity, heap, problem, spent: own.user_us + own.system_us, resident })
}

fn identity(process: &Process) -> Identity {
    let flavours = process.identity.flavours();
    let read = examine(&process.variables, Some(&flavours), &process.seen.libraries).into_iter();
    let mut settings: Vec<String> = read
        .filter(|remark| remark.verdict == Effect::Read)
        .map(|remark| format!("{}={}", remark.variable, remark.value))
        .collect();
    settings.extend(process.seen.code.iter().map(|(key, value)| format!("{key}={value}")));
    // A program that writes its title over its environment has read its settings before: they are not known, and neither is what follows.
    let is_known = !process.seen.overwritten;
    if !is_known {
        settings.push("unknown".into());
    }
    let change = advice(&process.surroundings, &process.variables, Some(&flavours), &process.seen);
    let own = flavours.first().copied().unwrap_or(Flavour::Unknown);
    let follows = match own {
        _ if !is_known => Follows::Unknown,
        _ if change.iter().any(|one| one.fewer_arenas) => Follows::Host,
        own if own.has_settings() => Follows::Quota,
        _ => Follows::Unknown,
    };
    let version = match own {
        Flavour::Glibc => process.surroundings.libc.split_once(' ').map_or("", |(_, version)| version).to_string(),
        own if own.is_jemalloc() => process.seen.libraries.jemalloc.clone().unwrap_or_default(),
        _ => String::new(),
    };
    Identity { allocator: name(own).into(), version, settings, follows, places: Vec::new() }
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

/// A reading as parts and bounds.
fn heap(reading: &Reading, remedies: &[Remedy]) -> Heap {
    use allocanary_heap::Part as Found;
    let mut parts = Parts::default();
    for (part, bytes) in reading.parts().iter() {
        let part = match part {
            Found::Live => Part::Live,
            Found::Cached => Part::Cached,
            Found::Free => Part::Free,
            Found::Kept | Found::Lazy => Part::Kept,
            Found::Structures => Part::Structures,
            Found::Padding => Part::Padding,
            Found::Unknown => Part::Unknown,
        };
        parts.add(part, bytes);
    }
    for area in &reading.areas {
        let part = match area.sort {
            Sort::Runtime => Part::Runtime,
            Sort::Stacks => Part::Stacks,
            Sort::Program | Sort::Files | Sort::Shared => Part::Files,
            Sort::Unknown => Part::Unknown,
        };
        parts.add(part, area.resident);
    }
    let bound = |one: &Remedy| {
        let bytes = one.gives.bytes()?;
        Some(Bound { remedy: one.id.clone(), bytes, exact: matches!(one.gives, Gives::Exact { .. }) })
    };
    let problem =
        if reading.is_divided() { String::new() } else { reading.problems.first().cloned().unwrap_or_default() };
    let arenas = reading.heaps.iter().map(|heap| heap.arenas.len() as u64).max();
    Heap { parts, arenas, bounds: remedies.iter().filter_map(bound).collect(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen() {
        let wanted = Wanted { pid: std::process::id(), quota_milli: None, time: Duration::from_secs(60) };
        let seen = look(&wanted).unwrap();
        let heap = seen.heap.clone().unwrap();
        assert!(heap.parts.of(Part::Files) > 1 << 19, "{heap:?}");
        assert!(heap.parts.sum() > 1 << 20 && seen.spent > 0 && seen.resident > 1 << 20);
        assert!(!seen.identity.allocator.is_empty());
        let text = serde_json::to_string(&seen).unwrap();
        assert_eq!(serde_json::from_str::<Seen>(&text).unwrap(), seen);
        assert!(look(&Wanted { pid: 0x3fff_ffff, ..wanted }).is_err());
    }
}
