//! Reads what the heap of a process contains. In: the number of a live one, or a core file. Out: [`Contents`].
//!
//! It runs on, unless it shall be stopped. Then the leaks of several readings have to agree: one more is made until it takes none away.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use allocanary_heap::{CoreFile, Frozen, How, Live, Mapping, Memory, Subject, Trouble, file_of};

use crate::contents::Contents;
use crate::copy::{Copy, Room, bytes_of};
use crate::leaks::{self, Candidate};
use crate::reading::Reading;
use crate::threads;

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Whether the process is stopped.
    pub how: How,
    /// The most bytes that are copied.
    pub limit: u64,
    /// Whether to tell who holds the blocks.
    pub holders: bool,
}

/// The most readings. In a process whose blocks move fast, each one leaves a hundredth of what is false in the one before.
const READINGS: u32 = 8;

/// Reads a process, at most for a time.
pub fn take(pid: u32, wanted: &Wanted, time: Duration) -> Result<Contents, Trouble> {
    let until = Instant::now().checked_add(time);
    let subject = Subject::of(pid).ok_or(Trouble::Gone(pid))?;
    let open = |mapping: &Mapping| file_of(pid, mapping).ok();
    let mut earlier: Option<Vec<Candidate>> = None;
    let mut room: Option<Room> = None;
    let mut doubtful = 0;
    for number in 1.. {
        let live = Live::open_until(pid, until)?;
        check(&live, wanted.limit, &format!("process {pid}"))?;
        let space = room.take().unwrap_or_else(|| Room::for_all_of(&live));
        let (live, threads, copy, stopped) = match wanted.how {
            How::Running => (live, None, None, None),
            How::Stopped => {
                let begun = Instant::now();
                let frozen = Frozen::stop(pid)?;
                let live = Live::open_until(pid, until)?;
                let threads = threads::of(&live, pid, true);
                (live, Some(threads), Some((begun, frozen)), Some(0))
            }
        };
        let threads = threads.unwrap_or_else(|| threads::of(&live, pid, false));
        let runs = threads.iter().any(|thread| thread.stack.is_none());
        let copied = Copy::of(&live, space);
        let stopped = stopped.and(copy).map(|(begun, frozen)| {
            drop(frozen);
            begun.elapsed().as_micros() as u64
        });
        if !Subject::of(pid).ok_or(Trouble::Gone(pid))?.is_same(&subject) {
            return Err(Trouble::Changed(pid));
        }
        let reading = Reading::of(&copied, threads, &open);
        if reading.is_doubtful() && stopped.is_none() && doubtful < DOUBTFUL {
            doubtful += 1;
            drop(reading);
            room = Some(copied.into_room());
            continue;
        }
        let mut reach = reading.reach();
        let before = earlier.as_ref().map(Vec::len);
        if let Some(earlier) = &earlier {
            leaks::agree(&copied, &reading.blocks, &mut reach, earlier, &reading.links);
        }
        let found = leaks::candidates(&copied, &reading.blocks, &reach);
        let agreed = stopped.is_some() || found.is_empty() || before == Some(found.len());
        if agreed || number == READINGS || live.is_late() {
            let mut contents = reading.contents(&reach, wanted.holders, &open);
            contents.taken = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
            (contents.process, contents.stopped, contents.readings) = (subject, stopped, number);
            if !agreed {
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
    unreachable!("the last reading returns")
}

/// The time between two readings of a process whose threads run: one that waits for a processor has the same block in a register meanwhile.
const APART: Duration = Duration::from_millis(20);

/// The readings that are made again because the heap changed under the walk.
const DOUBTFUL: u32 = 3;

/// Reads a core file. It does not move: one reading tells what is leaked.
pub fn take_core(path: &Path, wanted: &Wanted, time: Duration) -> Result<Contents, Trouble> {
    let until = Instant::now().checked_add(time);
    let core = CoreFile::open(path, until).map_err(|error| Trouble::Core { path: path.into(), error })?;
    check(&core, wanted.limit, &path.display().to_string())?;
    let open = |mapping: &Mapping| core.file(mapping);
    let copied = Copy::of(&core, Room::for_all_of(&core));
    let mut reading = Reading::of(&copied, threads::of_core(&core), &open);
    if core.missing > 0 {
        reading.doubt(format!("the core is truncated: {} bytes of it are missing", core.missing));
    }
    let reach = reading.reach();
    let mut contents = reading.contents(&reach, wanted.holders, &open);
    let written = std::fs::metadata(path).and_then(|found| found.modified()).unwrap_or(UNIX_EPOCH);
    contents.taken = written.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    contents.readings = 1;
    contents.process = Subject {
        pid: core.pid,
        name: core.name.clone(),
        executable: core.executable.clone(),
        started: contents.taken / 1000,
        threads: core.threads().len() as u64,
        ..Subject::default()
    };
    Ok(contents)
}

/// Refuses what is larger than the limit.
fn check(memory: &dyn Memory, limit: u64, whose: &str) -> Result<(), Trouble> {
    match bytes_of(memory) {
        bytes if bytes > limit => Err(Trouble::Told(format!(
            "{whose}: {bytes} bytes would have to be copied, and the limit is {limit}: --limit allows more"
        ))),
        _ => Ok(()),
    }
}
