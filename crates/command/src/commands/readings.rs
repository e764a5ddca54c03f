//! Readings of processes, for several verbs. In: a reading, or why there is none. Out: a reading with less in it.

use std::time::Duration;

use allocanary_heap::reader::Cost;
use allocanary_heap::{HeapMap, ProcessTrouble, Reading};

/// The time for reading each process of `allocanary PROCESS`. If a heap cannot be read in this time, it is reported as one part.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// For a process that costs too much, returns a reading that has only the kernel's counts and the reason.
pub fn or_unread(pid: u32, read: Result<Reading, ProcessTrouble>) -> Result<Reading, ProcessTrouble> {
    let Err(ProcessTrouble::Costly { cost, .. }) = read else { return read };
    let hint = match cost {
        Cost::Time(_) => "; --timeout gives it more",
        Cost::Memory(_) => "; --reader-memory allows more",
        Cost::Rights | Cost::Ended(_) => "",
    };
    Reading::unread(pid, format!("heap not analysed: {cost}{hint}"))
}

/// A copy without the map, which is for the page.
pub fn without_map(reading: &Reading) -> Reading {
    let mut reading = reading.clone();
    reading.heaps.iter_mut().for_each(|heap| heap.map = HeapMap::default());
    reading
}
