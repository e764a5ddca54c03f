//! The kernel's state of each page of a live process.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;

use crate::pages::Run;
use crate::{Mapping, Pages, State};

/// The states of the pages of all private writable mappings, from `/proc/PID/pagemap`.
pub(crate) fn states(pid: u32, mappings: &[Mapping]) -> io::Result<Pages> {
    let pagemap = fs::File::open(format!("/proc/{pid}/pagemap"))?;
    let mut pages = Pages::default();
    for mapping in mappings.iter().filter(|one| one.writable && !one.shared) {
        scan(&pagemap, mapping, &mut pages)?;
    }
    Ok(pages)
}

/// `struct pm_scan_arg` of Linux 6.7.
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

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZERO: u64 = 1 << 5;
const HUGE: u64 = 1 << 6;

fn scan(pagemap: &fs::File, mapping: &Mapping, pages: &mut Pages) -> io::Result<()> {
    let mut regions = [Region::default(); 1024];
    let mut start = mapping.from;
    while start < mapping.to {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start,
            end: mapping.to,
            vec: regions.as_mut_ptr() as u64,
            vec_len: regions.len() as u64,
            category_anyof_mask: PRESENT | SWAPPED,
            return_mask: PRESENT | SWAPPED | ZERO | HUGE,
            ..Scan::default()
        };
        // SAFETY: `scan` and the `vec_len` regions that it names live until the call returns, and only this call writes to them.
        let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut scan) };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        for region in regions.iter().take(count as usize) {
            let state = match region.categories {
                bits if bits & SWAPPED != 0 => State::Swapped,
                bits if bits & ZERO != 0 => State::Zero,
                bits if bits & HUGE != 0 => State::Huge,
                _ => State::Resident,
            };
            pages.push(Run { from: region.start, to: region.end, state });
        }
        if scan.walk_end <= start {
            break;
        }
        start = scan.walk_end;
    }
    Ok(())
}
