//! `allocanary doctor`: diagnoses how this host affects each allocator, or inspects a running process, and gives
//! advice.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::form::Form;
use super::{named, reader, terminal};
use crate::args::{DoctorFlags, OutputFlags};
use allocanary_doctor::Variables;
use allocanary_doctor::advice::{Advice, advice};
use allocanary_doctor::diagnosis;
use allocanary_doctor::host::Surroundings;
use allocanary_doctor::links;
use allocanary_doctor::process::ProcessFacts;
use allocanary_doctor::remedies::{CallChecks, conclusion, remedies};
use allocanary_doctor::seen::ProcessTraits;
use allocanary_heap::reader::MEMORY;
use allocanary_heap::{ProcessTrouble, ReadMode, Reader, Reading};
use allocanary_rows::error::Error;
use allocanary_rows::error::Result;
use allocanary_screens::draw::{Answer, Pasted, document, short};
use allocanary_text::outside::TerminalStyle;

/// The time for reading a process's memory. If a heap cannot be read in this time, it is reported as one part.
const DEADLINE: Duration = Duration::from_secs(10);

/// Prints the diagnosis.
pub fn run(flags: &DoctorFlags) -> Result<ExitCode> {
    let named = flags.process.as_deref().map(|text| named::find("doctor", text)).transpose()?;
    let TerminalStyle { color, width } = terminal::look();
    let form = match flags.output {
        OutputFlags { json: true, .. } => Form::Json,
        OutputFlags { short: true, .. } => Form::Short { color, width },
        _ => Form::Text { color, width },
    };
    let text = match named {
        Some(pid) => within_limits(pid, form)?,
        None => of_host(form),
    };
    match form {
        Form::Text { .. } => terminal::print_answer(&text),
        _ => terminal::print_plain(&text),
    }
}

/// The diagnosis of a process. A child makes it, so that nothing in the process's memory can harm this command.
fn within_limits(pid: u32, form: Form) -> Result<String> {
    let mut child = Reader::new(MEMORY);
    // Parts that may not be read are missing. The others are reported.
    let reading = match child.take(pid, ReadMode::Running, DEADLINE) {
        Err(ProcessTrouble::Costly { cost, .. }) => Reading::unread(pid, format!("heap not analysed: {cost}")).ok(),
        read => read.ok(),
    };
    reader::diagnosis(&mut child, pid, form, reading, DEADLINE).map_err(|why| {
        // Most errors name the process already.
        Error::Input(if why.starts_with("process ") { why } else { format!("doctor: process {pid}: {why}") })
    })
}

/// The diagnosis of a process, in the child.
pub fn of_process(
    pid: u32,
    form: Form,
    reading: Option<&Reading>,
    checks: &CallChecks,
    surroundings: Surroundings,
) -> std::result::Result<String, String> {
    let process = ProcessFacts::look_at(pid, surroundings).map_err(|error| error.to_string())?;
    Ok(match form {
        Form::Text { .. } => diagnosis::of_process(&process, reading, checks, form.look()),
        _ => of_remedies(form, reading, checks, &process),
    })
}

fn of_host(form: Form) -> String {
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let variables = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    let variables: Variables = variables.chain(links(Path::new("/"))).collect();
    match form {
        Form::Text { .. } => diagnosis::of_host(&Surroundings::here(), &variables, form.look()),
        _ => answer(form, &advice(&Surroundings::here(), &variables, None, &ProcessTraits::default()), "this host"),
    }
}

/// The remedies as answers, for a script or in few lines.
fn of_remedies(form: Form, reading: Option<&Reading>, checks: &CallChecks, process: &ProcessFacts) -> String {
    let remedies = reading.map_or_else(Vec::new, |reading| remedies(reading, Some(process), checks));
    let facts = |choice: &str| -> serde_json::Map<String, serde_json::Value> {
        [("choice", choice), ("of", &process.program)]
            .map(|(key, value)| (key.to_string(), value.into()))
            .into_iter()
            .collect()
    };
    let text = reading.map_or_else(|| "Its memory could not be read.".into(), |reading| conclusion(reading, &remedies));
    let mut answers = vec![Answer { text, pasted: None, facts: facts("keep") }];
    for (at, one) in remedies.iter().enumerate() {
        let lines = one.lines.iter().map(|line| format!("{:<12}{}", line.place, line.text)).collect();
        let pasted = Some(Pasted { name: one.id.clone(), heading: String::new(), lines, note: None });
        let mut facts = facts("change");
        facts.insert("remedy".into(), serde_json::to_value(one).unwrap_or_default());
        match at {
            // The conclusion is about the first remedy, so both are one answer.
            0 => answers = vec![Answer { text: format!("{} {}", answers[0].text, one.details()), pasted, facts }],
            _ => answers.push(Answer { text: format!("{}. {}", one.title(), one.details()), pasted, facts }),
        }
    }
    match form {
        Form::Json => document("doctor", &answers, Default::default()),
        _ => short(&answers, &form.look()),
    }
}

/// The advice as answers, for a script or in few lines.
fn answer(form: Form, advice: &[Advice], of: &str) -> String {
    let answers: Vec<Answer> = match advice {
        [] => {
            let facts = [("choice".to_string(), "keep".into()), ("of".to_string(), of.into())];
            let text = format!("Nothing to change for {of}: what is set fits, or no setting of ours applies.");
            vec![Answer { text, pasted: None, facts: facts.into_iter().collect() }]
        }
        some => some.iter().map(|one| of_advice(one, of)).collect(),
    };
    match form {
        Form::Json => document("doctor", &answers, Default::default()),
        _ => short(&answers, &form.look()),
    }
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
