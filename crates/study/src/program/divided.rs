//! What a program's heaps consist of. In: its processes. Out: resident bytes by what they are for, as columns of a row.
//!
//! Memory is read from outside, and no process is stopped. One reading takes milliseconds, so a thread makes it, and sampling goes on
//! meanwhile. A program that ends is read when its [`Schedule`] allows it, and the largest reading of a run is kept. A service is read
//! once, when it is idle.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::schedule::Schedule;
use super::tree::PartColumns;
use allocanary_heap::{PartsCertainty, ProcessTrouble, ReadMode, Shares, take_with};
use allocanary_sys::clocks::thread_cpu_time;

/// The time for one reading of all processes.
const TIME: Duration = Duration::from_secs(5);
/// How often a process is read again because it has become another program.
const TRIES: u32 = 3;

/// The parts of all processes now. `None` if one of them may not be read, or if no heap could be analysed.
pub fn divided(members: &[u32]) -> Option<PartColumns> {
    let until = Instant::now() + TIME;
    let mut sum = allocanary_heap::Parts::default();
    let mut is_divided = false;
    for pid in members {
        let mut again = TRIES;
        let reading = loop {
            break match take_with(
                *pid,
                ReadMode::Running,
                Shares::BySmaps,
                until.saturating_duration_since(Instant::now()),
            ) {
                Ok(reading) => Some(reading),
                // A helper that has ended has no memory any more.
                Err(ProcessTrouble::Gone(_)) => None,
                // For example, a shell has started the program in its own place (`exec`).
                Err(ProcessTrouble::Changed(_)) if again > 0 => {
                    again -= 1;
                    continue;
                }
                Err(_) => return None,
            };
        };
        let Some(reading) = reading else { continue };
        is_divided |= reading.heaps.iter().any(|heap| heap.sure != PartsCertainty::NotKnown);
        sum += reading.parts();
    }
    is_divided.then(|| columns(&sum))
}

/// Parts as columns of a row.
pub fn columns(parts: &allocanary_heap::Parts) -> PartColumns {
    parts.iter().map(|(part, bytes)| (part.column(), bytes)).collect()
}

/// Readings of a program that ends, while it runs.
#[derive(Default)]
pub struct ProgramReadings {
    /// The reading with the most resident memory: that memory when the reading began, and the parts.
    largest: Option<(u64, PartColumns)>,
    /// The thread that makes a reading now, if one does.
    now: Option<Reader>,
    /// When the next reading may be made.
    pub schedule: Schedule,
}

/// A reading that was made.
struct Walked {
    rss: u64,
    parts: Option<PartColumns>,
    cost: Duration,
}

/// The thread that makes a reading. Dropping it waits until the thread ends, at most [`TIME`], so that no thread is left behind. If the
/// program has ended, its thread ends at once, because there is nothing more to read.
struct Reader(Option<JoinHandle<Walked>>);

impl Reader {
    /// Begins a reading. `None` if the thread cannot be started.
    fn of(work: impl FnOnce() -> Walked + Send + 'static) -> Option<Reader> {
        let thread = std::thread::Builder::new().name("heap".into()).spawn(work);
        thread.ok().map(|thread| Reader(Some(thread)))
    }

    fn is_reading(&self) -> bool {
        self.0.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Waits for the thread, and returns its reading.
    fn walked(mut self) -> Option<Walked> {
        self.0.take()?.join().ok()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.take().map(JoinHandle::join);
    }
}

impl ProgramReadings {
    #[cfg(test)]
    pub fn of(largest: Option<(u64, PartColumns)>) -> ProgramReadings {
        ProgramReadings { largest, ..ProgramReadings::default() }
    }

    /// Begins a reading if none is being made and the schedule allows one. `rss`: the resident memory now. `elapsed`: the time since the
    /// program's start.
    pub fn step(&mut self, members: &[u32], rss: u64, elapsed: Duration) {
        self.schedule.seen(rss, elapsed);
        if self.now.as_ref().is_some_and(Reader::is_reading) {
            return;
        }
        self.collect();
        if self.schedule.may(members.len(), rss, elapsed) {
            let members = members.to_vec();
            self.now = Reader::of(move || {
                let parts = divided(&members);
                Walked { rss, parts, cost: thread_cpu_time() }
            });
        }
    }

    /// Takes the reading that the thread has made.
    fn collect(&mut self) {
        let Some(walked) = self.now.take().and_then(Reader::walked) else { return };
        self.schedule.read(walked.rss, walked.cost, walked.parts.is_some());
        if let Some(parts) = walked.parts {
            self.largest = Some((walked.rss, parts));
        }
    }

    /// Returns the largest reading. Called when the program has ended.
    pub fn end(&mut self) -> Option<(u64, PartColumns)> {
        self.collect();
        self.largest.take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_largest_reading_is_kept_and_one_that_failed_is_not() {
        let mut walks = ProgramReadings::default();
        let made =
            |rss, parts: Option<PartColumns>| Reader::of(move || Walked { rss, parts, cost: Duration::from_millis(2) });
        walks.now = made(5, Some(vec![("part_files_bytes", 1)]));
        walks.collect();
        walks.now = made(9, None);
        assert_eq!(walks.end(), Some((5, vec![("part_files_bytes", 1)])));
        assert_eq!(walks.schedule.balance(Duration::from_secs(1)), 600_000);
    }

    #[test]
    fn a_reader_that_is_dropped_has_ended() {
        let held = Arc::new(());
        let in_thread = held.clone();
        let reader = Reader::of(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(in_thread);
            Walked { rss: 0, parts: None, cost: Duration::ZERO }
        });
        drop(reader);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
