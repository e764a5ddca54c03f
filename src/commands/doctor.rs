//! `allocanary doctor`: diagnoses how this host affects each allocator, or inspects a running process, and gives
//! advice.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::{named, terminal};
use crate::args::DoctorFlags;
use allocanary_doctor::host::Surroundings;
use allocanary_doctor::links::links;
use allocanary_doctor::process::Process;
use allocanary_doctor::{Variables, diagnosis};
use allocanary_study::error::{Error, Result};

/// The time for a process's memory. A heap that is not read by then is told as one part.
const DEADLINE: Duration = Duration::from_secs(10);

/// Prints the diagnosis.
pub fn run(flags: &DoctorFlags) -> Result<ExitCode> {
    let named = flags.process.as_deref().map(|text| named::find("doctor", text)).transpose()?;
    let text = match flags.pid.or(named) {
        Some(pid) => {
            let process = Process::look_at(pid).map_err(|error| Error::Input(error.to_string()))?;
            // What may not be read is missing, and the rest is told.
            let reading = allocanary_heap::take(pid, allocanary_heap::How::Running, DEADLINE).ok();
            diagnosis::of_process(&process, reading.as_ref(), terminal::look())
        }
        None => {
            let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
            let variables = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
            let variables: Variables = variables.chain(links(Path::new("/"))).collect();
            diagnosis::of_host(&Surroundings::here(), &variables, terminal::look())
        }
    };
    terminal::print(text.as_bytes())
}
