//! Reads whole files of `/proc`.

use std::fs::File;
use std::io::{ErrorKind, Read, Result};
use std::path::Path;

/// The most bytes that one call reads.
const PIECE: usize = 64 << 10;

/// Reads a whole file of `/proc`, in large pieces.
///
/// The kernel makes such a text anew for each read, and continues after the last mapping that it wrote. `std::fs::read` begins with reads
/// of 32 bytes: a mapping that grows between two reads is then written twice. With enough room, the kernel writes at least a page at once.
pub fn read_whole(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    read_whole_of(&mut File::open(path)?)
}

/// As [`read_whole`], for an open file.
pub fn read_whole_of(file: &mut File) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        let filled = text.len();
        text.resize(filled + PIECE, 0);
        let read = file.read(&mut text[filled..]);
        text.truncate(filled + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => return Ok(text),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_whole_and_a_missing_file_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text: Vec<u8> = (0..3 * PIECE as u32 + 17).map(|at| at as u8).collect();
        std::io::Write::write_all(&mut file, &text).unwrap();
        assert!(read_whole(file.path()).unwrap() == text);
        assert!(read_whole("/proc/self/maps").unwrap().ends_with(b"\n"));
        assert_eq!(read_whole("/proc/self/no such file").unwrap_err().kind(), ErrorKind::NotFound);
    }
}
