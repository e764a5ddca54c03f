//! `record --attach`: puts the recorder into a running process, and takes it out again. In: a process, a time. Out: a
//! trace of that time.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::recorded::mark;
use super::stacks::{sample, stacks};
use super::traces::{fresh_folder, tell, traces_of};
use crate::args::RecordFlags;
use crate::commands::{measure, reader, terminal};
use allocanary_heap::reader::{MEMORY, Reader};
use allocanary_inside::attach::{AttachedRecorder, RecorderRequest, Refusal, Reply, modules};
use allocanary_rows::error::{Error, Result};
use allocanary_sys::clocks::monotonic_nanos;
use allocanary_sys::private::user;
use allocanary_sys::proc::{ProcStatus, pids};
use allocanary_text::paste::CommandLine;
use allocanary_text::units::parse_duration;
use allocanary_trace::pack::pack;
use allocanary_trace::record::{RecordOptions, gather, made, put_end, put_residents, traces, trim};
use allocanary_trace::stacks::Resident;

/// The pause between two looks at the process.
const PAUSE: Duration = Duration::from_millis(50);

/// How long to search for a thread that can take the recorder out.
const PATIENCE: Duration = Duration::from_secs(60);

/// Records a process for some time, or takes out a recorder that another command has left in it.
pub fn run(flags: &RecordFlags, pid: u32, limit: u64, preload: &Path) -> Result<ExitCode> {
    let refused = |refusal: Refusal| Error::Input(refusal.to_string());
    if flags.detach.is_some() {
        let reply = end(&AttachedRecorder::found(pid, preload).map_err(refused)?).map_err(refused)?;
        terminal::tell(format_args!("process {pid}: {}", put_back(&reply)));
        return Ok(ExitCode::SUCCESS);
    }
    let time = flags.time.as_deref().map(time).transpose()?;
    refuse(pid)?;
    let folder = flags.out_dir.clone().unwrap_or_else(fresh_folder);
    let stacks = stacks(flags.stack_sample.as_deref(), false)?;
    let rate = sample(&flags.sample)?;
    let recording = RecordOptions { preload, folder: &folder, limit, rate, window: None, stacks };
    let users = users(pid);
    let into = place(&recording, &users)?;
    let asked = RecorderRequest { folder: into, limit, rate, stacks };
    let stop = measure::watch_interrupts();
    let before: Vec<_> = traces(&folder).unwrap_or_default().into_iter().map(|(path, _)| path).collect();
    let (recorder, reply) =
        AttachedRecorder::attach(pid, preload, &asked).inspect_err(|_| drop(gather(&folder))).map_err(refused)?;
    terminal::tell(format_args!(
        "process {pid}: recording: {} words of {} modules changed{}",
        reply.words,
        reply.modules,
        left(&reply)
    ));
    watch(pid, &recorder, time, || stop.load(Ordering::Relaxed));
    let ranges = allocanary_heap::resident(pid).unwrap_or_default();
    let at = monotonic_nanos();
    let ended = end(&recorder);
    let mut made = traces_of(made(&folder, &before, |owner| users.contains(&owner))?);
    for (path, header) in &mut made {
        let residents = [Resident { mark: mark(None), ranges: ranges.clone() }];
        if ended.is_ok() && put_residents(path, header, &residents)? {
            put_end(path, at)?;
        }
        trim(path, header)?;
        if let Err(error) = pack(path) {
            terminal::tell(format_args!("{error}: the trace stays as it was written, which is larger"));
        }
    }
    tell(&made);
    let is_gone = !pids::exists(pid);
    match ended {
        Ok(reply) => terminal::tell(format_args!("process {pid}: {}", put_back(&reply))),
        Err(_) if is_gone => terminal::tell(format_args!("process {pid}: it has ended")),
        Err(refusal) => {
            return Err(Error::Input(format!(
                "{refusal}. The recorder is still in it, and writes up to --max-size. Take it out later: {}",
                CommandLine::new("allocanary record --detach").word(pid.to_string())
            )));
        }
    }
    if let Some((path, _)) = made.first() {
        terminal::tell_next(&[CommandLine::new("allocanary who").path(path)]);
    }
    Ok(ExitCode::SUCCESS)
}

/// The time of `--for`.
fn time(text: &str) -> Result<Duration> {
    let (least, most) = (Duration::from_millis(10), Duration::from_secs(1_000_000));
    let wanted = || Error::Input(format!("--for: wanted a time from 10ms to 11 days, such as 60s, found `{text}`"));
    parse_duration(text).filter(|time| (least..=most).contains(time)).ok_or_else(wanted)
}

/// Fails for a program whose file shows that its allocations do not go through a table. What the mappings show is checked later.
fn refuse(pid: u32) -> Result<()> {
    let Some(reason) = reader::hidden_in(&mut Reader::new(MEMORY), pid).unwrap_or_default() else { return Ok(()) };
    Err(Error::Input(format!(
        "process {pid}: its allocations cannot be recorded: {reason}. A Rust program can record itself: `install!(..., wrap = Recording)`"
    )))
}

/// The users of a process: real, effective, saved, and that of its files.
fn users(pid: u32) -> Vec<u32> {
    ProcStatus::of(pid).ok().and_then(|status| status.users).map(Vec::from).unwrap_or_default()
}

/// The folder that the process writes to. If the process belongs to another user, it is the folder for other users.
fn place(recording: &RecordOptions, users: &[u32]) -> Result<std::path::PathBuf> {
    let variables = recording.environment(None)?;
    let of = |name| variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value.into());
    let own = of("ALLOCANARY_RECORD").unwrap_or_else(|| recording.folder.to_path_buf());
    let is_ours = users.get(1) == Some(&user());
    Ok(if is_ours { own } else { of("ALLOCANARY_RECORD_OTHERS").unwrap_or(own) })
}

/// Waits. If the process opens libraries during this time, their tables are changed too.
fn watch(pid: u32, recorder: &AttachedRecorder, time: Option<Duration>, stop: impl Fn() -> bool) {
    let begun = Instant::now();
    let mut known = modules(pid).unwrap_or_default();
    // The first look is always made: another thread may have looked up a function while the tables were being changed.
    let mut is_due = true;
    loop {
        let left = time.map_or(PAUSE, |time| time.saturating_sub(begun.elapsed()));
        if left.is_zero() || stop() {
            return;
        }
        std::thread::sleep(left.min(PAUSE));
        let Ok(now) = modules(pid) else { return };
        is_due |= !now.is_subset(&known);
        known = now;
        if is_due && let Ok(reply) = recorder.look_again() {
            is_due = false;
            if reply.words > 0 {
                terminal::tell(format_args!(
                    "process {pid}: {} more words of {} modules changed",
                    reply.words, reply.modules
                ));
            }
        }
    }
}

/// Takes the recorder out. Tries again until it finds a thread that can do it.
fn end(recorder: &AttachedRecorder) -> std::result::Result<Reply, Refusal> {
    let until = Instant::now() + PATIENCE;
    loop {
        match recorder.detach() {
            Err(Refusal::NoThread { .. } | Refusal::Late { .. } | Refusal::Locked { .. }) if Instant::now() < until => {
            }
            other => return other,
        }
    }
}

fn left(reply: &Reply) -> String {
    match reply.left {
        0 => String::new(),
        left => format!("; {left} modules call another allocator, and are left as they are"),
    }
}

/// Says what happened to the tables.
fn put_back(reply: &Reply) -> String {
    let mut text = format!("{} words put back", reply.words);
    if reply.others > 0 {
        text += &format!(", {} that were changed meanwhile stay", reply.others);
    }
    if reply.gone > 0 {
        text += &format!(", {} were of libraries that are closed", reply.gone);
    }
    text + "; the recorder's library stays, and does nothing"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_the_tables_is_said() {
        let reply = Reply { words: 7, ..Reply::default() };
        assert_eq!(put_back(&reply), "7 words put back; the recorder's library stays, and does nothing");
        let reply = Reply { words: 7, others: 1, gone: 2, ..Reply::default() };
        assert!(put_back(&reply).contains("1 that were changed meanwhile stay, 2 were of libraries that are closed"));
        assert!(time("5ms").is_err() && time("60s").is_ok() && time("x").is_err());
    }
}
