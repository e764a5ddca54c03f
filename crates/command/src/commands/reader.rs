//! Requests to the child that reads processes, and its answers. In: a process. Out: what the child says of it, within limits. Both sides
//! use these types. Readings of heaps have requests of their own.

use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::calls;
use super::form::Form;
use super::readings::without_map;
use super::who::asked;
use allocanary_contents::{Contents, Target};
use allocanary_doctor::host::Surroundings;
use allocanary_doctor::remedies::{CallChecks, Remedy, remedies};
use allocanary_heap::reader::{Cost, MEMORY, Reader, RequestSubject};
use allocanary_heap::{Area, LargeMapping, Reading};
use allocanary_inside::give_back::symbols::{self, CodeFunctions};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use allocanary_inside::give_back::walks;
use allocanary_node::look;

/// A request that is not a reading.
#[derive(Serialize, Deserialize)]
pub(super) enum Asked {
    /// The diagnosis of a process.
    Diagnosis {
        pid: u32,
        form: Form,
        reading: Option<Box<Reading>>,
        checks: CallChecks,
        surroundings: Box<Surroundings>,
    },
    /// The remedies for its memory.
    Remedies { reading: Box<Reading>, checks: CallChecks, surroundings: Box<Surroundings> },
    /// What the agent of a node wants to know about a process.
    Node(look::LookRequest, Box<Surroundings>),
    /// The counters of the allocators of many processes, within a time limit.
    Counters(Vec<look::CounterTarget>, Duration),
    /// The profile of a process, for pprof, with names or without.
    Profile { pid: u32, named: bool },
    /// The call sites in its profile.
    Sites { pid: u32, wanted: asked::WhoQuestion },
    /// Why a recorder would miss its allocations.
    Hidden(u32),
    /// Where its functions are.
    Functions { pid: u32, wanted: symbols::FunctionSearch },
    /// The stacks of its threads, before and while one of them is stopped.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Walks(walks::WalkQuestion),
    /// What points into the memory that it mapped itself.
    Held { pid: u32, mappings: Vec<LargeMapping>, time: Duration },
    /// What its heap contains.
    Contents { of: ContentsSource, wanted: ContentsOptions, time: Duration },
}

/// Where the contents are read from.
#[derive(Clone, Serialize, Deserialize)]
pub enum ContentsSource {
    /// A process.
    Process(u32),
    /// A core file.
    Core(PathBuf),
}

impl ContentsSource {
    pub(super) fn about(&self) -> RequestSubject {
        match self {
            ContentsSource::Process(pid) => RequestSubject::process(*pid),
            ContentsSource::Core(path) => RequestSubject { core: Some(path.clone()), ..RequestSubject::default() },
        }
    }
}

/// How the contents are read, and what is returned.
#[derive(Clone, Serialize, Deserialize)]
pub struct ContentsOptions {
    /// Whether the process is stopped.
    pub stopped: bool,
    /// The most bytes that are copied.
    pub limit: u64,
    /// Whether a sample is enough.
    pub sampled: bool,
    /// Whether texts are returned.
    pub texts: bool,
    /// Whether the addresses of leaked blocks are returned.
    pub addresses: bool,
    /// The blocks whose holders are returned, if any.
    pub target: Option<Target>,
    /// Whether the same is returned for blocks of the largest kinds.
    pub largest: bool,
}

/// Why there is no answer.
pub enum Unread {
    /// The reading would take too much time or memory.
    Cost(String),
    /// Another reason, in the child's words.
    Told(String),
}

impl From<Unread> for String {
    fn from(why: Unread) -> String {
        match why {
            Unread::Cost(why) | Unread::Told(why) => why,
        }
    }
}

/// Asks the child about processes, and parses its answer.
fn ask<T: DeserializeOwned>(
    reader: &mut Reader,
    asked: &Asked,
    about: RequestSubject,
    time: Duration,
) -> Result<T, Unread> {
    let told = |error: serde_json::Error| Unread::Told(error.to_string());
    let text = serde_json::to_string(asked).map_err(told)?;
    let answer = reader.ask(&text, about, time).map_err(|cost: Cost| Unread::Cost(cost.to_string()))?;
    let answer: Result<String, String> = serde_json::from_str(&answer).map_err(told)?;
    serde_json::from_str(&answer.map_err(Unread::Told)?).map_err(told)
}

/// The surroundings of a process. The command reads them, because the child has no right to.
fn surroundings(pid: u32) -> Box<Surroundings> {
    Box::new(Surroundings::of(pid))
}

/// The diagnosis of a process, with its reading if there is one.
pub fn diagnosis(
    reader: &mut Reader,
    pid: u32,
    form: Form,
    reading: Option<Reading>,
    time: Duration,
) -> Result<String, String> {
    let checks = reading.as_ref().map(calls::checked).unwrap_or_default();
    let asked = Asked::Diagnosis { pid, form, reading: reading.map(Box::new), checks, surroundings: surroundings(pid) };
    Ok(ask(reader, &asked, RequestSubject::process(pid), time)?)
}

/// The call sites in the profile of a process.
pub fn sites(
    reader: &mut Reader,
    pid: u32,
    wanted: &asked::WhoQuestion,
    time: Duration,
) -> Result<asked::Written, Unread> {
    ask(reader, &Asked::Sites { pid, wanted: wanted.clone() }, RequestSubject::process(pid), time)
}

/// Why a recorder would miss the allocations of a process.
pub fn hidden_in(reader: &mut Reader, pid: u32) -> Result<Option<String>, String> {
    Ok(ask(reader, &Asked::Hidden(pid), RequestSubject::process(pid), SEARCH)?)
}

/// Where the functions of a process are.
pub(super) fn functions(pid: u32, wanted: &symbols::FunctionSearch) -> Result<CodeFunctions, String> {
    let asked = Asked::Functions { pid, wanted: wanted.clone() };
    Ok(ask(&mut Reader::new(MEMORY), &asked, RequestSubject::process(pid), SEARCH)?)
}

/// Answers questions about the stacks of a process. It keeps one child, which has read the program's files.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) fn walked(pid: u32) -> walks::Ask {
    let mut reader = Reader::new(MEMORY);
    Box::new(move |asked, time| {
        let about = match asked {
            walks::WalkQuestion::Prepare { .. } => RequestSubject::process(pid),
            walks::WalkQuestion::Round(_) | walks::WalkQuestion::Stopped { .. } => RequestSubject::stopped(pid),
        };
        Ok(ask(&mut reader, &Asked::Walks(asked.clone()), about, time)?)
    })
}

/// The time for a search for functions.
const SEARCH: Duration = Duration::from_secs(30);

/// What the heap of a process contains. `time` is processor time: the child may take longer if it waits for a processor.
pub fn contents(
    reader: &mut Reader,
    of: ContentsSource,
    wanted: ContentsOptions,
    time: Duration,
) -> Result<Contents, Unread> {
    let about = of.about();
    ask(reader, &Asked::Contents { of, wanted, time }, about, time.saturating_mul(allocanary_contents::WAIT))
}

/// What the agent of a node wants to know about a process.
pub fn seen(reader: &mut Reader, wanted: &look::LookRequest) -> Result<look::LookReply, String> {
    let asked = Asked::Node(wanted.clone(), surroundings(wanted.pid));
    Ok(ask(reader, &asked, RequestSubject::process(wanted.pid), wanted.time)?)
}

/// The counters of the allocators of many processes.
pub fn counted(
    reader: &mut Reader,
    wanted: &[look::CounterTarget],
    time: Duration,
) -> Result<Vec<look::CounterReply>, String> {
    let about = RequestSubject { pids: wanted.iter().map(|one| one.pid).collect(), ..RequestSubject::default() };
    Ok(ask(reader, &Asked::Counters(wanted.to_vec(), time), about, time)?)
}

/// The profile of a process, for pprof. The inner error is that of the child.
pub fn profile(
    reader: &mut Reader,
    pid: u32,
    named: bool,
    time: Duration,
) -> Result<Result<Vec<u8>, look::NoProfile>, String> {
    Ok(ask(reader, &Asked::Profile { pid, named }, RequestSubject::process(pid), time)?)
}

/// Adds to a reading who holds the program's own mappings, if they are a large part. If the time is not enough, they have no holder.
pub fn add_holders(reader: &mut Reader, reading: &mut Reading, time: Duration) {
    let (pid, all) = (reading.process.pid, reading.resident);
    let is_large =
        |area: &&mut Area| !area.largest.is_empty() && area.resident >= OWN_MAPPINGS && area.resident * 20 >= all;
    for area in reading.areas.iter_mut().filter(is_large) {
        let asked = Asked::Held { pid, mappings: area.largest.clone(), time };
        if let Ok(found) = ask(reader, &asked, RequestSubject::process(pid), time) {
            area.largest = found;
        }
    }
}

/// Own mappings with fewer bytes than this get no holder.
const OWN_MAPPINGS: u64 = 1 << 20;

/// What to do about a process's memory. If the child does not answer in time, the remedies follow from the reading alone.
pub fn remedies_of(reader: &mut Reader, reading: &Reading, checks: &CallChecks, time: Duration) -> Vec<Remedy> {
    let pid = reading.process.pid;
    let (reading, checks) = (Box::new(without_map(reading)), checks.clone());
    let asked = Asked::Remedies { reading: reading.clone(), checks: checks.clone(), surroundings: surroundings(pid) };
    ask(reader, &asked, RequestSubject::process(pid), time).unwrap_or_else(|_| remedies(&reading, None, &checks))
}
