//! Watches a program from outside. In: the time that passes. Out: the most that it used, and its memory over time.
//!
//! A sample costs this command some 20 microseconds for each process. The pause after it is a hundred times its cost, so that at most 1 %
//! of a core is spent.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::divided::{ProgramReadings, divided};
use super::huge_pages::HugePageUse;
use super::runtimes;
use super::tree::{self, Details, PartColumns, TreeSizes};
use allocanary_rows::program::OverTime;
use allocanary_sys::clocks::thread_cpu_time;

/// The share of a core that watching may cost: one in this many.
const ONE_IN: u32 = 100;
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(100);
/// A program is loaded after this many samples, or after this time.
const ENOUGH: u32 = 4;
pub(super) const LOADED: Duration = Duration::from_millis(10);
/// A program with less resident memory is still being loaded.
pub(super) const LEAST_PARTS: u64 = 1 << 20;

/// What a program uses.
pub struct ProgramUse {
    /// Commands of ours that run next to it.
    pub others: BTreeSet<u32>,
    started: Instant,
    members: Vec<u32>,
    /// The last sum of all processes.
    pub now: TreeSizes,
    /// The most of each sample since the last [`ProgramUse::forget`].
    most: TreeSizes,
    /// The most resident memory of one process before that.
    before: u64,
    /// The most resident memory since the start.
    pub peak: u64,
    /// The process that had the most, and how much.
    pub biggest: (u32, u64),
    /// The program of that process.
    pub biggest_name: String,
    /// What the kernel says of the huge pages of that process.
    pub huge_pages: HugePageUse,
    /// Whether [`HugePageUse::unadvised`] is read.
    pub reads_advice: bool,
    /// Whether the parts of the memory are kept whenever it has grown: for a program that ends, and is never idle.
    pub keeps_parts: bool,
    /// These parts, and the resident memory when they were read.
    parts: Option<(u64, PartColumns)>,
    /// The time that reading them took.
    parts_cost: Duration,
    /// Readings that also analyse the heap.
    pub walks: ProgramReadings,
    /// The library whose mapping is searched for.
    pub library: Option<PathBuf>,
    /// Whether the process with the most memory has mapped it. `None` if nobody looked.
    pub mapped: Option<bool>,
    /// The runtime whose settings are read back.
    pub runtime: Option<runtimes::ProgramRuntime>,
    /// The process with the most memory, as its runtime sees it.
    pub runtime_seen: Option<runtimes::RuntimeView>,
    over_time: Steps,
    samples: u32,
    /// How many samples found a process, and when the last one did.
    looks: u32,
    seen: Duration,
    /// The time of the next sample.
    next: Instant,
}

impl ProgramUse {
    /// Watches a program from its start.
    pub fn of(root: u32) -> ProgramUse {
        let now = Instant::now();
        ProgramUse {
            others: BTreeSet::new(),
            started: now,
            members: vec![root],
            now: TreeSizes::default(),
            most: TreeSizes::default(),
            before: 0,
            peak: 0,
            biggest: (root, 0),
            biggest_name: String::new(),
            huge_pages: HugePageUse::default(),
            reads_advice: false,
            keeps_parts: false,
            parts: None,
            parts_cost: Duration::ZERO,
            walks: ProgramReadings::default(),
            library: None,
            mapped: None,
            runtime: None,
            runtime_seen: None,
            over_time: Steps::default(),
            samples: 0,
            looks: 0,
            seen: Duration::ZERO,
            next: now,
        }
    }

    /// The time until the next sample.
    pub fn pause(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Takes a sample if it is time.
    pub fn sample(&mut self) {
        if Instant::now() >= self.next {
            self.look();
        }
    }

    /// Takes a sample now. Every eighth looks for new processes.
    fn look(&mut self) {
        let before = thread_cpu_time();
        if self.samples % 8 == 2 || self.members.is_empty() {
            self.members = tree::members(&self.others);
        }
        self.samples = self.samples.wrapping_add(1);
        let mut sum = TreeSizes::default();
        self.members.retain(|pid| {
            let Some(sizes) = TreeSizes::of(*pid) else { return false };
            if sizes.most > self.biggest.1 {
                self.biggest = (*pid, sizes.most);
            }
            if *pid == self.biggest.0 {
                self.huge_pages.any = sizes.huge_pages.or(self.huge_pages.any);
            }
            sum = sum.and(sizes);
            true
        });
        // The loader maps it some time after the start. Later samples look for it seldom, because each look reads all mappings.
        if self.mapped != Some(true)
            && (self.samples < 64 || self.samples.is_multiple_of(64))
            && let Some(library) = &self.library
        {
            self.mapped = tree::has_mapped(self.biggest.0, library).or(self.mapped);
        }
        if self.samples < 64 || self.samples.is_multiple_of(64) {
            self.read_runtime();
        }
        // The process may have become another program meanwhile.
        let name = tree::program(self.biggest.0);
        if let Some(name) = name {
            self.biggest_name = name;
        }
        if sum.processes > 0 {
            self.looks = self.looks.saturating_add(1);
            self.seen = self.started.elapsed();
            self.now = sum;
            self.most = self.most.or(sum);
            self.peak = self.peak.max(sum.rss).max(sum.most);
            self.over_time.add(self.started.elapsed(), sum.rss);
        }
        // A sample that searches for processes costs more, so a longer pause follows it.
        let cost = thread_cpu_time() - before;
        self.next = Instant::now() + (cost * ONE_IN).clamp(SHORTEST, LONGEST);
        // Reading the parts costs as much as many samples, and the program cannot map memory meanwhile. So the memory must have grown by a
        // tenth since the last reading, and all readings may cost what samples may. A program that ends at once has none.
        let last = self.parts.as_ref().map_or(LEAST_PARTS, |(rss, _)| *rss);
        let may = self.parts_cost * ONE_IN <= self.started.elapsed();
        if self.keeps_parts && may && sum.rss > last + last / 10 {
            let before = thread_cpu_time();
            if let Some(parts) = tree::parts(&self.members) {
                self.parts = Some((sum.rss, parts));
            }
            self.read_advice();
            self.parts_cost += thread_cpu_time() - before;
        }
        if self.keeps_parts {
            self.walks.step(&self.members, sum.rss, self.started.elapsed());
        }
    }

    /// Reads all processes completely, including values that are slow to read.
    pub fn read(&mut self) -> (TreeSizes, Details) {
        self.members = tree::members(&self.others);
        self.look();
        self.read_advice();
        self.read_runtime();
        let all = self.members.iter().filter_map(|pid| Details::of(*pid));
        (self.now, all.reduce(Details::and).unwrap_or_default())
    }

    /// Reads the settings that the runtime of the process with the most memory was given, and those in force. They may change later.
    fn read_runtime(&mut self) {
        if let Some(found) = &self.runtime {
            let seen = runtimes::RuntimeView::read(self.biggest.0, found);
            self.runtime_seen = seen.or(self.runtime_seen.take());
        }
    }

    /// Reads whether memory without advice may get huge pages, in the process that had the most memory.
    fn read_advice(&mut self) {
        if self.reads_advice {
            self.huge_pages.read_advice(self.biggest.0);
        }
    }

    /// The parts that were kept, when the program has ended. They have an analysed heap if that reading was of at least half of the peak.
    /// Otherwise they are by kind of mapping, if those were read near the peak. Otherwise they are of a smaller analysed heap, if there is
    /// one. A program that grew fast, or on a busy machine, may have none.
    pub fn parts_near_peak(&mut self) -> Option<PartColumns> {
        let peak = self.peak;
        let is_of = move |least: u64| move |(rss, _): &(u64, PartColumns)| *rss >= least;
        let walked = self.walks.end();
        let kinds = self.parts.take().filter(is_of(peak - peak / 5));
        let (of_half, less) =
            if walked.as_ref().is_some_and(is_of(peak / 2)) { (walked, None) } else { (None, walked) };
        of_half.or(kinds).or(less).map(|(_, parts)| parts)
    }

    /// The parts of the memory of all processes now; `None` if one of them may not be read.
    pub fn parts_now(&self) -> Option<PartColumns> {
        divided(&self.members).or_else(|| tree::parts(&self.members))
    }

    /// Forgets the largest sizes, except the peak, when another part of the run begins.
    pub fn forget(&mut self) {
        self.most = self.now;
        self.before = self.now.most;
    }

    /// The largest sizes since the last [`ProgramUse::forget`].
    ///
    /// A short peak lies between two samples, but the kernel keeps the highest resident memory of each process. At that peak, files have at
    /// most the bytes of the largest sample, and the rest is RssAnon. Several processes may have had their peaks at different times, so for
    /// them only the largest sum of a sample is used.
    pub fn most(&self) -> TreeSizes {
        let is_known = self.most.processes == 1 && self.most.most > self.before;
        let anon = self.most.most.saturating_sub(self.most.files);
        TreeSizes { anon: if is_known { self.most.anon.max(anon) } else { self.most.anon }, ..self.most }
    }

    /// Whether its sizes are known. The first samples see a program while it is loaded: if it ends within 2 ms, they show 12 KiB of the 1.5
    /// MiB that it used.
    pub fn is_known(&self) -> bool {
        self.looks >= ENOUGH || self.seen >= LOADED
    }

    /// The processes that are alive.
    pub fn alive(&mut self) -> &[u32] {
        self.members = tree::members(&self.others);
        self.members.retain(|pid| TreeSizes::of(*pid).is_some());
        &self.members
    }

    /// The memory over time.
    pub fn over_time(&self) -> OverTime {
        self.over_time.over_time()
    }
}

/// The highest resident memory in each of at most [`MOST_STEPS`] steps. When there would be more, each step becomes twice as long.
#[derive(Debug)]
struct Steps {
    every: Duration,
    rss: Vec<u64>,
}

/// The steps that a row keeps.
const MOST_STEPS: usize = 100;

impl Default for Steps {
    fn default() -> Steps {
        Steps { every: Duration::from_millis(2), rss: Vec::new() }
    }
}

impl Steps {
    fn add(&mut self, at: Duration, rss: u64) {
        let step = |every: Duration| (at.as_nanos() / every.as_nanos().max(1)) as usize;
        while step(self.every) >= MOST_STEPS {
            self.rss = self.rss.chunks(2).map(|pair| pair.iter().copied().max().unwrap_or(0)).collect();
            self.every *= 2;
        }
        let at = step(self.every);
        // Nothing is known between two samples, so the last one goes on.
        let last = self.rss.last().copied().unwrap_or(0);
        if self.rss.len() <= at {
            self.rss.resize(at + 1, last);
            self.rss[at] = rss;
        } else {
            self.rss[at] = self.rss[at].max(rss);
        }
    }

    fn over_time(&self) -> OverTime {
        OverTime {
            every_us: self.every.as_micros() as u64,
            resident_kib: self.rss.iter().map(|bytes| bytes / 1024).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_as_many_steps_as_a_short_one_and_its_most() {
        let mut steps = Steps::default();
        for ms in 0..10_000 {
            let rss = if ms == 4321 { 999 } else { ms / 100 };
            steps.add(Duration::from_millis(ms), rss * 1024);
        }
        let found = steps.over_time();
        assert!(found.resident_kib.len() > MOST_STEPS / 2 && found.resident_kib.len() <= MOST_STEPS);
        assert_eq!(found.resident_kib.iter().max(), Some(&999));
        let end = found.every_us * found.resident_kib.len() as u64;
        assert!((9_900_000..=10_400_000).contains(&end), "{end}");
    }

    #[test]
    fn a_peak_between_two_samples_is_seen_where_it_can_be_told() {
        let mut watch = ProgramUse::of(std::process::id());
        let now = TreeSizes { rss: 50, most: 60, anon: 40, files: 10, processes: 1, ..TreeSizes::default() };
        (watch.now, watch.most) = (now, now);
        assert_eq!(watch.most(), TreeSizes { anon: 50, ..now }, "the highest without the files");
        watch.forget();
        assert_eq!(watch.most(), now, "what was highest before is forgotten");
        watch.most = now.or(TreeSizes { most: 61, ..now });
        assert_eq!(watch.most().anon, 51, "it has risen since");
        watch.most = now.or(TreeSizes { most: 61, files: 30, ..now });
        assert_eq!(watch.most().anon, 40, "files may have been most of it");
        watch.most = now.and(TreeSizes { most: 90, ..now });
        assert_eq!(watch.most().anon, 80, "two processes may have been highest at different times");
    }

    #[test]
    fn parts_count_near_the_peak_and_those_with_a_divided_heap_from_half_of_it_on() {
        let parts = |name| vec![(name, 1)];
        let found = |kinds: Option<u64>, walked: Option<u64>| {
            let mut watch = ProgramUse::of(std::process::id());
            (watch.peak, watch.parts) = (100, kinds.map(|rss| (rss, parts("kinds"))));
            watch.walks = ProgramReadings::of(walked.map(|rss| (rss, parts("walked"))));
            watch.parts_near_peak().map(|parts| parts[0].0)
        };
        assert_eq!((found(Some(79), None), found(Some(80), None)), (None, Some("kinds")));
        assert_eq!((found(Some(99), Some(49)), found(Some(99), Some(50))), (Some("kinds"), Some("walked")));
        assert_eq!(found(Some(79), Some(7)), Some("walked"), "better than nothing: its size is told");
    }

    #[test]
    fn what_is_not_known_between_two_samples_is_as_before() {
        let mut steps = Steps::default();
        steps.add(Duration::ZERO, 4096);
        steps.add(Duration::from_millis(7), 8192);
        assert_eq!(steps.over_time().resident_kib, [4, 4, 4, 8]);
    }
}
