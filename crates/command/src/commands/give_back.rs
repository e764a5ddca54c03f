//! `allocanary give-back`: a running process gives free memory back, or changes a setting of its allocator. In: a process. Out: the forecast,
//! a question, the result.

mod confirmed;
mod settings;
mod tree;

use std::process::ExitCode;
use std::time::Duration;

use super::calls::in_swap;
use super::{named, reader, terminal};
use crate::args::GiveBackFlags;
use allocanary_doctor::remedies::CallChecks;
use allocanary_heap::reader::MEMORY;
use allocanary_heap::{ProcessSubject, ProcessTrouble, ReadMode, Reader, Reading};
use allocanary_inside::give_back::account::{GiveBackAccount, HeapCalls};
use allocanary_inside::give_back::condition::Condition;
use allocanary_inside::give_back::plan::{HeapPlan, by_function, plan};
use allocanary_inside::give_back::remedy::FunctionCall;
use allocanary_inside::give_back::{GiveBackResult, Limits, Refusal, carry_out, has_function};
use allocanary_rows::error::{Error, Result};
use allocanary_screens::views::remedies::list;
use allocanary_sys::private;
use allocanary_text::outside::harmless;
use allocanary_text::units::parse_duration;
use confirmed::{REFUSED, confirmed};

/// The time for a reading. If a heap cannot be read in this time, it has no forecast.
const DEADLINE: Duration = Duration::from_secs(30);

/// Does what the flags request.
pub fn run(flags: &GiveBackFlags) -> Result<ExitCode> {
    let pid = named::find("give-back", &flags.process)?;
    let every = flags.every.as_deref().map(|every| time("--every", every)).transpose()?;
    let limits = Limits { patience: time("--lock-timeout", &flags.lock_timeout)?, every };
    if !flags.settings.is_empty() {
        return settings::set(flags, pid, limits);
    }
    match every {
        None if flags.tree => tree::all(flags, pid, limits),
        None => {
            let reading = take(pid).map_err(trouble)?;
            once(flags, &reading, limits)
        }
        Some(every) => again(flags, pid, every, limits),
    }
}

/// Reads the process. A child does it, so that nothing in the process's memory can harm this command.
fn take(pid: u32) -> std::result::Result<Reading, ProcessTrouble> {
    Reader::new(MEMORY).take(pid, ReadMode::Running, DEADLINE)
}

fn time(flag: &str, text: &str) -> Result<Duration> {
    parse_duration(text).filter(|time| *time >= Duration::from_millis(100)).ok_or_else(|| {
        let found = harmless(text);
        Error::Input(format!("give-back: {flag}: wanted a time of 100ms or more, such as 10s; found `{found}`"))
    })
}

fn trouble(error: ProcessTrouble) -> Error {
    Error::Input(format!("give-back: {error}"))
}

/// The heaps that would be asked.
fn planned(reading: &Reading) -> Vec<HeapPlan> {
    let mut planned = plan(reading);
    planned.extend(by_function(reading, |remedy| has_function(reading.process.pid, remedy)));
    planned
}

/// Gives back once: forecast, question, calls, result.
fn once(flags: &GiveBackFlags, reading: &Reading, limits: Limits) -> Result<ExitCode> {
    of_one(flags, reading, &planned(reading), limits).map(|(code, _)| code)
}

/// The same with these heaps, and its account.
fn of_one(
    flags: &GiveBackFlags,
    reading: &Reading,
    planned: &[HeapPlan],
    limits: Limits,
) -> Result<(ExitCode, GiveBackAccount)> {
    let mut account = GiveBackAccount::of(reading, planned, private::user());
    let swapped = swapped(flags, reading);
    if flags.dry_run || planned.is_empty() {
        if !flags.json {
            reading.problems.iter().for_each(terminal::tell);
        }
        account.calls =
            planned.iter().map(|one| HeapCalls::checked(one, &asked(reading, one, Some(&[]), limits))).collect();
        if let Some(reason) = swapped {
            account.calls.iter_mut().for_each(|call| call.error = Some(reason.clone()));
        }
        print(flags, &account, GiveBackAccount::expectation)?;
        if !flags.json {
            others(reading)?;
        }
        return Ok((ExitCode::from(if account.is_possible() { 0 } else { REFUSED }), account));
    }
    if !flags.json {
        terminal::print_plain(&account.expectation())?;
    }
    if let Some(reason) = swapped {
        account.calls.iter_mut().for_each(|call| call.error = Some(reason.clone()));
        return Ok((tell(flags, &account)?, account));
    }
    if !flags.yes && !confirmed()? {
        return Ok((ExitCode::from(REFUSED), account));
    }
    give_back(&mut account, reading, planned, limits);
    Ok((tell(flags, &account)?, account))
}

/// Prints the other remedies, as `allocanary PROCESS` prints them.
fn others(reading: &Reading) -> Result<()> {
    let mut all = reader::remedies_of(&mut Reader::new(MEMORY), reading, &CallChecks::default(), DEADLINE);
    all.retain(|one| one.id != "give-back");
    if all.is_empty() {
        return Ok(());
    }
    let list = list(&all, all.len(), reading.process.pid, &terminal::look());
    terminal::print(format!("\nWhat else there is to do\n{list}").as_bytes()).map(drop)
}

/// Why nothing is called while memory of the heap is in swap; `None` if it may be called.
fn swapped(flags: &GiveBackFlags, reading: &Reading) -> Option<String> {
    in_swap(reading).filter(|_| !flags.swapped).map(|why| format!("process {}: {why}", reading.process.pid))
}

/// Writes the line of the log, and prints the result.
fn tell(flags: &GiveBackFlags, account: &GiveBackAccount) -> Result<ExitCode> {
    if let Some(log) = &flags.log {
        // A new log can be read only by this user.
        let added = private::append(log, account.audit().as_bytes());
        added.map_err(|error| Error::file(log, "adding to the log", error))?;
    }
    print(flags, account, GiveBackAccount::result)?;
    Ok(ExitCode::from(if account.is_done() { 0 } else { REFUSED }))
}

/// Makes the calls on one heap: `calls`, or the remedy's own. With an empty list it does everything but the calls.
fn asked(
    reading: &Reading,
    one: &HeapPlan,
    calls: Option<&[FunctionCall]>,
    limits: Limits,
) -> std::result::Result<GiveBackResult, Refusal> {
    let process = &reading.process;
    match ProcessSubject::of(process.pid) {
        Some(now) if now.is_same(process) => {
            let own = (one.remedy.calls)();
            carry_out(process.pid, one.remedy, calls.unwrap_or(&own), limits)
        }
        Some(_) => Err(Refusal::Trouble(ProcessTrouble::Changed(process.pid))),
        None => Err(Refusal::Trouble(ProcessTrouble::Gone(process.pid))),
    }
}

/// Makes the calls, and reads the process again.
fn give_back(account: &mut GiveBackAccount, reading: &Reading, planned: &[HeapPlan], limits: Limits) {
    account.calls.clear();
    let mut has_begun = false;
    for one in planned {
        let result = asked(reading, one, None, limits);
        has_begun |= result.as_ref().map_or_else(Refusal::has_begun, |_| true);
        account.calls.push(HeapCalls::made(one, &result));
    }
    let process = &reading.process;
    // This is done even if a call was taken back or failed, because some memory may have been given back before.
    if has_begun && ProcessSubject::of(process.pid).is_some_and(|now| now.is_same(process)) {
        account.after = take(process.pid).ok().map(|after| after.counted_resident());
    }
}

fn print(flags: &GiveBackFlags, account: &GiveBackAccount, text: fn(&GiveBackAccount) -> String) -> Result<ExitCode> {
    if !flags.json {
        return terminal::print_plain(&text(account));
    }
    let line = serde_json::to_string(account).map_err(|error| Error::Input(format!("give-back: --json: {error}")))?;
    terminal::print((line + "\n").as_bytes())
}

/// Gives back again and again, until the process ends. A refusal is printed, and the command tries again at the next
/// time.
fn again(flags: &GiveBackFlags, pid: u32, every: Duration, limits: Limits) -> Result<ExitCode> {
    let condition = flags.condition.as_deref().map(Condition::parse).transpose().map_err(Error::Input)?;
    if !flags.yes {
        return Err(Error::Input("give-back: --every needs --yes: nobody is asked each time".into()));
    }
    let first = take(pid).map_err(trouble)?;
    let process = first.process.clone();
    let mut reading = first;
    loop {
        if condition.is_none_or(|condition| condition.holds(&reading)) {
            once(flags, &reading, limits)?;
        }
        std::thread::sleep(every);
        reading = match take(pid) {
            Ok(reading) if reading.process.is_same(&process) => reading,
            Ok(_) | Err(ProcessTrouble::Gone(_) | ProcessTrouble::Changed(_)) => {
                terminal::tell(format_args!("process {pid} has ended, or runs another program"));
                return Ok(ExitCode::SUCCESS);
            }
            // The machine may be busy, for example. The next time may succeed.
            Err(error) => {
                terminal::tell(format_args!("give-back: {error}"));
                std::thread::sleep(every);
                continue;
            }
        };
    }
}
