//! Lists the resident pages of a live process as sorted ranges of addresses.

use std::io;
use std::ops::Range;

use allocanary_process::{ProcFile, text};

use crate::parse_maps;
use crate::states::states;

/// The resident pages of private memory without a file. Only the kernel's tables are read, not the process's memory. A
/// page that may be the kernel's page of zeroes counts as not resident: kernels before 6.7 do not say whether it is.
pub fn resident(pid: u32) -> io::Result<Vec<Range<u64>>> {
    let text = text(pid, ProcFile::Maps)?;
    let mut mappings = parse_maps(text);
    mappings.retain(|mapping| mapping.inode == 0 && mapping.writable && !mapping.shared);
    let pages = states(pid, &mappings, None)?;
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for run in pages.within(0, u64::MAX).filter(|run| run.state.is_resident()) {
        match ranges.last_mut() {
            Some(last) if last.end == run.from => last.end = run.to,
            _ => ranges.push(run.from..run.to),
        }
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four pages of this process. The second and the third are written to.
    #[test]
    fn pages_that_were_written_to_are_resident_and_others_are_not() {
        const PAGE: usize = 4096;
        let bytes = 4 * PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let memory =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED);
        // Huge pages would make all of it resident.
        // SAFETY: advice about the mapping made above, and two bytes in it.
        unsafe {
            libc::madvise(memory, bytes, libc::MADV_NOHUGEPAGE);
            memory.cast::<u8>().add(PAGE).write_volatile(1);
            memory.cast::<u8>().add(2 * PAGE).write_volatile(1);
        }
        let start = memory as u64;
        let found = resident(std::process::id()).unwrap();
        let is_in = |page: u64| found.iter().any(|range| range.contains(&(start + page * PAGE as u64)));
        assert_eq!([0, 1, 2, 3].map(is_in), [false, true, true, false]);
        assert!(found.windows(2).all(|pair| pair[0].end < pair[1].start), "sorted, and joined where they touch");
        // SAFETY: the mapping made above, which nothing else knows.
        unsafe { libc::munmap(memory, bytes) };
    }
}
