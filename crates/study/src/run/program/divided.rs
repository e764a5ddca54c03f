//! What a program's heaps consist of. In: its processes. Out: resident bytes by what they are for, as columns of a row.
//!
//! Their memory is read from outside and nothing is stopped for it. One reading takes milliseconds, so a thread does it, and sampling goes
//! on meanwhile. A program that ends is read when it has grown, as long as all readings of its candidate together take at most 1 % of a
//! core: the largest one of a run is kept. Short runs save up for one reading. A service is read once, when it is idle.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::tree::Parts;
use allocanary_heap::{How, Part, Reading, Sort, Sure, Trouble, take};
use allocanary_kernel::clocks::thread_cpu_time;

/// The time for one reading of all processes.
const TIME: Duration = Duration::from_secs(5);
/// The share of a core that readings may take: one in this many.
const ONE_IN: u32 = 100;
/// What a reading is expected to take before there was one: for each process, and for a GiB.
const EXPECTED: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(350));
/// A program that is smaller is still being loaded.
const LEAST: u64 = 1 << 20;

/// The columns. The first four are the kinds of mappings, and the others divide the third, the heap.
const NAMES: [&str; 14] = [
    "program_bytes",
    "stack_bytes",
    "heap_rss_bytes",
    "other_bytes",
    "walked_live_bytes",
    "walked_cached_bytes",
    "walked_free_bytes",
    "walked_kept_bytes",
    "walked_structure_bytes",
    "walked_padding_bytes",
    "walked_lazy_bytes",
    "walked_unknown_bytes",
    "walked_runtime_bytes",
    "walked_mapped_bytes",
];

/// The parts of all processes now; `None` if one of them may not be read, or nothing of their heaps could be divided.
pub fn divided(members: &[u32]) -> Option<Parts> {
    let until = Instant::now() + TIME;
    let mut sum = [0; NAMES.len()];
    let mut is_divided = false;
    for pid in members {
        let reading = match take(*pid, How::Running, until.saturating_duration_since(Instant::now())) {
            Ok(reading) => reading,
            // A helper that has ended has no memory any more.
            Err(Trouble::Gone(_)) => continue,
            Err(_) => return None,
        };
        is_divided |= reading.heaps.iter().any(|heap| heap.sure != Sure::NotKnown);
        sum.iter_mut().zip(columns(&reading)).for_each(|(sum, bytes)| *sum += bytes);
    }
    is_divided.then(|| NAMES.into_iter().zip(sum).collect())
}

/// The columns of one process, in the order of [`NAMES`].
fn columns(reading: &Reading) -> [u64; NAMES.len()] {
    let area =
        |sort: Sort| reading.areas.iter().filter(|area| area.sort == sort).map(|area| area.resident).sum::<u64>();
    let parts = reading.parts();
    // Memory of which nobody knows what it is was mapped by the program itself, unless there is a heap that was not found.
    let (mapped, missed) = match reading.problems.is_empty() {
        true => (area(Sort::Unknown), 0),
        false => (0, area(Sort::Unknown)),
    };
    let runtime = area(Sort::Runtime);
    [
        area(Sort::Program),
        area(Sort::Stacks),
        parts.sum() + runtime + mapped + missed,
        area(Sort::Files) + area(Sort::Shared),
        parts.of(Part::Live),
        parts.of(Part::Cached),
        parts.of(Part::Free),
        parts.of(Part::Kept),
        parts.of(Part::Structures),
        parts.of(Part::Padding),
        parts.of(Part::Lazy),
        parts.of(Part::Unknown) + missed,
        runtime,
        mapped,
    ]
}

/// Readings of a program that ends, while it runs.
#[derive(Default)]
pub struct Walks {
    /// The one of the most memory, with the resident memory when it began.
    largest: Option<(u64, Parts)>,
    /// Processor time of all readings.
    cost: Duration,
    /// The resident memory of the last one, and its processor time.
    last: Option<(u64, Duration)>,
    /// The one that is being made.
    now: Option<JoinHandle<Walked>>,
    /// Time of the candidate's earlier runs, less a hundred times what reading took in them.
    pub saved: Duration,
}

/// A reading that was made.
struct Walked {
    rss: u64,
    parts: Option<Parts>,
    cost: Duration,
}

impl Walks {
    #[cfg(test)]
    pub fn of(largest: Option<(u64, Parts)>) -> Walks {
        Walks { largest, ..Walks::default() }
    }

    /// Begins a reading if one of so much resident memory is worth it, and may be made so long after the program's start.
    pub fn step(&mut self, members: &[u32], rss: u64, elapsed: Duration) {
        if self.now.as_ref().is_some_and(|now| !now.is_finished()) {
            return;
        }
        self.collect();
        if !self.may(members.len(), rss, elapsed) {
            return;
        }
        let members = members.to_vec();
        let work = move || {
            let parts = divided(&members);
            Walked { rss, parts, cost: thread_cpu_time() }
        };
        // Without a thread there is no reading.
        self.now = std::thread::Builder::new().name("heap".into()).spawn(work).ok();
    }

    /// Whether a reading is worth it, and all of them take at most 1 % of a core then.
    fn may(&self, processes: usize, rss: u64, elapsed: Duration) -> bool {
        let more = |bytes: u64| EXPECTED.1.mul_f64(bytes as f64 / f64::from(1 << 30));
        let expected = match self.last {
            Some((last, cost)) => cost + more(rss.saturating_sub(last)),
            None => EXPECTED.0 * processes as u32 + more(rss),
        };
        let largest = self.largest.as_ref().map_or(LEAST, |(rss, _)| *rss);
        rss > largest + largest / 10 && (self.cost + expected) * ONE_IN <= elapsed + self.saved
    }

    /// Takes the reading that was made.
    fn collect(&mut self) {
        let Some(Ok(walked)) = self.now.take().map(JoinHandle::join) else { return };
        self.cost += walked.cost;
        self.last = Some((walked.rss.max(1), walked.cost));
        if let Some(parts) = walked.parts {
            self.largest = Some((walked.rss, parts));
        }
    }

    /// The largest reading, when the program has ended. One that is being made ends at once: there is nothing more to read.
    pub fn end(&mut self) -> Option<(u64, Parts)> {
        self.collect();
        self.largest.take()
    }

    /// The time that is left for the candidate's next run, if this one took so long.
    pub fn unspent(&self, elapsed: Duration) -> Duration {
        (self.saved + elapsed).saturating_sub(self.cost * ONE_IN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading that was saved: `heaps`, `areas` and `problems` in JSON.
    fn reading(heaps: &str, areas: &str, problems: &str) -> Reading {
        let process = r#"{"pid":1,"parent":0,"name":"a","executable":"/a","started":0,"threads":1}"#;
        let kernel = r#"{"resident":0,"share":0,"anonymous":0,"lazy":0,"swapped":0}"#;
        let text = format!(
            r#"{{"schema":1,"taken":0,"process":{process},"resident":0,"kernel":{kernel},"heaps":[{heaps}],"areas":[{areas}],"problems":[{problems}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn heap(parts: &str) -> String {
        format!(
            r#"{{"allocator":"glibc","version":"","sure":"exact","resident":0,"share":0,"parts":{{{parts}}},"live":0,"blocks":0,"arenas":[],"live_in_a_page":[],"checks":[],"breaks":0,"skipped":0,"swapped":0,"remedies":[]}}"#
        )
    }

    fn area(sort: &str, resident: u64) -> String {
        format!(r#"{{"name":"x","sort":"{sort}","resident":{resident},"share":0,"mappings":1,"how":"","tool":""}}"#)
    }

    #[test]
    fn the_columns_of_the_heap_add_up_to_it() {
        let heaps = [
            heap(r#""live":1,"cached":2,"free":4,"kept":8"#),
            heap(r#""live":16,"structures":32,"padding":64,"lazy":128,"unknown":256"#),
        ];
        let sorts = ["program", "stacks", "files", "shared", "runtime", "unknown"];
        let areas: Vec<String> = sorts.iter().zip(10..).map(|(sort, power)| area(sort, 1 << power)).collect();
        for (problems, unknown, mapped) in [("", 256, 1 << 15), (r#""tcmalloc: no table""#, 256 + (1 << 15), 0)] {
            let found = columns(&reading(&heaps.join(","), &areas.join(","), problems));
            assert_eq!(found[..4], [1 << 10, 1 << 11, 511 + (1 << 14) + (1 << 15), (1 << 12) + (1 << 13)]);
            assert_eq!(found[4..], [17, 2, 4, 8, 32, 64, 128, unknown, 1 << 14, mapped]);
            assert_eq!(found[4..].iter().sum::<u64>(), found[2]);
        }
    }

    #[test]
    fn readings_are_of_a_tenth_more_memory_each_and_take_a_hundredth_of_the_time() {
        let ms = Duration::from_millis;
        let mut walks = Walks::default();
        assert!(!walks.may(1, LEAST, ms(10_000)), "it is still being loaded");
        assert!(!walks.may(1, 2 * LEAST, ms(399)) && walks.may(1, 2 * LEAST, ms(500)));
        assert!(!walks.may(3, 2 * LEAST, ms(500)), "each process takes its time");
        walks.largest = Some((100 << 20, Parts::new()));
        (walks.cost, walks.last) = (ms(30), Some((100 << 20, ms(20))));
        assert!(!walks.may(1, 110 << 20, ms(60_000)));
        // 30 ms so far, 20 as before, and 34 for 100 MiB more.
        assert!(!walks.may(1, 200 << 20, ms(8_400)) && walks.may(1, 200 << 20, ms(8_500)));
        // What earlier runs did not use is added.
        walks.saved = ms(6_000);
        assert!(!walks.may(1, 200 << 20, ms(2_400)) && walks.may(1, 200 << 20, ms(2_500)));
        assert_eq!((walks.unspent(ms(1_000)), walks.unspent(ms(4_000)).as_secs()), (ms(4_000), 7));
    }

    #[test]
    fn the_largest_reading_is_kept_and_one_that_failed_is_not() {
        let mut walks = Walks::default();
        let made = |rss, parts: Option<Parts>| {
            let made = std::thread::spawn(move || Walked { rss, parts, cost: Duration::from_millis(2) });
            Some(made)
        };
        walks.now = made(5, Some(vec![("program_bytes", 1)]));
        walks.collect();
        walks.now = made(9, None);
        assert_eq!(walks.end(), Some((5, vec![("program_bytes", 1)])));
        assert_eq!(walks.cost, Duration::from_millis(4));
    }
}
