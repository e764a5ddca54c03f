//! `allocanary record`: runs a program and records its allocations. In: a command line. Out: a trace for each process,
//! the program's exit code.

mod attached;
mod loader;
mod perf_map;
mod plain;
mod recorded;
mod stacks;
mod traces;
mod verify;
mod watched;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use self::traces::{fresh_folder, largest, tell, traces_of};
use super::run::only_study;
use super::{library, named, terminal};
use crate::args::RecordFlags;
use allocanary_doctor::program::StartableProgram;
use allocanary_rows::error::{Error, Result};
use allocanary_study::program::signal_name;
use allocanary_study::session::StudyFile;
use allocanary_sys::sys;
use allocanary_text::paste::CommandLine;
use allocanary_text::units::{parse_bytes, parse_duration};
use allocanary_trace::pack::pack;
use allocanary_trace::record::{RecordOptions, made, put_end, put_marks, put_residents, traces, trim};
use recorded::{INTERRUPTED, mark, residents};
use stacks::{sample, stacks};
use verify::Verification;

/// Default of `--verify`: the number of runs under each candidate.
const REPEATS: u32 = 5;

/// The least `--max-size` of a window with stacks: a header of 4 KiB and four places of 32 KiB. The tables have two of
/// these places: one for the frames, and one for the files of the frames.
const LEAST_OF_BOTH: u64 = 132 << 10;

/// Records a program.
pub fn run(flags: &RecordFlags) -> Result<ExitCode> {
    let limit = parse_bytes(&flags.max_size).filter(|bytes| *bytes >= 64 << 10);
    let wanted = || Error::Input(format!("--max-size: wanted 64KiB or more, such as 1GiB, found `{}`", flags.max_size));
    let limit = limit.ok_or_else(wanted)?;
    if let Some(pid) = flags.attach.or(flags.detach) {
        named::with_memory("record", pid)?;
        return attached::run(flags, pid, limit, &library::find("record", "record", &[])?);
    }
    let preload = library::for_loader("record", "record", &[])?;
    let study = study(flags)?;
    let checked = study.clone().check()?;
    let program = study.program.clone().unwrap_or_default();
    refuse(&program.command)?;
    let folder = flags.out_dir.clone().unwrap_or_else(fresh_folder);
    let window = flags.window.as_deref().map(window).transpose()?;
    let stacks = stacks(flags.stack_sample.as_deref(), window.is_some())?;
    let has_both = window.is_some() && stacks > 0;
    if has_both && limit < LEAST_OF_BOTH {
        let found = &flags.max_size;
        let wanted = "--max-size: wanted 132KiB or more for a window with stacks, whose tables have half of it";
        return Err(Error::Input(format!("{wanted}, found `{found}`")));
    }
    let recording =
        RecordOptions { preload: &preload, folder: &folder, limit, rate: sample(&flags.sample)?, window, stacks };
    loader::check_preloads(&std::env::var("LD_PRELOAD").unwrap_or_default())?;
    let comparison = flags.verify.then(|| Verification::planned(&study, &folder)).transpose()?;
    let is_watched = flags.verify || watched::is_wanted(&program);
    let mut recordings = Vec::new();
    for number in 1..=flags.recordings {
        let before: Vec<PathBuf> = traces(&folder).unwrap_or_default().into_iter().map(|(path, _)| path).collect();
        let recorded = match is_watched {
            true => watched::run(&recording, &study, number),
            false => plain::run(&recording, &program.command, study.run_timeout.as_ref().map(|_| checked.deadline)),
        };
        // Even if the program failed, its traces are cut to their length, and named. The traces of all users count, because a program that
        // root starts may change to any user.
        let mut made = made(&folder, &before, |_| true).map_or(Vec::new(), traces_of);
        let (marks, end) = recorded.as_ref().map_or(([0; 3], 0), |recorded| (recorded.marks, recorded.end));
        // After an exec, a process has two traces. Its pages at the marks belong to the later one.
        let images: Vec<u32> = made.iter().map(|(_, header)| header.pid).collect();
        for (at, (path, header)) in made.iter_mut().enumerate() {
            if let Ok(recorded) = &recorded
                && !images[at + 1..].contains(&header.pid)
            {
                let residents = residents(header.pid, &recorded.residents);
                let is_written = put_residents(path, header, &residents)?;
                // An end is stored only if the pages at this moment are known.
                if end > 0 && is_written && residents.iter().any(|resident| resident.mark == mark(None)) {
                    put_end(path, end)?;
                }
            }
            if marks != [0; 3] {
                put_marks(path, marks)?;
            }
            trim(path, header)?;
            // A full disk is no reason to fail: the unpacked trace is complete.
            if let Err(error) = pack(path) {
                terminal::tell(format_args!("{error}: the trace stays as it was written, which is larger"));
            }
        }
        tell(&made);
        perf_map::keep(&made);
        if made.iter().any(|(_, header)| header.no_stacks) {
            terminal::tell(
                "no stacks: they need x86-64 or aarch64, and a C library with _dl_find_object (glibc 2.35 or later)",
            );
        }
        if !made.is_empty() && flags.recordings == 1 {
            let (largest, header) = largest(&made);
            // A replay of a window shows little: only blocks that were allocated in it.
            let verbs = [
                ("allocanary who", header.without_stacks().is_none()),
                ("allocanary report", true),
                ("allocanary replay", header.window == 0),
            ];
            let verbs = verbs.iter().filter(|(_, is_useful)| *is_useful);
            let lines: Vec<CommandLine> = verbs.map(|(begin, _)| CommandLine::new(begin).path(largest)).collect();
            terminal::tell_next(&lines);
        }
        let recorded = recorded?;
        if let Some(signal) = recorded.signal.filter(|signal| !sys::asks_to_end(*signal)) {
            // A shell prints this for programs that it has started itself, but not for this one.
            terminal::tell(format_args!("{}: was ended by signal {}", program.command[0], signal_name(signal)));
        }
        if made.is_empty() && recorded.code != INTERRUPTED {
            let command = &program.command[0];
            if recorded.signal.is_some_and(|signal| !sys::asks_to_end(signal)) {
                terminal::tell(format_args!("{command}: nothing was recorded: it ended before it had made a trace"));
                return Ok(ExitCode::from(recorded.code));
            }
            let why = format!(
                "{command}: nothing was recorded: it ended before it allocated, or each of its processes is static or set-user-id, for \
                 which the loader drops preloads, or none could make a file in {} (a full disk, a small RLIMIT_FSIZE, another user)",
                folder.display()
            );
            // The caller has to see the program's own exit code.
            if recorded.code != 0 {
                terminal::tell(why);
                return Ok(ExitCode::from(recorded.code));
            }
            return Err(Error::Input(why));
        }
        if comparison.is_none() || recorded.code == INTERRUPTED {
            return Ok(ExitCode::from(recorded.code));
        }
        recordings.push(made);
    }
    comparison.map_or(Ok(ExitCode::SUCCESS), |comparison| comparison.run(&recordings))
}

/// Fails for a program whose allocations do not go through C's malloc: its trace would be nearly empty. A program that
/// cannot be found is reported later, when it is started.
fn refuse(command: &[String]) -> Result<()> {
    let reason = command.first().and_then(|name| StartableProgram::look_at(name).ok()).and_then(|looked| looked.cannot);
    let Some(reason) = reason else { return Ok(()) };
    Err(Error::Input(format!(
        "{}: its allocations cannot be recorded: {reason}. A Rust program can record itself: `install!(..., wrap = Recording)`",
        command[0]
    )))
}

/// The time of `--window`.
fn window(text: &str) -> Result<Duration> {
    let (least, most) = (Duration::from_millis(100), Duration::from_secs(1_000_000));
    let wanted = || Error::Input(format!("--window: wanted a time from 100ms to 11 days, such as 60s, found `{text}`"));
    parse_duration(text).filter(|time| (least..=most).contains(time)).ok_or_else(wanted)
}

/// The study to record: that of `--program`, if one is named, changed by each flag that was given.
fn study(flags: &RecordFlags) -> Result<StudyFile> {
    let file = flags.file.as_deref().map_or(Ok(StudyFile::default()), only_study)?;
    let program = flags.over(file.program.clone().unwrap_or_default());
    let run_timeout = flags.run_timeout.clone().or(file.run_timeout.clone());
    let candidates = flags.candidates.clone().or(file.candidates.clone()).unwrap_or_else(verify::candidates);
    let repeats = flags.repeats.or(file.repeats).or(Some(REPEATS));
    Ok(StudyFile { program: Some(program), run_timeout, candidates: Some(candidates), repeats, ..file })
}
