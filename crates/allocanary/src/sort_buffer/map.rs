//! A temporary file that is mapped into memory. In: a folder and a length. Out: bytes that the kernel may write to the
//! disk and remove from memory when it needs memory.
//!
//! The file never has a name, so nobody else opens, truncates or removes it, and it is deleted when the process ends,
//! in any way. All its blocks are allocated before it is mapped: a full disk is an error here and not a signal (SIGBUS)
//! at a later write. Nothing is ever flushed, because a file that will be deleted need not reach the disk.

use std::fs::File;
use std::io;
use std::path::Path;

use memmap2::MmapMut;

use super::error::{Result, SortBufferError};
use allocanary_sys::sys;

/// A mapped temporary file. Its beginning is used.
#[derive(Debug)]
pub struct FileMap {
    file: File,
    map: MmapMut,
    used: usize,
}

/// Lengths are multiples of this number of bytes: whole pages on every machine.
const STEP: usize = 64 << 10;
/// A file grows by its own length, but at most by this number of bytes.
const MOST_GROWTH: usize = 1 << 30;

impl FileMap {
    /// A file in `folder` with room for `bytes`. `held` is the size of the buffer, for the error.
    pub fn new(folder: &Path, bytes: usize, held: usize) -> Result<Self> {
        let failed = |doing| move |source| SortBufferError::Folder { folder: folder.to_path_buf(), doing, source };
        let file = tempfile::tempfile_in(folder).map_err(failed("make"))?;
        let length = bytes.max(1).next_multiple_of(STEP);
        allocate(&file, length).map_err(|source| refused(folder, length, held, source))?;
        let map = map(&file).map_err(failed("map"))?;
        Ok(FileMap { file, map, used: 0 })
    }

    /// Makes room for `wanted` more bytes.
    pub fn grow(&mut self, folder: &Path, wanted: usize) -> Result<()> {
        let least = (self.used + wanted).next_multiple_of(STEP);
        let ample = least.max(self.map.len() + self.map.len().min(MOST_GROWTH));
        // The first try may have allocated some blocks before it failed. They stay in the file, and the second try uses
        // them.
        let given = allocate(&self.file, ample).or_else(|_| allocate(&self.file, least));
        given.map_err(|source| refused(folder, least, self.used, source))?;
        let doing = "map";
        self.map =
            map(&self.file).map_err(|source| SortBufferError::Folder { folder: folder.into(), doing, source })?;
        Ok(())
    }

    /// Number of bytes that can be appended without growing.
    #[inline]
    pub fn room(&self) -> usize {
        self.map.len() - self.used
    }

    /// Appends; panics if there is no room.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) {
        let end = self.used + bytes.len();
        self.map[self.used..end].copy_from_slice(bytes);
        self.used = end;
    }

    /// Sets the number of used bytes to `used`, at most the length of the file.
    pub fn set_used(&mut self, used: usize) {
        self.used = used.min(self.map.len());
    }

    /// The appended bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.map[..self.used]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map[..self.used]
    }
}

fn allocate(file: &File, length: usize) -> io::Result<()> {
    sys::allocate_blocks(file, length as u64)
}

fn map(file: &File) -> io::Result<MmapMut> {
    // SAFETY: the file has no name and only we have its descriptor, so nobody shortens it or writes to it while it is
    // mapped. We never make it shorter.
    unsafe { MmapMut::map_mut(file) }
}

fn refused(folder: &Path, wanted: usize, held: usize, source: io::Error) -> SortBufferError {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let folder = folder.to_path_buf();
    match source.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => {
            SortBufferError::DiskFull { folder, wanted: wanted as u64, held: held as u64, source }
        }
        _ => SortBufferError::Folder { folder, doing: "give blocks to", source },
    }
}

#[cfg(all(test, not(miri)))] // Miri maps no files
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;
    use crate::sort_buffer::tests::{all, buffer, filled, numbered};
    use crate::sort_buffer::{Options, SortBuffer};
    use allocanary_testing::skipped::skipped;
    use allocanary_testing::tiny::Tiny;

    fn in_folder(folder: &Path, map_after: usize) -> Options {
        Options { map_after: Some(map_after), folder: folder.to_path_buf(), ..Options::default() }
    }

    #[test]
    fn it_moves_at_the_threshold_and_leaves_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let mut buffer = buffer(in_folder(folder.path(), 100));
        (0..10).for_each(|_| buffer.push(b"123456789").unwrap());
        assert_eq!((buffer.bytes(), buffer.is_mapped()), (100, false));
        buffer.push(b"").unwrap();
        assert!(buffer.is_mapped());
        assert_eq!(buffer.iter().len(), 11);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut grown = SortBuffer::new(in_folder(folder.path(), 0));
        let records: Vec<Vec<u8>> = (0..300_000_u32).map(|n| (n.reverse_bits() >> 8).to_be_bytes().to_vec()).collect();
        records.iter().for_each(|record| grown.push(record).unwrap());
        grown.sort_by_prefix(4).unwrap();
        let mut wanted = records;
        wanted.sort();
        assert_eq!(all(&grown), wanted);
    }

    #[test]
    fn a_folder_that_takes_no_file_is_named_and_the_records_stay() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        for place in [missing.as_path(), Path::new("/proc")] {
            let mut buffer = buffer(in_folder(place, 4));
            buffer.push(b"abc").unwrap();
            let refused = buffer.push(b"more").unwrap_err();
            assert!(matches!(&refused, SortBufferError::Folder { folder, .. } if folder == place), "{refused}");
            let said = refused.to_string();
            assert!(said.contains(&place.display().to_string()) && said.contains("choose another"), "{said}");
            assert_eq!(all(&buffer), [b"abc"]);
        }
    }

    #[test]
    fn a_folder_that_goes_away_stops_sorting_and_the_records_stay() {
        let folder = tempfile::tempdir().unwrap();
        let records = numbered(100);
        let mut buffer = filled(in_folder(folder.path(), 0), &records);
        drop(folder);
        let refused = buffer.sort_by_prefix(8).unwrap_err();
        assert!(matches!(refused, SortBufferError::Folder { .. }), "{refused}");
        assert_eq!(all(&buffer), records);
        buffer.push(b"and it takes more, since its own file lives").unwrap();
    }

    /// In a separate process: the limit applies to a whole process, and its signal ends the process unless it is
    /// ignored.
    #[test]
    fn a_file_that_may_not_be_so_long_is_an_error() {
        let limited = "ALLOCANARY_TEST_FILES_ARE_LIMITED";
        if std::env::var_os(limited).is_none() {
            let name = std::thread::current().name().unwrap_or_default().to_string();
            let again = ["-c", "ulimit -f 200; exec \"$0\" --exact \"$1\""];
            let own = std::env::current_exe().unwrap();
            let ran = Command::new("sh").args(again).arg(own).arg(name).env(limited, "1").output().unwrap();
            let said = String::from_utf8_lossy(&ran.stdout);
            assert!(ran.status.success() && said.contains("1 passed"), "{}: {said}", ran.status);
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut buffer = SortBuffer::new(in_folder(folder.path(), 0));
        let refused = (0..1000).find_map(|_| buffer.push(&[7; 1000]).err()).unwrap();
        assert!(matches!(refused, SortBufferError::DiskFull { .. }), "{refused}");
        assert!(refused.to_string().contains("File too large"), "{refused}");
        assert!(buffer.len() > 60 && buffer.iter().all(|record| record == [7; 1000]), "{}", buffer.len());
    }

    /// 15/16 of a MiB: a file that doubles does not end exactly there.
    const SIZE: &str = "960k";

    #[test]
    fn a_read_only_folder_is_named() {
        let tiny = match Tiny::mount(SIZE, "ro") {
            Ok(tiny) => tiny,
            Err(why) => return skipped(why),
        };
        let mut buffer = buffer(in_folder(tiny.path(), 4));
        buffer.push(b"abc").unwrap();
        let refused = buffer.push(b"more").unwrap_err().to_string();
        assert!(refused.contains(&format!("{}: could not make a temporary file: Read-only", tiny.path().display())));
        assert_eq!(all(&buffer), [b"abc"]);
    }

    #[test]
    fn a_full_disk_is_an_error_and_the_records_stay() {
        let tiny = match Tiny::mount(SIZE, "rw") {
            Ok(tiny) => tiny,
            Err(why) => return skipped(why),
        };
        let place = tiny.path();
        let mut buffer = SortBuffer::new(in_folder(place, 1000));
        let mut pushed: Vec<Vec<u8>> = Vec::new();
        let refused = loop {
            let record = format!("{:x}", pushed.len() * 2_654_435_761 % 1_000_003).repeat(20).into_bytes();
            match buffer.push(&record) {
                Ok(()) => pushed.push(record),
                Err(refused) => break refused,
            }
        };
        assert!(matches!(&refused, SortBufferError::DiskFull { folder, .. } if folder == place), "{refused}");
        assert!(refused.to_string().contains(&place.display().to_string()), "{refused}");
        assert!(buffer.is_mapped() && buffer.bytes() > 900_000, "nearly all of the disk was used: {}", buffer.bytes());
        assert_eq!(all(&buffer), pushed);

        let refused = buffer.sort_by_prefix(8).unwrap_err();
        assert!(matches!(refused, SortBufferError::DiskFull { .. }), "{refused}");
        assert_eq!(all(&buffer), pushed);

        // A buffer that moves to a full disk stays in memory.
        let mut other = SortBuffer::new(in_folder(place, 4));
        other.push(b"abc").unwrap();
        let refused = other.push(&[7; 200_000]).unwrap_err();
        assert!(matches!(refused, SortBufferError::DiskFull { held: 4, .. }), "{refused}");
        assert!(!other.is_mapped());
        assert_eq!(all(&other), [b"abc"]);

        // The disk has room again when the file is deleted. A child of another test may have it open for a moment,
        // between its fork and its exec.
        drop(buffer);
        let again = (0..500).find_map(|_| match other.push(&[7; 200_000]) {
            Ok(()) => Some(()),
            Err(_) => {
                std::thread::sleep(std::time::Duration::from_millis(10));
                None
            }
        });
        assert!(again.is_some(), "the disk stays full");
        other.sort_by_prefix(8).unwrap();
        assert_eq!(all(&other), [&[7; 200_000][..], b"abc"]);
    }
}
