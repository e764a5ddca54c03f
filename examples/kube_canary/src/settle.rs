//! After the start. In: a process that has parsed flags, opened sockets and made its tables. Out: the same process without
//! the memory that only this needed.
//!
//! Two things stay from a start: what the allocator keeps of memory that was freed, and the pages of the program's own file
//! (and of its libraries) that were read once. The first goes back to the system. The second is given up as well, by unmapping
//! pages that nobody has written: the text of the parser of flags, of its help, of the dynamic linker. It lowers what the
//! canary has resident, which is what `kubectl top` and limits by RSS see; the file stays in the page cache, which the kernel
//! empties when it wants to, and now finds unused. A page that is needed again is found there, without reading the disk.
//!
//! A page that is needed again brings its neighbours: 16 pages, or on newer kernels all of a large folio, of which a file that was
//! written in one go has many. They come as far as the mapping reaches, so that each mapping is cut into small ones first.
//!
//! Then the canary is scraped once, by itself: what Prometheus' first scrape takes is taken now, and whoever compares the
//! memory before and after sees no leak that is none.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// The first probes have come back by then.
const START: Duration = Duration::from_secs(2);
/// A touch brings in no more. With 8 peers a static canary of 11 MiB then has 2.05 MB resident, in 367 mappings; pieces of 64
/// and of 16 KiB made it 2.46 and 1.75, in 189 and 720, which the kernel pays for.
const PIECE: usize = 32 * 1024;
const SCRAPE: Duration = Duration::from_secs(2);
const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: self\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\
                         Accept-Encoding: gzip\r\nConnection: close\r\n\r\n";

/// Waits until the start is over, and cleans up. `server` is where the canary's web server listens.
///
/// What cannot be done is left undone: it costs memory, nothing else.
pub async fn down(server: SocketAddr) {
    sleep(START).await;
    let _ = allocanary::tuning::purge();
    let _ = give_up_clean_pages();
    let _ = timeout(SCRAPE, scrape(server)).await;
    let _ = allocanary::tuning::purge();
}

/// An address that stands for all of this host's is connected to as loopback.
async fn scrape(server: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(REQUEST).await?;
    let mut page = [0; 4096];
    while stream.read(&mut page).await? > 0 {}
    Ok(())
}

/// Unmaps the pages of files that are mapped read-only and were never written. Returns the bytes that were resident there.
fn give_up_clean_pages() -> io::Result<usize> {
    let mut mapping = Mapping::default();
    let mut clean = Vec::new();
    for line in BufReader::new(File::open("/proc/self/smaps")?).lines() {
        clean.extend(mapping.take(&line?).filter(Mapping::is_clean));
    }
    // Only now, so that what read all this goes too.
    clean.iter().for_each(Mapping::cut);
    Ok(clean.iter().filter(|mapping| mapping.give_up()).map(|mapping| mapping.resident).sum())
}

/// What smaps says of one mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
    of_a_file: bool,
    read_only: bool,
    resident: usize,
    /// Bytes that differ from the file: written by the linker before it made them read-only, or by a debugger.
    own: Option<usize>,
    swapped: Option<usize>,
}

impl Mapping {
    /// The next line of smaps. The mapping, once its last line was read.
    fn take(&mut self, line: &str) -> Option<Mapping> {
        let mut words = line.split_ascii_whitespace();
        let first = words.next()?;
        let Some(key) = first.strip_suffix(':') else {
            // The mapping's head: `START-END PERMISSIONS OFFSET DEVICE INODE PATH`.
            let (start, end) = first.split_once('-')?;
            let hexadecimal = |text| usize::from_str_radix(text, 16).ok();
            *self = Mapping::default();
            (self.start, self.end) = (hexadecimal(start)?, hexadecimal(end)?);
            self.read_only = matches!(words.next()?, "r-xp" | "r--p");
            self.of_a_file = words.nth(3).is_some_and(|path| path.starts_with('/'));
            return None;
        };
        let bytes = words.next().and_then(|number| number.parse::<usize>().ok()).map(|kb| kb * 1024);
        match key {
            "Rss" => self.resident = bytes.unwrap_or(0),
            "Anonymous" => self.own = bytes,
            "Swap" => self.swapped = bytes,
            "VmFlags" => return Some(*self),
            _ => {}
        }
        None
    }

    /// Whether a file has all that is in its pages, and there are any.
    fn is_clean(&self) -> bool {
        let whole = self.own == Some(0) && self.swapped == Some(0);
        self.of_a_file && self.read_only && whole && self.resident > 0
    }

    /// Unmaps the pages of a clean mapping.
    fn give_up(&self) -> bool {
        let start = std::ptr::with_exposed_provenance_mut(self.start);
        // SAFETY: the range is mapped read-only from a file and no page of it differs from the file, so that whoever reads
        // or runs it next gets the same bytes from there. Nobody can write to it, and nothing in this process loads or
        // unloads libraries or changes what protects them, so that it still is what smaps said.
        unsafe { libc::madvise(start, self.end - self.start, libc::MADV_DONTNEED) == 0 }
    }

    /// Cuts the mapping into pieces: every other one gets a flag, so that the kernel cannot join them again. The flag is that of
    /// core dumps. A dump takes nothing of such a mapping but its first page, where that begins a program: by its build-id
    /// debuggers find the symbols. So the first piece stays as it is.
    fn cut(&self) {
        for start in self.cuts() {
            let piece = std::ptr::with_exposed_provenance_mut(start);
            // SAFETY: within the mapping, of which no byte and no permission changes.
            unsafe { libc::madvise(piece, PIECE.min(self.end - start), libc::MADV_DONTDUMP) };
        }
    }

    /// Where the pieces begin that get the flag.
    fn cuts(&self) -> impl Iterator<Item = usize> {
        ((self.start + 1).next_multiple_of(PIECE)..self.end).step_by(2 * PIECE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_that_begins_a_program_stays_in_core_dumps() {
        // A static program that is not moved begins at a multiple of every piece.
        for start in [0x40_0000, 0x40_1000] {
            let mapping = Mapping { start, end: 0x42_0000, ..Mapping::default() };
            assert_eq!(mapping.cuts().collect::<Vec<_>>(), [0x40_8000, 0x41_8000]);
        }
    }

    fn read(text: &str) -> Vec<Mapping> {
        let mut mapping = Mapping::default();
        text.lines().filter_map(|line| mapping.take(line)).collect()
    }

    #[test]
    fn only_what_a_file_has_whole_is_given_up() {
        let clean = |head: &str, own: &str| {
            let text = format!("{head}\nSize: 8 kB\nRss: 8 kB\nAnonymous: {own} kB\nSwap: 0 kB\nVmFlags: rd ex mr\n");
            let all = read(&text);
            assert_eq!(
                (all.len(), all[0].start, all[0].end, all[0].resident),
                (1, 0x7f00_0000_0000, 0x7f00_0000_2000, 8192)
            );
            all[0].is_clean()
        };
        assert!(clean("7f0000000000-7f0000002000 r-xp 00001000 fe:00 12 /usr/lib/libc.so.6", "0"));
        assert!(!clean("7f0000000000-7f0000002000 r--p 00001000 fe:00 12 /usr/lib/libc.so.6", "4"), "relocated");
        assert!(!clean("7f0000000000-7f0000002000 rw-p 00001000 fe:00 12 /usr/lib/libc.so.6", "0"), "writable");
        assert!(!clean("7f0000000000-7f0000002000 r--p 00000000 00:00 0", "0"), "of no file");
        assert!(!clean("7f0000000000-7f0000002000 r-xp 00000000 00:00 0 [vdso]", "0"));
    }

    #[test]
    fn a_kernel_that_does_not_say_what_was_written_changes_nothing() {
        let all = read("7f0000000000-7f0000002000 r-xp 00001000 fe:00 12 /bin/x\nRss: 8 kB\nVmFlags: rd ex mr\n");
        assert!(all.len() == 1 && !all[0].is_clean());
    }

    #[test]
    fn a_program_goes_on_without_the_text_that_it_gave_up() {
        let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        let before = mappings();
        let resident = give_up_clean_pages().unwrap();
        assert!(resident > 0);
        assert!(mappings() > before + 20, "cut into pieces: {before} mappings before, {} after", mappings());
        // Tables that only a panic reads come back too.
        let thrown = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(resident))).unwrap_err();
        assert_eq!(thrown.downcast_ref::<usize>(), Some(&resident));
    }
}
