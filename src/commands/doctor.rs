//! `allocanary doctor`: diagnoses how this host affects each allocator, or inspects a running process, and gives
//! advice.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::{named, terminal};
use crate::args::DoctorFlags;
use allocanary_doctor::advice::{Advice, advice};
use allocanary_doctor::host::Surroundings;
use allocanary_doctor::links::links;
use allocanary_doctor::process::Process;
use allocanary_doctor::seen::Seen;
use allocanary_doctor::{Variables, diagnosis};
use allocanary_report::answer::{Answer, Pasted, document, short};
use allocanary_study::error::{Error, Result};

/// The time for a process's memory. A heap that is not read by then is told as one part.
const DEADLINE: Duration = Duration::from_secs(10);

/// Prints the diagnosis.
pub fn run(flags: &DoctorFlags) -> Result<ExitCode> {
    let named = flags.process.as_deref().map(|text| named::find("doctor", text)).transpose()?;
    let is_brief = flags.output.json || flags.output.short;
    let text = match flags.pid.or(named) {
        Some(pid) => {
            let process = Process::look_at(pid).map_err(|error| Error::Input(error.to_string()))?;
            if is_brief {
                return answer(flags, &diagnosis::advice_of_process(&process), &process.program);
            }
            // What may not be read is missing, and the rest is told.
            let reading = allocanary_heap::take(pid, allocanary_heap::How::Running, DEADLINE).ok();
            diagnosis::of_process(&process, reading.as_ref(), terminal::look())
        }
        None => {
            let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
            let variables = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
            let variables: Variables = variables.chain(links(Path::new("/"))).collect();
            if is_brief {
                let advice = advice(&Surroundings::here(), &variables, None, &Seen::default());
                return answer(flags, &advice, "this host");
            }
            diagnosis::of_host(&Surroundings::here(), &variables, terminal::look())
        }
    };
    terminal::print(text.as_bytes())
}

/// The advice as answers, for a script or in few lines.
fn answer(flags: &DoctorFlags, advice: &[Advice], of: &str) -> Result<ExitCode> {
    let answers: Vec<Answer> = match advice {
        [] => {
            let facts = [("choice".to_string(), "keep".into()), ("of".to_string(), of.into())];
            let text = format!("Nothing to change for {of}: what is set fits, or no setting of ours applies.");
            vec![Answer { text, pasted: None, facts: facts.into_iter().collect() }]
        }
        some => some.iter().map(|one| of_advice(one, of)).collect(),
    };
    let text = match flags.output.json {
        true => document("doctor", &answers, Default::default()),
        false => short(&answers, &terminal::look()),
    };
    terminal::print_plain(&text)
}

fn of_advice(one: &Advice, of: &str) -> Answer {
    let (name, value) = &one.variable;
    let labelled =
        |label: &'static str, lines: Vec<String>| lines.into_iter().map(move |line| format!("{label:<12}{line}"));
    let mut lines: Vec<String> = labelled("environment", one.environment()).collect();
    lines.extend(labelled("Dockerfile", one.dockerfile()));
    lines.extend(labelled("Rust", one.install.iter().flat_map(|text| text.lines().map(String::from)).collect()));
    let reasons = one.reasons.join(". ");
    let facts = [
        ("choice", "change".into()),
        ("of", of.into()),
        ("allocator", one.allocator.into()),
        ("variable", name.as_str().into()),
        ("value", value.as_str().into()),
        ("reasons", one.reasons.as_slice().into()),
    ];
    Answer {
        text: format!("For {}, set {name}={value}. {reasons}.", one.allocator),
        pasted: Some(Pasted { name: one.allocator.into(), heading: String::new(), lines, note: None }),
        facts: facts.into_iter().map(|(key, value)| (key.to_string(), value)).collect(),
    }
}
