//! `allocanary` without a verb: resident memory by number of threads, for the allocator that this command was built
//! with, under the configuration in the user's environment.

use std::collections::BTreeMap;
use std::process::ExitCode;

use super::cells;
use super::measure::MeasureRun;
use super::output::VerbOutput;
use super::terminal;
use crate::args::HereFlags;
use allocanary_facts::environment::readable_variables;
use allocanary_rows::description::Description;
use allocanary_rows::error::{Error, Result};
use allocanary_study::session::{Linked, Studies, StudyFile, StudyFiles, describe, plan};
use allocanary_sys::host::Host;

/// Measures this build's allocator.
pub fn run(flags: &HereFlags) -> Result<ExitCode> {
    let allocator = crate::given::allocator();
    let file = StudyFile {
        question: Some(format!("What does {allocator} cost a small service here as its threads grow?")),
        candidates: Some(vec![allocator.to_string()]),
        ..StudyFile::default()
    }
    .overridden_by(flags.measure.file());
    file.clone().check()?;
    let target = flags.run.folder()?.unwrap_or(StudyFiles::Fresh("here".into()));
    let roster = cells::roster(&flags.run.cells)?;
    let Some((plain, program)) = roster.get(allocator, None) else {
        return Err(Error::Cell(format!("there is no cell for {allocator}, which this command was built with")));
    };
    let inherited: BTreeMap<String, String> =
        readable_variables().filter(|(name, _)| plain.environment.owns(name)).collect();
    // Invalid flags are reported before anything is printed.
    plan(&file.clone().check()?, &roster.descriptions())?;
    let configured = describe(program, &inherited).map_err(|refusal| Error::Cell(refusal.to_string()))?;
    if !configured.problems.is_empty() {
        let problems = configured.problems.join("; ");
        return Err(Error::Input(format!("the environment: {problems}; correct it, or unset the variable")));
    }
    terminal::print_plain(&introduction(plain, &configured, &inherited))?;

    let file = StudyFile { inherited: Some(inherited), ..file };
    let (group, output) = (Studies(vec![file]), VerbOutput::tables("here"));
    MeasureRun {
        group: &group,
        roster: &roster,
        target,
        resume: false,
        executor: &Linked::new(&roster),
        write_for: flags.run.write_for,
        output,
    }
    .run()
}

/// The first lines: allocator, version, settings in force, number of cores.
fn introduction(plain: &Description, configured: &Description, inherited: &BTreeMap<String, String>) -> String {
    let host = Host::this();
    let mut out = format!(
        "{} {}, on {} of {} cores ({}), THP {}\n",
        plain.allocator, plain.version, host.affinity, host.cores, host.cpu, host.thp
    );
    for (name, value) in inherited {
        out.push_str(&format!("environment: {name}={value}\n"));
    }
    let changed = |(name, value): &(&String, &String)| plain.effective.get(*name) != Some(value);
    let per_core = plain.per_core.as_ref().map(|per_core| per_core.setting.as_ref());
    let shown = configured.effective.iter().filter(|setting| changed(setting) || per_core == Some(setting.0.as_str()));
    let shown: Vec<String> = shown
        .map(|setting| match plain.per_core.as_ref().filter(|_| !changed(&setting)) {
            Some(per_core) => format!("{}={} (default: {} per core)", setting.0, setting.1, per_core.ratio),
            None => format!("{}={}", setting.0, setting.1),
        })
        .collect();
    let shown = if shown.is_empty() { "all at their built-in values".to_string() } else { shown.join(", ") };
    out.push_str(&format!("settings in force: {shown}\n\n"));
    out
}
