//! Checks whether the calls of a remedy can be made, as far as this is possible without stopping a thread.

use std::time::{Duration, Instant};

use allocanary_heap::{LiveProcess, Memory};
use allocanary_sys::proc::ProcStatus;

use crate::give_back::borrow::carry_out::{missing_way, the_function};
use crate::give_back::borrow::safety;
use crate::give_back::borrow::threads::Threads;
use crate::give_back::borrow::walks::ProcessWalks;
use crate::give_back::symbols::{CodeFunctions, FunctionSearch};
use crate::give_back::{Refusal, ReleaseCall};

/// How long to search for a waiting thread: a thread that works may wait a moment later.
const LOOK: Duration = Duration::from_millis(50);

/// Makes every check of [`super::carry_out`] that stops no thread. `Some` names what can be found out only by stopping a thread.
pub fn check(pid: u32, remedy: &ReleaseCall) -> Result<Option<String>, Refusal> {
    safety::check(pid)?;
    let live = LiveProcess::open(pid)?;
    let functions = CodeFunctions::find(pid, &FunctionSearch::of(remedy, true))?.within(live.mappings());
    the_function(pid, remedy, &functions)?;
    let prepared = ProcessWalks::prepare(pid, &functions, live.mappings())?;
    let (mut walks, _) = prepared.map_err(|missing| missing_way(pid, &missing))?;
    let until = Instant::now() + LOOK;
    let waits = loop {
        let threads = Threads::of(&live, pid);
        walks.round(threads.asleep.iter().map(|(_, told)| told))?;
        if threads.waiting.iter().any(|one| walks.inside(&one.told).is_none()) {
            break None;
        }
        if Instant::now() >= until {
            break Some(threads.words());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let is_filtered = ProcStatus::of(pid).is_ok_and(|status| status.seccomp == Some(2));
    Ok(match waits {
        Some(words) => Some(format!("no thread waited just now where it can make the call ({words})")),
        None if is_filtered => {
            Some("the process has a filter of system calls, which can be read only while a thread is stopped".into())
        }
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_refused_before_anything_is_read() {
        let glibc = crate::give_back::remedy::of("glibc").unwrap();
        assert!(check(std::process::id(), glibc).unwrap_err().reason().contains("this command itself"));
    }
}
