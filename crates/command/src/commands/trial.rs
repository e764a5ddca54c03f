//! `allocanary try`: gives one replica other settings, and compares. In: a workload, variables, and agents or their reports. Out: the
//! commands that change one replica or, once a replica has the variables, the verdict. `try` changes nothing itself.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{fleet, terminal};
use crate::args::TryFlags;
use allocanary_measure::trial::estimate::TrialWord;
use allocanary_measure::trial::replicas::{Replica, Replicas, find};
use allocanary_measure::trial::steps::{WorkloadFacts, steps};
use allocanary_measure::trial::verdict::{judge, shortest};
use allocanary_measure::trial::{TrialTarget, TrialVariable};
use allocanary_rows::error::{Error, Result};
use allocanary_rows::fleet::NodeReport;
use allocanary_screens::views::trial as reports;
use allocanary_sys::private;
use allocanary_text::paste::CommandLine;
use allocanary_text::units::{parse_duration, show_duration};

/// The time between two readings: agents count each minute.
const EVERY: Duration = Duration::from_secs(60);
/// The most reports that are read at once.
const MOST: usize = 100_000;

/// Prints the steps, or the verdict. The exit code is 1 if the verdict is undecided.
pub fn run(flags: &TryFlags) -> Result<ExitCode> {
    let target = TrialTarget::parse(&flags.workload).map_err(Error::Input)?;
    let lines = TrialVariable::parse_all(&flags.env).map_err(Error::Input)?;
    if !(flags.tolerance > 0.0 && flags.tolerance < 100.0) {
        return Err(Error::Input(format!(
            "--tolerance {}: wanted a percentage above 0 and below 100",
            flags.tolerance
        )));
    }
    let span = |name: &str, text: &Option<String>, none: Duration| match text {
        None => Ok(none),
        Some(text) => parse_duration(text)
            .ok_or_else(|| Error::Input(format!("--{name} {text}: wanted a time, such as 90s or 1h"))),
    };
    let time = span("for", &flags.time, Duration::ZERO)?;
    let every = span("every", &flags.every, EVERY)?.max(Duration::from_secs(1));
    let reports = read(flags, &target, time, every)?;
    if reports.is_empty() && flags.nodes.is_empty() && flags.changed.is_empty() {
        return first(&target, &lines, flags, None);
    }
    let found = find(&reports, &target, &lines, &flags.changed).map_err(Error::Input)?;
    if !found.replicas.iter().any(|one| one.changed) {
        return first(&target, &lines, flags, Some(&found));
    }
    let trial = judge(found.replicas, &target, &lines, flags.tolerance / 100.0).map_err(Error::Input)?;
    let text = match flags.json {
        true => serde_json::to_string(&trial).map_err(|error| Error::Input(error.to_string()))? + "\n",
        false => reports::verdict(&trial, &flags.workload, &lines, &terminal::look()),
    };
    let printed = terminal::print(text.as_bytes())?;
    Ok(if trial.word == TrialWord::Undecided { ExitCode::from(1) } else { printed })
}

/// Prints the steps. As far as `try` sees, no replica has the variables yet.
fn first(
    target: &TrialTarget,
    lines: &[TrialVariable],
    flags: &TryFlags,
    found: Option<&Replicas>,
) -> Result<ExitCode> {
    let container = target.container.as_deref().or_else(|| found.map(|found| found.container.as_str()));
    let container = container.ok_or_else(|| {
        Error::Input(format!(
            "{}: wanted its container as well ({}/CONTAINER), or agents that know it",
            flags.workload, flags.workload
        ))
    })?;
    let replicas = found.map_or(&[][..], |found| &found.replicas);
    if replicas.iter().any(|one| one.in_force(lines).is_none()) {
        terminal::tell(
            "whether a replica has the lines cannot be seen: if one has them already, name it by --changed POD",
        );
    }
    let known = found.map(|found| found.namespace.as_str()).filter(|name| !name.is_empty());
    let namespace = target.namespace.as_deref().or(known).unwrap_or("default");
    let known = WorkloadFacts { namespace, container, pod: newest(replicas) };
    let (urls, files): (Vec<&String>, Vec<&String>) = flags.nodes.iter().partition(|node| node.contains("://"));
    let folder = flags.out_dir.as_deref().unwrap_or(Path::new("readings"));
    let read = CommandLine::new("allocanary try").word(&flags.workload).word("--env").word(&flags.env);
    let read = read.words(["--for", "1h", "--out-dir"]).path(folder);
    let read = if urls.is_empty() { read.word("http://NODE:9912") } else { read.words(urls) };
    let files = files.into_iter().filter(|file| Path::new(file) != folder);
    let judge = files.fold(read.clone(), CommandLine::path).path(folder);
    let steps = steps(target, &known, lines, read, judge).map_err(Error::Input)?;
    match flags.json {
        true => {
            let text = serde_json::to_string(&serde_json::json!({ "steps": steps }));
            terminal::print_plain(&(text.map_err(|error| Error::Input(error.to_string()))? + "\n"))
        }
        false => terminal::print_plain(&reports::steps(&steps, &terminal::look())),
    }
}

/// The pod with the newest reading.
fn newest(replicas: &[Replica]) -> Option<&str> {
    let taken = |one: &&Replica| one.readings.last().map(|reading| reading.taken);
    replicas.iter().max_by_key(taken).map(|one| one.pod.as_str())
}

/// Reads files once, and agents again and again. If a node does not answer, the command prints why and asks it again.
fn read(flags: &TryFlags, target: &TrialTarget, time: Duration, every: Duration) -> Result<Vec<NodeReport>> {
    let (urls, paths): (Vec<&String>, Vec<&String>) = flags.nodes.iter().partition(|node| node.contains("://"));
    let mut reports = Vec::new();
    for path in paths {
        for file in files(Path::new(path))? {
            if reports.len() >= MOST {
                terminal::tell(format_args!("{path}: read no further than {MOST} reports of this workload"));
                break;
            }
            let report = fleet::read(&file.to_string_lossy(), &flags.trust).map_err(Error::Input)?;
            reports.extend(Some(only(report, target)).filter(has_rows));
        }
    }
    if !time.is_zero() && urls.is_empty() {
        return Err(Error::Input(
            "--for: wanted agents to read, such as http://10.0.0.1:9912, found files alone".into(),
        ));
    }
    if let Some(folder) = flags.out_dir.as_deref().filter(|_| !urls.is_empty()) {
        private::make_folder(folder).map_err(|error| Error::file(folder, "making it", error))?;
    }
    let begun = Instant::now();
    if !time.is_zero() {
        terminal::tell(format_args!(
            "reading {} nodes each {} for {}",
            urls.len(),
            show_duration(every),
            show_duration(time)
        ));
        // Earlier readings, from files, may make up for the rest.
        let [old, new] = shortest(every);
        if time < new && reports.is_empty() {
            terminal::tell(format_args!(
                "a verdict needs --for {} or longer, and {} if the changed replica has just started: only the second half of its life counts",
                show_duration(old),
                show_duration(new)
            ));
        }
    }
    for number in 1.. {
        let (mut answered, mut error) = (0, String::new());
        for url in &urls {
            match fleet::read(url, &flags.trust) {
                Ok(report) => {
                    let report = only(report, target);
                    if let Some(folder) = &flags.out_dir {
                        save(folder, &report)?;
                    }
                    reports.extend(Some(report).filter(has_rows));
                    answered += 1;
                }
                Err(why) => {
                    terminal::tell(format_args!("left out: {why}"));
                    error = why;
                }
            }
        }
        if !urls.is_empty() && answered == 0 && number == 1 {
            return Err(Error::Input(error));
        }
        let next = every * number;
        if next > time {
            break;
        }
        if reports.len() >= MOST {
            terminal::tell(format_args!("read no further than {MOST} reports"));
            break;
        }
        sleep(next.saturating_sub(begun.elapsed()));
    }
    Ok(reports)
}

/// The report without the rows of other workloads.
fn only(mut report: NodeReport, target: &TrialTarget) -> NodeReport {
    let (own, canary) = (target.workload(), target.canary());
    report.rows.retain(|row| row.workload == own || row.workload == canary);
    report
}

/// Whether the report has rows of the workload. If not, it is only saved, to show that the node answered.
fn has_rows(report: &NodeReport) -> bool {
    !report.rows.is_empty()
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = std::fs::read_dir(path).map_err(|error| Error::file(path, "listing it", error))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|file| file.extension().is_some_and(|end| end == "json"))
        .collect();
    files.sort();
    Ok(files)
}

/// Saves each reading as a file, so that an interruption does not lose earlier ones.
fn save(folder: &Path, report: &NodeReport) -> Result<()> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let node: String = report.node.chars().map(plain).take(100).collect();
    let file = folder.join(format!("{node}-{}.json", report.taken));
    let text = serde_json::to_string(report).map_err(|error| Error::Input(error.to_string()))?;
    private::replace(&file, text.as_bytes()).map_err(|error| Error::file(&file, "writing the reading", error))?;
    Ok(())
}
