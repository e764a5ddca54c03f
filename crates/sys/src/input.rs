//! Text files that the user names: readings, reports of agents, studies. In: a path. Out: the whole text, if it is not too long.
//!
//! Such a file may be another user's: a copy of what an agent wrote, a link to a device, a file with a hole of terabytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The longest text that is read, in bytes. The readings of a thousand processes are shorter.
pub const MOST: u64 = 100 << 20;

/// The text of a file. The error says if there is more than [`MOST`]. A pipe is waited for, as the shell's `<(...)` is one.
pub fn text(path: &Path) -> io::Result<String> {
    at_most(path, MOST)
}

fn at_most(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    if File::open(path)?.take(most + 1).read_to_string(&mut text)? as u64 > most {
        return Err(io::Error::other(format!("wanted at most {} MiB of text, found more", most >> 20)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_refused_and_its_rest_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(at_most(&path, 5).unwrap(), "12345");
        assert_eq!(at_most(&path, 4).unwrap_err().to_string(), "wanted at most 0 MiB of text, found more");
        // A device has no end.
        assert!(at_most(Path::new("/dev/zero"), 1 << 20).unwrap_err().to_string().contains("at most 1 MiB"));
    }
}
