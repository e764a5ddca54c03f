//! The child that reads processes within limits. It is this program again. In: requests on standard input. Out: answers
//! on standard output, a line each.

use std::process::ExitCode;
use std::time::Instant;

use super::heap::sampled;
use super::reader::{Asked, ContentsOptions, ContentsSource, functions};
use super::who::process;
use super::{doctor, node};
use allocanary_contents::ContentsRequest;
use allocanary_doctor::process::ProcessFacts;
use allocanary_doctor::program::hidden_in as hidden_in_file;
use allocanary_doctor::remedies::remedies;
use allocanary_heap::ReadMode;
use allocanary_heap::reader::{serve, serves};
use allocanary_inside::give_back::symbols::{self, CodeFunctions};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use allocanary_inside::give_back::walks;
use allocanary_node::look;

/// Serves requests if this program was started as such a child. Otherwise, this program can start such a child from now
/// on.
pub fn serve_if_asked() -> Option<ExitCode> {
    let Some(memory) = serves(std::env::args_os()) else {
        // The child also reads what `give-back` needs of a process.
        symbols::search_by(functions);
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        walks::ask_by(super::reader::walked);
        return None;
    };
    let mut left = Left::default();
    Some(ExitCode::from(serve(memory, |text| answer(text, &mut left))))
}

/// What one answer leaves for the next.
#[derive(Default)]
struct Left {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    ground: Option<walks::Ground>,
}

#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(unused_variables, reason = "the parameter is used by give-back only")
)]
fn answer(text: &str, left: &mut Left) -> String {
    let answer: Result<String, String> = match serde_json::from_str(text) {
        Ok(Asked::Diagnosis { pid, form, reading, checks, surroundings }) => {
            doctor::of_process(pid, form, reading.as_deref(), &checks, *surroundings)
                .and_then(|text| serde_json::to_string(&text).map_err(|error| error.to_string()))
        }
        Ok(Asked::Sites { pid, wanted }) => process::written_by(pid, &wanted)
            .and_then(|written| serde_json::to_string(&written).map_err(|error| error.to_string())),
        Ok(Asked::Hidden(pid)) => {
            hidden_in_file(pid).and_then(|reason| serde_json::to_string(&reason).map_err(|error| error.to_string()))
        }
        Ok(Asked::Functions { pid, wanted }) => {
            serde_json::to_string(&CodeFunctions::here(pid, &wanted)).map_err(|error| error.to_string())
        }
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        Ok(Asked::Walks(asked)) => walks::answer(&mut left.ground, &asked)
            .and_then(|answer| serde_json::to_string(&answer).map_err(|error| error.to_string())),
        Ok(Asked::Remedies { reading, checks, surroundings }) => {
            let process = ProcessFacts::look_at(reading.process.pid, *surroundings).ok();
            serde_json::to_string(&remedies(&reading, process.as_ref(), &checks)).map_err(|error| error.to_string())
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
        Ok(Asked::Held { pid, mut mappings, time }) => {
            let found = allocanary_contents::held::find(pid, &mut mappings, Instant::now().checked_add(time));
            let line = |()| serde_json::to_string(&mappings).map_err(|error| error.to_string());
            found.map_err(|error| error.to_string()).and_then(line)
        }
        Ok(Asked::Contents {
            of,
            wanted: ContentsOptions { stopped, limit, sampled, texts, addresses, target, largest },
            time,
        }) => {
            let how = if stopped { ReadMode::Stopped } else { ReadMode::Running };
            let wanted =
                ContentsRequest { how, limit, is_sampled: sampled, holders: true, texts, addresses, target, largest };
            let mut found = match &of {
                ContentsSource::Process(pid) => allocanary_contents::take(*pid, &wanted, time),
                ContentsSource::Core(path) => allocanary_contents::take_core(path, &wanted, time),
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
