//! Where the resident memory of an idle process is. In: a row. Out: parts that add up to its resident memory.
//!
//! Two sources are joined. The kernel says how much of each mapping is resident, but not what it is for. The allocator says what its memory
//! is for, but counts addresses, including pages that nobody ever wrote to. So the resident bytes of the allocator's mappings are divided
//! in proportion to its count. If the count is larger than what is resident, the difference was never touched. It is taken in proportion
//! from the parts that can have such pages: a thread does not use all blocks in its cache, pages hold more blocks than are used, and the
//! allocator prepares structures. If the count is smaller, the rest is padding of huge pages, or freed pages if the allocator does not
//! count these (mimalloc). Otherwise it is unexplained.
//!
//! The heap of the user's program is analysed from outside, block by block, so all of its parts are resident. If that is not possible, only
//! the kernel's count is there, and the heap is one part. A program that ends is never idle. Its parts are those of the largest reading, or
//! of a moment near its peak.

use allocanary_rows::Moment;
use allocanary_rows::sample::Measured;
pub use allocanary_text::parts::{PARTS, Part};

/// An anatomy adds up if at most this share of the resident memory is unexplained.
pub const TOLERANCE: f64 = 0.02;

/// The parts of a process's resident memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anatomy {
    /// The moment: idle, or near the peak.
    pub moment: Moment,
    /// Its resident memory at that moment, by the kernel's exact count.
    pub rss: f64,
    /// Its threads, if they are known.
    pub threads: Option<u32>,
    /// What the allocator counts, but nobody ever touched. It is not resident, and in no part.
    pub never_touched: f64,
    /// Whether the allocator counts the blocks in thread caches. If not, [`Part::Cached`] contains them, and also the bytes by which blocks
    /// are larger than the program requested.
    pub caches_are_known: bool,
    /// Whether freed pages are counted. If not, [`Part::FreePages`] is the rest, with the allocator's own tables.
    pub free_pages_are_known: bool,
    /// Whether the use of the heap's memory is known. If not, the heap is in [`Part::Unknown`].
    pub is_divided: bool,
    /// Whether the heap was analysed from outside, block by block.
    pub is_walked: bool,
    /// The most resident memory of a program that ends. The parts are of another moment.
    pub peak: Option<f64>,
    /// What a program's preload counted at its exit, if the heap is not analysed: in blocks, and all that it had.
    pub at_exit: Option<(f64, f64)>,
    /// The resident memory minus the sum of the parts, before this difference was added to [`Part::Unknown`]. It may make that part
    /// negative.
    pub unexplained: f64,
    bytes: [f64; PARTS.len()],
}

impl Anatomy {
    /// The anatomy of a row. `None` if the row lacks the readings.
    pub fn of(answer: &Measured, threads: Option<u32>) -> Option<Anatomy> {
        let has = |moment: &Moment| {
            [Part::Live.column(), "part_files_bytes"].iter().any(|name| answer.reading(name, *moment).is_some())
        };
        let moment = [Moment::Idle, Moment::Peak].into_iter().find(has)?;
        let reading = |name: &str| answer.reading(name, moment).map(|bytes| bytes as f64);
        let part = |name: &str| reading(name).unwrap_or(0.0);
        if reading(Part::Live.column()).is_some() {
            let peak = reading("peak_resident_bytes").filter(|_| moment == Moment::Peak);
            return Some(Anatomy::walked(moment, threads, peak, |of| part(of.column())));
        }
        let (program, stacks, heap) =
            (reading("part_files_bytes")?, part("part_stacks_bytes"), reading("part_unknown_bytes")?);
        let huge = part("part_unknown_huge_bytes").min(heap);
        let held = reading("allocator_live_bytes");
        let caches_are_known = reading("allocator_cached_bytes").is_some();
        let (live, cached) = match held {
            Some(held) if caches_are_known => (held, part("allocator_cached_bytes")),
            // The program knows how many bytes it requested, but not how large its blocks are.
            Some(held) => {
                let asked = (answer.requested(moment).unwrap_or(0) as f64).min(held);
                (asked, held - asked)
            }
            None => (0.0, 0.0),
        };
        // glibc does not know which of its memory is resident.
        let had = reading("allocator_resident_bytes").or(reading("allocator_mapped_bytes"));
        let exit = reading("allocator_allocated_bytes").zip(had);
        let mut found = Anatomy {
            moment,
            rss: program + stacks + heap + part("part_shared_bytes"),
            threads,
            never_touched: 0.0,
            caches_are_known,
            free_pages_are_known: reading("allocator_dirty_bytes").is_some(),
            is_divided: held.is_some(),
            is_walked: false,
            peak: reading("peak_resident_bytes").filter(|_| moment == Moment::Peak),
            at_exit: exit.filter(|_| held.is_none()),
            unexplained: 0.0,
            bytes: [0.0; PARTS.len()],
        };
        for (at, bytes) in [
            (Part::Live, live),
            (Part::Cached, cached),
            (Part::Fragmentation, part("allocator_free_bytes")),
            (Part::FreePages, part("allocator_dirty_bytes")),
            (Part::LazyFree, part("allocator_muzzy_bytes")),
            // Without live bytes, the metadata were counted by a preload at the exit, and so at another moment.
            (Part::Metadata, held.map_or(0.0, |_| part("allocator_metadata_bytes"))),
            (Part::Stacks, stacks),
            (Part::Files, program),
            (Part::Shared, part("part_shared_bytes")),
        ] {
            found.bytes[at as usize] = bytes;
        }
        if found.is_divided {
            found.settle(huge);
        } else {
            found.bytes[Part::Unknown as usize] = heap;
        }
        Some(found)
    }

    /// The parts of processes that were analysed from outside. They are resident, and add up.
    fn walked(moment: Moment, threads: Option<u32>, peak: Option<f64>, of: impl Fn(Part) -> f64) -> Anatomy {
        let bytes = PARTS.map(of);
        Anatomy {
            moment,
            rss: bytes.iter().sum(),
            threads,
            never_touched: 0.0,
            caches_are_known: true,
            free_pages_are_known: true,
            is_divided: true,
            is_walked: true,
            peak,
            at_exit: None,
            unexplained: 0.0,
            bytes,
        }
    }

    /// Changes the parts of the allocator's mappings so that their sum is what is resident of these.
    fn settle(&mut self, huge: f64) {
        let mut too_much = self.sum() - self.rss;
        // First the parts that surely have untouched pages, then those that may have some.
        for parts in [&[Part::Cached, Part::Fragmentation, Part::Metadata][..], &[Part::FreePages, Part::LazyFree]] {
            let whole: f64 = parts.iter().map(|part| self.get(*part)).sum();
            if too_much <= 0.0 || whole <= 0.0 {
                continue;
            }
            let share = (too_much / whole).min(1.0);
            parts.iter().for_each(|part| self.bytes[*part as usize] *= 1.0 - share);
            self.never_touched += share * whole;
            too_much -= share * whole;
        }
        let mut left = self.rss - self.sum();
        if left > 0.0 && huge > 0.0 {
            self.bytes[Part::Padding as usize] = left.min(huge);
            left -= left.min(huge);
        }
        if left > 0.0 && !self.free_pages_are_known {
            self.bytes[Part::FreePages as usize] += left;
        } else {
            self.bytes[Part::Unknown as usize] += left;
            self.unexplained = left;
        }
    }

    /// A part, in bytes. Only [`Part::Unknown`] may be negative.
    pub fn get(&self, part: Part) -> f64 {
        self.bytes[part as usize]
    }

    /// The sum of all parts. It is the resident memory, because [`Part::Unknown`] has the difference.
    pub fn sum(&self) -> f64 {
        self.bytes.iter().sum()
    }

    /// Whether at most 2 % of the resident memory is unexplained.
    pub fn adds_up(&self) -> bool {
        self.unexplained.abs() <= TOLERANCE * self.rss
    }

    /// A part's name in this anatomy.
    pub fn name(&self, part: Part) -> &'static str {
        match part {
            Part::Cached if !self.caches_are_known => "thread caches, rounding",
            Part::FreePages if !self.free_pages_are_known => "free pages, metadata",
            Part::Unknown if !self.is_divided => "heap, not analysed",
            part => part.name(),
        }
    }
}

/// The anatomy with the median resident memory. It is that of a real process, so its parts add up. If some heaps were analysed from
/// outside, it is one of these.
pub fn middle(anatomies: &[Anatomy]) -> Option<Anatomy> {
    let some = anatomies.iter().any(|anatomy| anatomy.is_walked);
    let mut sorted: Vec<&Anatomy> = anatomies.iter().filter(|anatomy| anatomy.is_walked || !some).collect();
    sorted.sort_by(|a, b| a.rss.total_cmp(&b.rss));
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// An idle mark with readings in MiB.
    fn answer(live: u64, readings: &[(&str, u64)]) -> Measured {
        let column = |(name, mebibytes): &(&str, u64)| (name.to_string(), vec![Some(mebibytes * MIB)]);
        Measured {
            moments: vec![Moment::Idle],
            requested_bytes: vec![live * MIB],
            readings: readings.iter().map(column).collect(),
            ..Measured::default()
        }
    }

    fn mebibytes(found: &Anatomy, part: Part) -> f64 {
        found.get(part) / MIB as f64
    }

    #[test]
    fn what_was_never_touched_is_taken_from_the_parts_that_can_have_it() {
        let jemalloc =
            [("part_files_bytes", 3), ("part_stacks_bytes", 1), ("part_unknown_bytes", 76), ("part_shared_bytes", 0)];
        let own = [
            ("allocator_live_bytes", 6),
            ("allocator_cached_bytes", 50),
            ("allocator_free_bytes", 8),
            ("allocator_dirty_bytes", 22),
            ("allocator_metadata_bytes", 6),
        ];
        let found = Anatomy::of(&answer(4, &[&jemalloc[..], &own].concat()), Some(64)).unwrap();
        // 6 + 50 + 8 + 22 + 6 = 92, and 76 are there: a quarter of 64 was never touched.
        assert_eq!(found.never_touched, (16 * MIB) as f64);
        let parts = [
            Part::Live,
            Part::Cached,
            Part::Fragmentation,
            Part::FreePages,
            Part::Metadata,
            Part::Files,
            Part::Unknown,
        ];
        assert_eq!(parts.map(|part| mebibytes(&found, part)), [6.0, 37.5, 6.0, 22.0, 4.5, 3.0, 0.0]);
        assert_eq!((found.sum(), found.rss), ((80 * MIB) as f64, (80 * MIB) as f64));
        assert!(found.adds_up() && found.caches_are_known && found.free_pages_are_known);
    }

    #[test]
    fn huge_pages_and_freed_pages_that_nobody_counts_are_what_is_left() {
        let mimalloc = [
            ("part_files_bytes", 3),
            ("part_unknown_bytes", 100),
            ("allocator_live_bytes", 10),
            ("allocator_free_bytes", 20),
        ];
        let found =
            Anatomy::of(&answer(4, &[&mimalloc[..], &[("part_unknown_huge_bytes", 60)]].concat()), Some(8)).unwrap();
        assert_eq!((mebibytes(&found, Part::Padding), mebibytes(&found, Part::FreePages)), (60.0, 10.0));
        assert!(found.adds_up() && !found.free_pages_are_known && found.name(Part::Cached).contains("rounding"));
    }

    #[test]
    fn more_than_two_percent_unexplained_does_not_add_up() {
        let unexplained = |heap| {
            let readings = [
                ("part_files_bytes", 10),
                ("part_unknown_bytes", heap),
                ("allocator_live_bytes", 50),
                ("allocator_dirty_bytes", 40),
            ];
            Anatomy::of(&answer(50, &readings), Some(1)).unwrap()
        };
        let (exact, just, over) = (unexplained(90), unexplained(92), unexplained(93));
        assert_eq!(mebibytes(&exact, Part::Unknown), 0.0);
        assert_eq!(mebibytes(&just, Part::Unknown), 2.0);
        assert!(exact.adds_up() && just.adds_up() && !over.adds_up());
        // Live blocks were written to: less resident memory than these is no anatomy either.
        let less = unexplained(40);
        assert!(mebibytes(&less, Part::Unknown) == -10.0 && !less.adds_up() && less.sum() == less.rss);
    }

    #[test]
    fn live_bytes_outside_the_allocator_are_not_its() {
        let found = Anatomy::of(
            &answer(30, &[("part_files_bytes", 1), ("part_unknown_bytes", 9), ("allocator_live_bytes", 9)]),
            Some(1),
        );
        assert_eq!(found.map(|found| mebibytes(&found, Part::Live)), Some(9.0));
        assert_eq!(Anatomy::of(&answer(1, &[("resident_bytes", 9)]), Some(1)), None, "no reading of its parts");
    }

    #[test]
    fn a_program_that_is_seen_from_outside_has_a_heap_that_is_not_divided() {
        let seen =
            [("part_files_bytes", 3), ("part_stacks_bytes", 1), ("part_unknown_bytes", 20), ("part_shared_bytes", 2)];
        let mut row = answer(0, &[&seen[..], &[("part_unknown_huge_bytes", 6)]].concat());
        for moment in [Moment::Idle, Moment::Peak] {
            row.moments = vec![moment];
            let found = Anatomy::of(&row, None).unwrap();
            assert_eq!((found.moment, found.sum(), found.rss), (moment, (26 * MIB) as f64, (26 * MIB) as f64));
            assert_eq!((mebibytes(&found, Part::Unknown), mebibytes(&found, Part::Padding)), (20.0, 0.0));
            let name = found.name(Part::Unknown);
            assert!(found.adds_up() && found.get(Part::Live) == 0.0 && name == "heap, not analysed");
        }
        assert_eq!(Anatomy::of(&row, None).unwrap().at_exit, None);
        for (name, mebibytes) in [("allocator_allocated_bytes", 5), ("allocator_mapped_bytes", 9)] {
            row.readings.insert(name.into(), vec![Some(mebibytes * MIB)]);
        }
        assert_eq!(Anatomy::of(&row, None).unwrap().at_exit, Some(((5 * MIB) as f64, (9 * MIB) as f64)));
        row.moments = vec![Moment::Start];
        assert_eq!(Anatomy::of(&row, None), None);
    }

    #[test]
    fn a_program_whose_heap_was_divided_from_outside_has_its_parts() {
        let parts = [
            ("part_files_bytes", 3),
            ("part_stacks_bytes", 1),
            ("part_shared_bytes", 2),
            ("part_live_bytes", 10),
            ("part_cached_bytes", 1),
            ("part_fragmentation_bytes", 2),
            ("part_free_pages_bytes", 3),
            ("part_metadata_bytes", 4),
            ("part_runtime_bytes", 9),
            ("part_own_mappings_bytes", 5),
            ("part_unknown_bytes", 6),
        ];
        // What a preload counted at the exit is of another moment.
        let others = [("peak_resident_bytes", 70), ("allocator_allocated_bytes", 5), ("allocator_mapped_bytes", 9)];
        let mut row = answer(0, &[&parts[..], &others].concat());
        let idle = Anatomy::of(&row, None).unwrap();
        row.moments = vec![Moment::Peak];
        let found = Anatomy::of(&row, None).unwrap();
        assert_eq!((idle.peak, found.peak), (None, Some((70 * MIB) as f64)));
        let parts = [
            Part::Live,
            Part::Cached,
            Part::Fragmentation,
            Part::FreePages,
            Part::Metadata,
            Part::Runtime,
            Part::OwnMappings,
            Part::Unknown,
        ];
        assert_eq!(parts.map(|part| mebibytes(&found, part)), [10.0, 1.0, 2.0, 3.0, 4.0, 9.0, 5.0, 6.0]);
        assert_eq!((found.sum(), found.rss, found.at_exit), ((46 * MIB) as f64, (46 * MIB) as f64, None));
        assert!(found.adds_up() && found.is_divided && found.name(Part::FreePages) == "free pages");
    }

    #[test]
    fn the_middle_is_one_of_them() {
        let of = |heap| {
            Anatomy::of(
                &answer(1, &[("part_files_bytes", 1), ("part_unknown_bytes", heap), ("allocator_live_bytes", 1)]),
                Some(1),
            )
            .unwrap()
        };
        let all = [of(9), of(5), of(7), of(6)];
        assert_eq!(middle(&all), Some(of(6)));
        let walked = Anatomy { is_walked: true, ..of(9) };
        assert_eq!(middle(&[of(5), walked, of(7)]), Some(walked));
        assert_eq!(middle(&[]), None);
    }
}
