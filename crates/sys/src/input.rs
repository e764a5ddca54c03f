//! Reads whole files that the user names, such as readings, and reports of agents and studies. Files that are too long are refused.
//!
//! Such a file may come from another user: it may be a copy of what an agent wrote, a link to a device, or a file with a hole of terabytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The longest file that is read, in bytes. The readings of a thousand processes are shorter.
pub const MOST: u64 = 100 << 20;

/// The text of a file. An error if it is longer than [`MOST`]. Reads a pipe to its end, such as the shell's `<(...)`.
pub fn text(path: &Path) -> io::Result<String> {
    String::from_utf8(bytes(path)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "wanted UTF-8 text, found other bytes"))
}

/// The bytes of a file, as [`text`].
pub fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    at_most(path, MOST)
}

fn at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if File::open(path)?.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
        return Err(io::Error::other(format!("wanted at most {} MiB, found more", most >> 20)));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_refused_and_its_rest_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(at_most(&path, 5).unwrap(), b"12345");
        assert_eq!(at_most(&path, 4).unwrap_err().to_string(), "wanted at most 0 MiB, found more");
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(text(&path).unwrap_err().to_string(), "wanted UTF-8 text, found other bytes");
        // A device has no end.
        assert!(at_most(Path::new("/dev/zero"), 1 << 20).unwrap_err().to_string().contains("at most 1 MiB"));
    }
}
