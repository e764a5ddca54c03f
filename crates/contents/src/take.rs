//! Reads what the heap of a live process or of a core file contains.
//!
//! The process runs during the reading, unless the caller wants to stop it. If it runs, the leaks of several readings have to agree:
//! readings are repeated until one removes no block.

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use allocanary_heap::{CopyRoom, CoreFile, LiveProcess, Mapping, Memory, ProcessSubject, ProcessTrouble, ReadMode};
use allocanary_process::{HandedBack, ProcessFiles, StoppedProcess, handed_back};

use crate::budget::{self, Budget};
use crate::contents::{Contents, CoreState};
use crate::copy::{self, bytes_of, room_for};
use crate::leaks::{self, LeakSuspect};
use crate::sample;
use crate::snapshot::Snapshot;
use crate::threads;
use crate::wanted::ContentsRequest;

/// The most readings. In a process whose blocks move fast, each reading leaves one hundredth of the false leaks of the one before.
const READINGS: u32 = 8;

/// Reads a process within a time limit. Steps for which too little time is left are not made, and the problems name them.
pub fn take(pid: u32, wanted: &ContentsRequest, time: Duration) -> Result<Contents, ProcessTrouble> {
    let budget = Budget::of(time);
    let until = budget.until();
    // The rest of the time is needed to analyse the last reading, which may also take longer than those before.
    let is_late = || budget.is_past(budget::READING);
    let subject = ProcessSubject::of(pid).ok_or(ProcessTrouble::Gone(pid))?;
    let files = Rc::new(ProcessFiles::of(pid));
    let open = |mapping: &Mapping| files.get(mapping.from, mapping.to, mapping.inode).ok();
    let mut earlier: Option<Vec<LeakSuspect>> = None;
    let mut room: Option<CopyRoom> = None;
    // The doubts of each reading so far that did not count.
    let mut doubtful: Vec<Vec<String>> = Vec::new();
    let mut number = 0;
    loop {
        let live = LiveProcess::open_with(&files, until)?;
        let bytes = bytes_of(&live);
        if wanted.is_sampled || bytes > wanted.limit {
            let mut contents = sample::contents(&live, &threads::of(&live, pid, None), bytes, wanted, &open);
            (contents.process, contents.taken, contents.readings) = (subject, millis(SystemTime::now()), 1);
            return Ok(contents);
        }
        // Words that are there before and after a stop were there during it.
        let mut kernel = match wanted.how {
            ReadMode::Running => HandedBack::default(),
            ReadMode::Stopped => handed_back(pid).unwrap_or_default(),
        };
        let space = room.take().unwrap_or_else(|| room_for(&live));
        let (live, threads, copy, stopped) = match wanted.how {
            ReadMode::Running => (live, None, None, None),
            ReadMode::Stopped => {
                // Files are opened now, because none is opened while the process is stopped.
                live.mappings().iter().filter(|one| one.inode != 0).for_each(|one| drop(open(one)));
                let begun = Instant::now();
                let stopped = StoppedProcess::stop(pid)?;
                files.stop();
                let live = LiveProcess::open_with(&files, until)?;
                let threads = threads::of(&live, pid, Some(&stopped));
                (live, Some(threads), Some((begun, stopped)), Some(0))
            }
        };
        let threads = threads.unwrap_or_else(|| threads::of(&live, pid, None));
        let runs = threads.iter().any(|thread| thread.stack.is_none());
        let copied = copy::whole(&live, space);
        files.go_on();
        let stopped = match stopped.and(copy) {
            None => None,
            Some((begun, stopped)) => {
                stopped.go_on()?;
                Some(begun.elapsed().as_micros() as u64)
            }
        };
        let after = handed_back(pid).unwrap_or_default();
        kernel.epoll.extend(after.epoll);
        kernel.timers.extend(after.timers);
        kernel.pipes = after.pipes;
        if !ProcessSubject::of(pid).ok_or(ProcessTrouble::Gone(pid))?.is_same(&subject) {
            return Err(ProcessTrouble::Changed(pid));
        }
        let mut reading = Snapshot::of(&copied, threads, &open);
        reading.add_kernel(&kernel);
        // If two readings have the same doubts, the cause is not a heap that changes, and a third reading would have them too. But a
        // missing page can be a page that was just freed.
        let doubts = reading.doubts();
        let moves = stopped.is_none() && (copied.missing > 0 || !doubtful.contains(doubts));
        if !doubts.is_empty() && moves && doubtful.len() < DOUBTFUL && !is_late() {
            doubtful.push(doubts.clone());
            drop(reading);
            room = Some(copied.into_room());
            continue;
        }
        number += 1;
        let mut reach = reading.reach();
        let before = earlier.as_ref().map(Vec::len);
        if let Some(earlier) = &earlier {
            leaks::agree(&copied, reading.blocks(), &mut reach, earlier, &reading.links);
        }
        let found = leaks::candidates(&copied, reading.blocks(), &reach);
        let agreed = stopped.is_some() || found.is_empty() || before == Some(found.len());
        if agreed || number == READINGS || is_late() {
            if !agreed && number == 1 {
                reading.doubt(
                    "there was no time for a second reading, which has to agree: --timeout gives it more".into(),
                );
            }
            let mut contents = reading.contents(reach, wanted, &budget, &open);
            (contents.process, contents.taken, contents.readings) = (subject, millis(SystemTime::now()), number);
            contents.stopped = stopped;
            if !agreed && number > 1 {
                contents.problems.push(format!("the heap moves: {number} readings do not agree on what is leaked; --freeze stops the process for one"));
            }
            return Ok(contents);
        }
        earlier = Some(found);
        if runs {
            std::thread::sleep(APART);
        }
        drop(reading);
        room = Some(copied.into_room());
    }
}

/// The time between two readings of a process whose threads run. A thread that waits for a processor still has the same block in a register
/// in this time.
const APART: Duration = Duration::from_millis(20);

/// The most readings that do not count because the heap changed during the walk. With mimalloc, whose lists of free blocks are read while
/// they change, one reading in three is good.
const DOUBTFUL: usize = 16;

/// Reads a core file. Its memory does not change, so one reading is enough to find leaks.
pub fn take_core(path: &Path, wanted: &ContentsRequest, time: Duration) -> Result<Contents, ProcessTrouble> {
    let budget = Budget::of(time);
    let core =
        CoreFile::open(path, budget.until()).map_err(|error| ProcessTrouble::Core { path: path.into(), error })?;
    let open = |mapping: &Mapping| core.file(mapping);
    let (threads, bytes) = (threads::of_core(&core), bytes_of(&core));
    let mut contents = if wanted.is_sampled || bytes > wanted.limit {
        sample::contents(&core, &threads, bytes, wanted, &open)
    } else {
        let copied = copy::whole(&core, room_for(&core));
        let mut reading = Snapshot::of(&copied, threads, &open);
        if core.missing > 0 {
            reading.doubt(
                "the core is truncated, and what points to the blocks may be in the part that is missing".into(),
            );
        }
        let reach = reading.reach();
        reading.contents(reach, wanted, &budget, &open)
    };
    let subject = ProcessSubject {
        pid: core.pid,
        name: core.name.clone().into(),
        executable: core.executable.clone().into(),
        started: core.written,
        threads: core.threads().len() as u64,
        ..ProcessSubject::default()
    };
    (contents.process, contents.taken, contents.readings) = (subject, core.written * 1000, 1);
    contents.core = Some(CoreState { missing: core.missing, absent_files: core.absent_files() });
    Ok(contents)
}

/// Milliseconds since 1970.
fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
