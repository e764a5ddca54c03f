//! An allocator's own counters, read from a live process.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;

use allocanary_process::{ProcFile, open};
use allocanary_sys::sys::page_bytes;
pub use allocanary_walkers::counters::{AllocatorCounters, CounterPlace, MemoryReader, locate};

use crate::states::WORD_PRESENT;
use crate::{LiveProcess, ProcessTrouble};

/// Runs [`locate`] on a live process.
pub fn locate_in(pid: u32, until: Option<std::time::Instant>) -> Result<Vec<CounterPlace>, ProcessTrouble> {
    LiveProcess::open_until(pid, until).map(|live| locate(&live))
}

/// A live process. Only present pages are copied: reading another page would load it from swap, or make a new page.
#[derive(Debug)]
pub struct Remote {
    memory: fs::File,
    pagemap: fs::File,
}

impl Remote {
    /// Opens a process. The error is the kernel's.
    pub fn open(pid: u32) -> io::Result<Remote> {
        Ok(Remote { memory: open(pid, ProcFile::Mem)?, pagemap: open(pid, ProcFile::Pagemap)? })
    }

    /// Whether every page of a range is present.
    fn is_present(&self, from: u64, to: u64) -> bool {
        let bytes = page_bytes();
        let (first, last) = (from / bytes, to.saturating_sub(1) / bytes);
        (first..=last).all(|page| {
            let mut word = [0; 8];
            let read = self.pagemap.read_exact_at(&mut word, page.saturating_mul(8));
            read.is_ok() && u64::from_le_bytes(word) & WORD_PRESENT != 0
        })
    }
}

impl MemoryReader for Remote {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let Some(end) = at.checked_add(into.len() as u64) else { return false };
        self.is_present(at, end) && self.memory.read_exact_at(into, at).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::PAGE;
    use allocanary_testing::programs::{Running, compiled_text};

    /// A program with a block that has its own pages, a heap, and a second arena. Then it waits.
    const PROGRAM: &str = r#"#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char *volatile last; /* otherwise the compiler leaves the blocks out */
static void *take(void *count) {
    for (long at = 0; at < (long) count; at++) memset(last = malloc(1000), 1, 1000);
    return NULL;
}
int main(void) {
    memset(last = malloc(64 << 20), 1, 64 << 20);
    take((void *) 1000);
    pthread_t thread;
    pthread_create(&thread, NULL, take, (void *) 500);
    pthread_join(thread, NULL);
    puts("ready=1");
    fflush(stdout);
    getchar();
}"#;

    #[test]
    fn the_counters_of_a_process_are_what_a_walk_finds() {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = compiled_text(folder.path(), "arenas.c", PROGRAM, &["-O1", "-pthread"]) else { return };
        let mut program = Running::start(&mut Command::new(program));
        assert_eq!(program.counts()["ready"], 1);
        let pid = program.pid();
        let places = locate_in(pid, None).unwrap();
        let Some(CounterPlace::Glibc(_)) = places.first() else {
            return allocanary_testing::skipped::skipped("a program here has no glibc that is known");
        };
        let counters = places[0].read(&Remote::open(pid).unwrap()).unwrap();
        let mmapped = counters.mmapped.unwrap();
        assert!((64 << 20..65 << 20).contains(&mmapped) && counters.arenas == 2, "{counters:?}");
        let reading = crate::take(pid, crate::ReadMode::Running, std::time::Duration::MAX).unwrap();
        let heap = reading.heaps.iter().find(|heap| heap.allocator == "glibc").unwrap();
        // What has no address is no arena: the blocks that have their own pages.
        let walked = heap.arenas.iter().filter(|arena| arena.at != 0).count() as u64;
        assert_eq!(walked, 2, "{:?}", heap.arenas);
        let mapped = counters.mapped.unwrap();
        assert!(heap.resident > mmapped + 1_500_000 && heap.resident <= mapped, "{counters:?} and {}", heap.resident);
        let text = serde_json::to_string(&places).unwrap();
        assert_eq!(serde_json::from_str::<Vec<CounterPlace>>(&text).unwrap(), places);
    }

    #[test]
    fn what_was_never_touched_is_not_touched() {
        let memory = vec![0_u8; 80 << 20];
        let at = (memory.as_ptr() as u64).next_multiple_of(PAGE) + 40 * PAGE;
        let remote = Remote::open(std::process::id()).unwrap();
        assert_eq!(remote.word(at), None);
        assert!(!remote.is_present(at, at + 8), "it was not made by the question");
        assert_eq!(remote.word(u64::MAX - 4), None);
    }
}
