//! Computes the share of each mapping (PSS) from how many processes have each page. The process does not wait long for this:
//! `/proc/PID/pagemap` is read in pieces, and `/proc/kpagecount` needs no lock of the process. Only root may read these numbers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use allocanary_process::{HostFile, ProcFile, kernel, open};
use allocanary_sys::sys::page_bytes;

use crate::pace::Pace;
use crate::states::{WORD_EXCLUSIVE, WORD_FRAME, WORD_PRESENT, each_word};
use crate::{MappingCount, PageStates};

/// Adds the shares. If they cannot be read, the error says why, and no mapping gets a share.
pub(crate) fn by_pages(
    pid: u32,
    counted: &mut [MappingCount],
    pages: &PageStates,
    until: Option<Instant>,
) -> io::Result<()> {
    let pagemap = open(pid, ProcFile::Pagemap)?;
    let mut owners = Owners { file: kernel(HostFile::Pagecount)?, known: BTreeMap::new() };
    let mut pace = Pace::until(until);
    let (mut shares, page) = (Vec::new(), page_bytes());
    for one in counted.iter() {
        let (mut share, mut trouble) = (0, None);
        for run in pages.within(one.mapping.from, one.mapping.to).filter(|run| run.state.is_resident()) {
            each_word(&pagemap, run.from, run.to, &mut pace, |_, word| match word {
                // The page belongs to this process alone, or is no longer present but belonged to the process before.
                word if word & WORD_PRESENT == 0 || word & WORD_EXCLUSIVE != 0 => share += page,
                word => match owners.of(word & WORD_FRAME) {
                    Ok(count) => share += page / count.max(1),
                    Err(error) => trouble = Some(error),
                },
            })?;
        }
        if let Some(error) = trouble {
            return Err(error);
        }
        shares.push(share);
    }
    counted.iter_mut().zip(shares).for_each(|(one, share)| one.share = Some(share));
    Ok(())
}

/// Reads how often a page of memory is mapped.
struct Owners {
    file: File,
    /// Rows of counts, by the index of the row. They are kept, because the next process needs the pages of shared libraries again.
    known: BTreeMap<u64, [u8; ROW * 8]>,
}

/// `ROW`: how many counts are read at once. `ROWS`: how many rows are kept.
const ROW: usize = 64;
const ROWS: usize = 4096;

impl Owners {
    fn of(&mut self, frame: u64) -> io::Result<u64> {
        if frame == 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (first, within) = (frame / ROW as u64, (frame % ROW as u64) as usize * 8);
        if !self.known.contains_key(&first) {
            if self.known.len() >= ROWS {
                self.known.clear();
            }
            let mut row = [0; ROW * 8];
            // The last row may be shorter.
            let read = self.file.read_at(&mut row, first * 8 * ROW as u64)?;
            if read < within + 8 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.known.insert(first, row);
        }
        let count = &self.known[&first][within..within + 8];
        Ok(u64::from_le_bytes(count.try_into().expect("eight bytes")))
    }
}

#[cfg(test)]
mod tests {
    use allocanary_testing::skipped::skipped;

    use super::*;
    use crate::{LiveProcess, Memory, counted};

    /// Sixteen pages that this process maps twice, and eight that it maps once.
    #[test]
    fn a_page_that_is_mapped_twice_counts_half_for_each() {
        const BYTES: usize = 1 << 20;
        let file = tempfile::tempfile().unwrap();
        file.set_len(BYTES as u64 + BYTES as u64 / 2).unwrap();
        let map = |bytes: usize| {
            let both = libc::PROT_READ | libc::PROT_WRITE;
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            // SAFETY: a new mapping of a file, at a place that the kernel chooses.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, both, libc::MAP_SHARED, fd, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            // SAFETY: each page of the mapping made above is within the file.
            (0..bytes)
                .step_by(page_bytes() as usize)
                .for_each(|page| unsafe { at.cast::<u8>().add(page).write_volatile(1) });
            at as u64
        };
        let (first, longer) = (map(BYTES), map(BYTES + BYTES / 2));
        let live = LiveProcess::open(std::process::id()).unwrap();
        let range = |from: u64, bytes: usize| crate::Mapping { from, to: from + bytes as u64, ..Default::default() };
        let mappings = [range(first, BYTES), range(longer, BYTES + BYTES / 2)];
        let mut counted = counted(&mappings, live.pages());
        match by_pages(std::process::id(), &mut counted, live.pages(), None) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                assert!(counted.iter().all(|one| one.share.is_none()));
                skipped("only root may read how many processes have a page");
            }
            done => {
                done.unwrap();
                let shares: Vec<_> = counted.iter().map(|one| one.share).collect();
                assert_eq!(shares, [Some(BYTES as u64 / 2), Some(BYTES as u64)]);
            }
        }
        // SAFETY: the mappings made above, which nothing else knows.
        unsafe {
            libc::munmap(first as *mut libc::c_void, BYTES);
            libc::munmap(longer as *mut libc::c_void, BYTES + BYTES / 2);
        }
    }
}
