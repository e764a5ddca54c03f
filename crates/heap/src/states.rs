//! Reads the kernel's state of each page of a live process, with `PAGEMAP_SCAN`. Kernels before 6.7 do not have this call. There it reads
//! the words of `/proc/PID/pagemap`, which do not distinguish the kernel's page of zeroes from a page that is shared after a fork.
//!
//! The kernel locks the process's address space during the call, and the process's `mmap`, `munmap` and `brk` wait for it. So each call
//! asks for few pages, and there are pauses between calls ([`Pace`]).

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use allocanary_process::{ProcFile, open, text};
use allocanary_sys::sys::page_bytes;

use crate::PageRun;
use crate::pace::{PIECE, Pace};
use crate::{Mapping, MappingCount, PageState, PageStates, parse_smaps};

/// The states of the pages of the mappings. A mapping that is gone by now has none. An error if the time `until` is over.
pub(crate) fn states(pid: u32, mappings: &[Mapping], until: Option<Instant>) -> io::Result<PageStates> {
    let pagemap = open(pid, ProcFile::Pagemap)?;
    let mut pace = Pace::until(until);
    // No process has pages of its own in the kernel's mapping at the end of all addresses.
    let mappings = || mappings.iter().filter(|one| one.name != "[vsyscall]");
    // Kernels before 6.16 do not report guards, and those before 6.7 have no scan.
    for wanted in [CATEGORIES | GUARD, CATEGORIES] {
        let mut pages = PageStates::default();
        let scanned = spans(mappings()).iter().try_for_each(|span| scan(&pagemap, span, wanted, &mut pace, &mut pages));
        match scanned {
            Err(error) if is_missing(&error) => {}
            done => return done.map(|()| pages),
        }
    }
    let mut pages = PageStates::default();
    let mut counted = Vec::new();
    for mapping in mappings() {
        let is_large = mapping.bytes() > LARGE;
        if is_large && counted.is_empty() {
            counted = parse_smaps(text(pid, ProcFile::Smaps)?);
        }
        if !is_large || has_pages(&counted, mapping) {
            read(&pagemap, mapping, &mut pace, &mut pages)?;
        }
    }
    Ok(pages)
}

/// Adjacent mappings, which are scanned together: a process can have 65,000 mappings of one page each.
#[derive(Debug, PartialEq, Eq)]
struct Span {
    from: u64,
    to: u64,
    /// Whether writes to it are visible to other processes.
    shared: bool,
}

fn spans<'a>(mappings: impl Iterator<Item = &'a Mapping>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for one in mappings {
        match spans.last_mut() {
            Some(last) if last.to == one.from && last.shared == one.shared => last.to = one.to,
            _ => spans.push(Span { from: one.from, to: one.to, shared: one.shared }),
        }
    }
    spans
}

/// A mapping larger than this is read word by word only if the kernel's counts show pages in it: 1 TiB needs 2 GiB of
/// words. The counts are read only for such mappings, and only on kernels before 6.7, because the process cannot map
/// memory during this.
const LARGE: u64 = 64 << 30;

/// Whether a mapping has pages in memory or in swap, by the kernel's counts. A mapping without counts may have some.
fn has_pages(counted: &[MappingCount], mapping: &Mapping) -> bool {
    let same = |one: &&MappingCount| (one.mapping.from, one.mapping.to) == (mapping.from, mapping.to);
    counted.iter().find(same).is_none_or(|one| one.resident > 0 || one.swapped > 0)
}

/// Whether the kernel has no `PAGEMAP_SCAN`.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL | libc::ENOSYS))
}

/// The structure `struct pm_scan_arg` of Linux 6.7.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// The structure `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZERO: u64 = 1 << 5;
const HUGE: u64 = 1 << 6;
const GUARD: u64 = 1 << 8;
/// What every kernel with `PAGEMAP_SCAN` reports.
const CATEGORIES: u64 = FILE | PRESENT | SWAPPED | ZERO | HUGE;

/// `RANGE`: the bytes of addresses of one call. The limit is needed because the kernel also walks page tables that the process has emptied,
/// and there may be many. After a call that finds nothing within `QUICK`, as in terabytes of reserved addresses, the next range is twice as
/// long, up to `MOST_RANGE`.
const RANGE: u64 = 64 << 20;
const MOST_RANGE: u64 = 4 << 30;
const QUICK: Duration = Duration::from_micros(20);

fn scan(pagemap: &fs::File, span: &Span, wanted: u64, pace: &mut Pace, pages: &mut PageStates) -> io::Result<()> {
    let mut regions = [Region::default(); 512];
    let (mut start, mut range) = (span.from, RANGE);
    while start < span.to {
        pace.next()?;
        let begun = Instant::now();
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start,
            end: span.to.min(start.saturating_add(range)),
            vec: regions.as_mut_ptr() as u64,
            vec_len: regions.len() as u64,
            max_pages: PIECE / page_bytes(),
            category_anyof_mask: PRESENT | SWAPPED,
            return_mask: wanted,
            ..Scan::default()
        };
        // SAFETY: `scan` and the `vec_len` regions that it names live until the call returns, and only this call writes to them.
        let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut scan) };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        range = if count == 0 && begun.elapsed() < QUICK { (2 * range).min(MOST_RANGE) } else { RANGE };
        for region in regions.iter().take(count as usize) {
            let state = match region.categories {
                // The kernel also says that a guard is in swap.
                bits if bits & GUARD != 0 => PageState::Guard,
                bits if bits & SWAPPED != 0 => PageState::Swapped,
                bits if bits & ZERO != 0 => PageState::Zero,
                // Memory of a device: the kernel does not count it as resident.
                bits if span.shared && bits & FILE == 0 => continue,
                bits if bits & HUGE != 0 => PageState::Huge,
                bits if !span.shared && bits & FILE != 0 => PageState::OfFile,
                _ => PageState::Resident,
            };
            pages.push(PageRun { from: region.start, to: region.end, state });
        }
        if scan.walk_end <= start {
            break;
        }
        start = scan.walk_end;
    }
    Ok(())
}

pub(crate) const WORD_PRESENT: u64 = 1 << 63;
const WORD_SWAPPED: u64 = 1 << 62;
const WORD_GUARD: u64 = 1 << 58;
const WORD_FILE: u64 = 1 << 61;
pub(crate) const WORD_EXCLUSIVE: u64 = 1 << 56;
/// The bits with the number of the page frame. The number is 0 if this process has no right to see it.
pub(crate) const WORD_FRAME: u64 = (1 << 55) - 1;

/// Reads a word for each page. A page that belongs neither to a file nor to one process alone may be the page of
/// zeroes.
fn read(pagemap: &fs::File, mapping: &Mapping, pace: &mut Pace, pages: &mut PageStates) -> io::Result<()> {
    let page = page_bytes();
    each_word(pagemap, mapping.from, mapping.to, pace, |at, word| {
        let state = match word {
            word if word & WORD_GUARD != 0 => Some(PageState::Guard),
            word if word & WORD_SWAPPED != 0 => Some(PageState::Swapped),
            word if word & WORD_PRESENT == 0 => None,
            word if mapping.shared => (word & WORD_FILE != 0).then_some(PageState::Resident),
            word if word & WORD_FILE != 0 => Some(PageState::OfFile),
            word if word & WORD_EXCLUSIVE == 0 => Some(PageState::Unclear),
            _ => Some(PageState::Resident),
        };
        if let Some(state) = state {
            pages.push(PageRun { from: at, to: at + page, state });
        }
    })
}

/// Calls a function with each page's address and the kernel's word for this page.
pub(crate) fn each_word(
    pagemap: &fs::File,
    from: u64,
    to: u64,
    pace: &mut Pace,
    mut visit: impl FnMut(u64, u64),
) -> io::Result<()> {
    let page = page_bytes();
    let mut words = vec![0; ((to - from) / page * 8).min(PIECE / page * 8) as usize];
    let mut at = from;
    while at < to {
        pace.next()?;
        let wanted = ((to - at) / page * 8).min(words.len() as u64) as usize;
        let count = pagemap.read_at(&mut words[..wanted], at / page * 8)? / 8;
        if count == 0 {
            break;
        }
        for word in words[..count * 8].chunks_exact(8) {
            visit(at, u64::from_le_bytes(word.try_into().expect("a word has eight bytes")));
            at += page;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PAGE, parse_maps};

    #[test]
    fn a_mapping_has_pages_unless_the_kernel_counts_none() {
        let counted = parse_smaps(
            "1000-2000 rw-p 0 00:0 0 \nRss: 0 kB\nSwap: 0 kB\n2000-3000 rw-p 0 00:0 0 \nRss: 4 kB\n\
             3000-4000 rw-p 0 00:0 0 \nRss: 0 kB\nSwap: 4 kB\n",
        );
        let has = |from, to| has_pages(&counted, &Mapping { from, to, ..Mapping::default() });
        assert_eq!([has(0x1000, 0x2000), has(0x2000, 0x3000), has(0x3000, 0x4000)], [false, true, true]);
        assert!(has(0x1000, 0x3000), "it has grown since");
    }

    #[test]
    fn mappings_that_adjoin_are_one_span() {
        let text =
            "1000-2000 r--p 0 00:0 0 \n2000-3000 rw-p 0 00:0 0 \n3000-4000 rw-s 0 00:0 0 \n5000-6000 rw-s 0 00:0 0 \n";
        let span = |from, to, shared| Span { from, to, shared };
        let found = spans(parse_maps(text).iter());
        assert_eq!(found, [span(0x1000, 0x3000, false), span(0x3000, 0x4000, true), span(0x5000, 0x6000, true)]);
    }

    #[test]
    fn both_ways_see_the_same_pages() {
        const COUNT: usize = 60;
        // This is more than any allocator takes from an existing heap, so all pages are new.
        let mut memory = vec![0_u8; 80 << 20];
        let from = (memory.as_ptr() as u64).next_multiple_of(PAGE);
        let first = from as usize - memory.as_ptr() as usize;
        // A page that was only read is the page of zeroes, which is not resident.
        assert_eq!(std::hint::black_box(memory[first + (20 << 12)]), 0);
        memory[first..first + (20 << 12)].fill(1);
        let text = fs::read_to_string("/proc/self/maps").unwrap();
        let mut mapping = parse_maps(&text).into_iter().find(|one| one.from <= from && from < one.to).unwrap();
        (mapping.from, mapping.to) = (from, from + COUNT as u64 * PAGE);
        let pagemap = fs::File::open("/proc/self/pagemap").unwrap();
        let mut words = PageStates::default();
        read(&pagemap, &mapping, &mut Pace::until(None), &mut words).unwrap();
        let mut scanned = PageStates::default();
        let span = Span { from: mapping.from, to: mapping.to, shared: false };
        match scan(&pagemap, &span, CATEGORIES, &mut Pace::until(None), &mut scanned) {
            Err(error) => assert!(is_missing(&error), "{error}"),
            Ok(()) => {
                let same = |page: u64| match (scanned.state(from + page * PAGE), words.state(from + page * PAGE)) {
                    (Some(PageState::Zero), Some(PageState::Unclear))
                    | (Some(PageState::Huge), Some(PageState::Resident)) => true,
                    (one, other) => one == other,
                };
                assert!((0..COUNT as u64).all(same), "{scanned:?} {words:?}");
            }
        }
        assert_eq!(words.state(from), Some(PageState::Resident));
    }

    /// `MADV_GUARD_INSTALL` of Linux 6.13.
    const INSTALL: libc::c_int = 102;

    #[test]
    fn a_guard_is_not_in_swap() {
        let memory = vec![1_u8; 4 * PAGE as usize];
        let from = (memory.as_ptr() as u64).next_multiple_of(PAGE);
        // SAFETY: the page is inside of the vector's memory, and nobody reads it again.
        if unsafe { libc::madvise(from as *mut _, PAGE as usize, INSTALL) } != 0 {
            return allocanary_testing::skipped::skipped("the kernel has no guards (before 6.13)");
        }
        let mapping = Mapping { from: from - PAGE, to: from + 2 * PAGE, ..Mapping::default() };
        let pages = states(std::process::id(), &[mapping], None).unwrap();
        // SAFETY: as above. The allocator uses the page again.
        assert_eq!(unsafe { libc::madvise(from as *mut _, PAGE as usize, INSTALL + 1) }, 0);
        // Kernels before 6.15 say that it is in swap.
        assert!([Some(PageState::Guard), Some(PageState::Swapped)].contains(&pages.state(from)), "{pages:?}");
        if is_told() {
            assert_eq!(pages.state(from), Some(PageState::Guard));
        }
    }

    /// Whether this kernel tells guards.
    fn is_told() -> bool {
        let pagemap = fs::File::open("/proc/self/pagemap").unwrap();
        let span = Span { from: PAGE, to: 2 * PAGE, shared: false };
        scan(&pagemap, &span, CATEGORIES | GUARD, &mut Pace::until(None), &mut PageStates::default()).is_ok()
    }
}
