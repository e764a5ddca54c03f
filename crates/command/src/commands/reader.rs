//! The child that reads processes within limits. It is this program again. In: requests on standard input. Out: answers
//! on standard output, a line each. The requests that are not readings are here, for both sides.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::doctor;
use super::heap::{sampled, without_map};
use super::node;
use super::who::process;
use allocanary_contents::{Contents, Wanted};
use allocanary_doctor::host::Surroundings;
use allocanary_doctor::process::Process;
use allocanary_doctor::program::hidden_in as hidden_in_file;
use allocanary_doctor::remedies::{Remedy, remedies};
use allocanary_give_back::symbols::{self, Functions};
use allocanary_heap::reader::{About, Cost, MEMORY, Reader, serve, serves};
use allocanary_heap::{How, Reading};
use allocanary_node::look;
use allocanary_text::outside::Look;

/// A request that is not a reading.
#[derive(Serialize, Deserialize)]
enum Asked {
    /// The diagnosis of a process.
    Diagnosis { pid: u32, form: Form, reading: Option<Box<Reading>>, surroundings: Box<Surroundings> },
    /// The remedies for its memory.
    Remedies { reading: Box<Reading>, surroundings: Box<Surroundings> },
    /// What the agent of a node wants to know about a process.
    Node(look::Wanted, Box<Surroundings>),
    /// What allocators of many processes count, within a time.
    Counters(Vec<look::Counting>, Duration),
    /// The profile of a process, for pprof, with names or without.
    Profile { pid: u32, named: bool },
    /// Its call sites, by its profile.
    Sites { pid: u32, wanted: process::Wanted },
    /// Why a recorder would not see its allocations.
    Hidden(u32),
    /// Where its functions are.
    Functions { pid: u32, wanted: symbols::Wanted },
    /// What its heap contains.
    Contents { of: Of, wanted: Asking, time: Duration },
}

/// Where the contents are read from.
#[derive(Serialize, Deserialize)]
pub enum Of {
    /// A process.
    Process(u32),
    /// A core file.
    Core(PathBuf),
}

impl Of {
    fn about(&self) -> About {
        match self {
            Of::Process(pid) => About::process(*pid),
            Of::Core(path) => About { pids: Vec::new(), core: Some(path.clone()) },
        }
    }
}

/// How the contents are read, and what is returned.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Asking {
    /// Whether the process is stopped.
    pub stopped: bool,
    /// The most bytes that are copied.
    pub limit: u64,
    /// Whether texts are returned.
    pub texts: bool,
    /// Whether the addresses of leaked blocks are returned.
    pub addresses: bool,
}

/// The form of a diagnosis.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Form {
    /// A text, for a terminal.
    Text { color: bool, width: u16 },
    /// A line of JSON.
    Json,
    /// A few lines, for a terminal.
    Short { color: bool, width: u16 },
}

/// Serves requests if this program was started as such a child. Otherwise, this program can start such a child from now
/// on.
pub fn serve_if_asked() -> Option<ExitCode> {
    let Some(memory) = serves(std::env::args_os()) else {
        // The files of a process are searched by the child as well.
        symbols::search_by(functions);
        return None;
    };
    Some(ExitCode::from(serve(memory, answer)))
}

fn answer(text: &str) -> String {
    let answer: Result<String, String> = match serde_json::from_str(text) {
        Ok(Asked::Diagnosis { pid, form, reading, surroundings }) => {
            doctor::of_process(pid, form, reading.as_deref(), *surroundings)
                .and_then(|text| serde_json::to_string(&text).map_err(|error| error.to_string()))
        }
        Ok(Asked::Sites { pid, wanted }) => process::written_by(pid, &wanted)
            .and_then(|written| serde_json::to_string(&written).map_err(|error| error.to_string())),
        Ok(Asked::Hidden(pid)) => {
            hidden_in_file(pid).and_then(|reason| serde_json::to_string(&reason).map_err(|error| error.to_string()))
        }
        Ok(Asked::Functions { pid, wanted }) => {
            serde_json::to_string(&Functions::here(pid, &wanted)).map_err(|error| error.to_string())
        }
        Ok(Asked::Remedies { reading, surroundings }) => {
            let process = Process::look_at(reading.process.pid, *surroundings).ok();
            serde_json::to_string(&remedies(&reading, process.as_ref())).map_err(|error| error.to_string())
        }
        Ok(Asked::Node(wanted, surroundings)) => {
            let line = |seen| serde_json::to_string(&seen).map_err(|error| error.to_string());
            look::look(&wanted, *surroundings).and_then(line)
        }
        Ok(Asked::Counters(wanted, time)) => {
            serde_json::to_string(&look::count(&wanted, time)).map_err(|error| error.to_string())
        }
        Ok(Asked::Profile { pid, named }) => {
            serde_json::to_string(&node::profile::pprof(pid, named)).map_err(|error| error.to_string())
        }
        Ok(Asked::Contents { of, wanted: Asking { stopped, limit, texts, addresses }, time }) => {
            let how = if stopped { How::Stopped } else { How::Running };
            let wanted = Wanted { how, limit, holders: true, texts, addresses };
            let mut found = match &of {
                Of::Process(pid) => allocanary_contents::take(*pid, &wanted, time),
                Of::Core(path) => allocanary_contents::take_core(path, &wanted, time),
            };
            if let Ok(found) = &mut found {
                sampled::add(found, of.about().pids.first().copied());
            }
            let line = |found| serde_json::to_string(&found).map_err(|error| error.to_string());
            found.map_err(|error| error.to_string()).and_then(line)
        }
        Err(error) => Err(error.to_string()),
    };
    serde_json::to_string(&answer).unwrap_or_default()
}

/// Why there is no answer.
pub enum Unread {
    /// It would cost too much.
    Cost(String),
    /// What the child says.
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
fn ask<T: DeserializeOwned>(reader: &mut Reader, asked: &Asked, about: About, time: Duration) -> Result<T, Unread> {
    let told = |error: serde_json::Error| Unread::Told(error.to_string());
    let text = serde_json::to_string(asked).map_err(told)?;
    let answer = reader.ask(&text, about, time).map_err(|cost: Cost| Unread::Cost(cost.to_string()))?;
    let answer: Result<String, String> = serde_json::from_str(&answer).map_err(told)?;
    serde_json::from_str(&answer.map_err(Unread::Told)?).map_err(told)
}

/// The surroundings of a process, which the command reads: the child has no right to.
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
    let asked = Asked::Diagnosis { pid, form, reading: reading.map(Box::new), surroundings: surroundings(pid) };
    Ok(ask(reader, &asked, About::process(pid), time)?)
}

/// The call sites of a process, by its profile.
pub fn sites(
    reader: &mut Reader,
    pid: u32,
    wanted: &process::Wanted,
    time: Duration,
) -> Result<process::Written, Unread> {
    ask(reader, &Asked::Sites { pid, wanted: wanted.clone() }, About::process(pid), time)
}

/// Why a recorder would not see the allocations of a process.
pub fn hidden_in(reader: &mut Reader, pid: u32) -> Result<Option<String>, String> {
    Ok(ask(reader, &Asked::Hidden(pid), About::process(pid), SEARCH)?)
}

/// Where the functions of a process are.
fn functions(pid: u32, wanted: &symbols::Wanted) -> Result<Functions, String> {
    let asked = Asked::Functions { pid, wanted: wanted.clone() };
    Ok(ask(&mut Reader::new(MEMORY), &asked, About::process(pid), SEARCH)?)
}

/// The time for a search for functions.
const SEARCH: Duration = Duration::from_secs(30);

/// What the heap of a process contains.
pub fn contents(reader: &mut Reader, of: Of, wanted: Asking, time: Duration) -> Result<Contents, String> {
    let about = of.about();
    Ok(ask(reader, &Asked::Contents { of, wanted, time }, about, time)?)
}

/// What the agent of a node wants to know about a process.
pub fn seen(reader: &mut Reader, wanted: &look::Wanted) -> Result<look::Seen, String> {
    let asked = Asked::Node(wanted.clone(), surroundings(wanted.pid));
    Ok(ask(reader, &asked, About::process(wanted.pid), wanted.time)?)
}

/// What allocators of many processes count.
pub fn counted(reader: &mut Reader, wanted: &[look::Counting], time: Duration) -> Result<Vec<look::Counted>, String> {
    let about = About { pids: wanted.iter().map(|one| one.pid).collect(), core: None };
    Ok(ask(reader, &Asked::Counters(wanted.to_vec(), time), about, time)?)
}

/// The profile of a process, for pprof. The error is that of the child.
pub fn profile(
    reader: &mut Reader,
    pid: u32,
    named: bool,
    time: Duration,
) -> Result<Result<Vec<u8>, look::NoProfile>, String> {
    Ok(ask(reader, &Asked::Profile { pid, named }, About::process(pid), time)?)
}

/// What to do about a process's memory. Without the time for what the process shows otherwise, what its memory alone says.
pub fn remedies_of(reader: &mut Reader, reading: &Reading, time: Duration) -> Vec<Remedy> {
    let pid = reading.process.pid;
    let asked = Asked::Remedies { reading: Box::new(without_map(reading)), surroundings: surroundings(pid) };
    ask(reader, &asked, About::process(pid), time).unwrap_or_else(|_| remedies(reading, None))
}

impl Form {
    /// The width and colours of the terminal that the text is for.
    pub fn look(self) -> Look {
        match self {
            Form::Text { color, width } | Form::Short { color, width } => Look { color, width },
            Form::Json => Look { color: false, width: 80 },
        }
    }
}
