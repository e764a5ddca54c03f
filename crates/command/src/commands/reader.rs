//! The child that reads processes within limits. It is this program again. In: requests on standard input. Out: answers
//! on standard output, a line each. The requests that are not readings are here, for both sides.

use std::io::{stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::doctor;
use super::heap::without_map;
use super::node;
use allocanary_contents::{Contents, Wanted};
use allocanary_doctor::process::Process;
use allocanary_doctor::remedies::{Remedy, remedies};
use allocanary_heap::reader::{Cost, Reader, limit_memory, serve, serves};
use allocanary_heap::{How, Reading};
use allocanary_kernel::terminal::Look;
use allocanary_node::look;

/// A request that is not a reading.
#[derive(Serialize, Deserialize)]
enum Asked {
    /// The diagnosis of a process.
    Diagnosis { pid: u32, form: Form, reading: Option<Box<Reading>> },
    /// The remedies for its memory.
    Remedies { reading: Box<Reading> },
    /// What the agent of a node wants to know about a process.
    Node(look::Wanted),
    /// What allocators of many processes count, within a time.
    Counters(Vec<look::Counting>, Duration),
    /// The profile of a process, for pprof, with names or without.
    Profile { pid: u32, named: bool },
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
#[derive(Clone, Copy, Serialize, Deserialize)]
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
    let memory = serves(std::env::args_os())?;
    limit_memory(memory);
    // An error here means that the parent has ended, or has closed the pipe.
    let _ = serve(stdin().lock(), stdout().lock(), answer);
    Some(ExitCode::SUCCESS)
}

fn answer(text: &str) -> String {
    let answer: Result<String, String> = match serde_json::from_str(text) {
        Ok(Asked::Diagnosis { pid, form, reading }) => doctor::of_process(pid, form, reading.as_deref()),
        Ok(Asked::Remedies { reading }) => {
            let process = Process::look_at(reading.process.pid).ok();
            serde_json::to_string(&remedies(&reading, process.as_ref())).map_err(|error| error.to_string())
        }
        Ok(Asked::Node(wanted)) => {
            let line = |seen| serde_json::to_string(&seen).map_err(|error| error.to_string());
            look::look(&wanted).and_then(line)
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
            let found = match of {
                Of::Process(pid) => allocanary_contents::take(pid, &wanted, time),
                Of::Core(path) => allocanary_contents::take_core(&path, &wanted, time),
            };
            let line = |found| serde_json::to_string(&found).map_err(|error| error.to_string());
            found.map_err(|error| error.to_string()).and_then(line)
        }
        Err(error) => Err(error.to_string()),
    };
    serde_json::to_string(&answer).unwrap_or_default()
}

fn ask(reader: &mut Reader, asked: &Asked, time: Duration) -> Result<String, String> {
    let text = serde_json::to_string(asked).map_err(|error| error.to_string())?;
    let answer = reader.ask(&text, time).map_err(|cost: Cost| cost.to_string())?;
    serde_json::from_str(&answer).map_err(|error| error.to_string())?
}

/// The diagnosis of a process, with its reading if there is one.
pub fn diagnosis(
    reader: &mut Reader,
    pid: u32,
    form: Form,
    reading: Option<Reading>,
    time: Duration,
) -> Result<String, String> {
    ask(reader, &Asked::Diagnosis { pid, form, reading: reading.map(Box::new) }, time)
}

/// What the heap of a process contains.
pub fn contents(reader: &mut Reader, of: Of, wanted: Asking, time: Duration) -> Result<Contents, String> {
    let text = ask(reader, &Asked::Contents { of, wanted, time }, time)?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// What the agent of a node wants to know about a process.
pub fn seen(reader: &mut Reader, wanted: &look::Wanted) -> Result<look::Seen, String> {
    let text = ask(reader, &Asked::Node(wanted.clone()), wanted.time)?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// What allocators of many processes count.
pub fn counted(reader: &mut Reader, wanted: &[look::Counting], time: Duration) -> Result<Vec<look::Counted>, String> {
    let text = ask(reader, &Asked::Counters(wanted.to_vec(), time), time)?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// The profile of a process, for pprof. The error is that of the child.
pub fn profile(
    reader: &mut Reader,
    pid: u32,
    named: bool,
    time: Duration,
) -> Result<Result<Vec<u8>, look::NoProfile>, String> {
    let text = ask(reader, &Asked::Profile { pid, named }, time)?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// What to do about a process's memory. Without the time for what the process shows otherwise, what its memory alone says.
pub fn remedies_of(reader: &mut Reader, reading: &Reading, time: Duration) -> Vec<Remedy> {
    let asked = Asked::Remedies { reading: Box::new(without_map(reading)) };
    let answer = ask(reader, &asked, time).ok();
    answer.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_else(|| remedies(reading, None))
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
