//! Splits a file of `/proc`, or a text in pieces that are cut anywhere, into lines. Allocates nothing.

use std::fs::File;
use std::io::{ErrorKind, Read, Result};

/// A longer line is truncated. This cuts only a mapping's path, which is the last word: no number is that far to the right.
const LONGEST: usize = 128;

/// The beginning of a line.
pub(super) struct Lines {
    line: [u8; LONGEST],
    length: usize,
}

impl Lines {
    pub(super) fn new() -> Lines {
        Lines { line: [0; LONGEST], length: 0 }
    }

    /// Takes the next piece of the text.
    pub(super) fn take(&mut self, piece: &[u8], mut each: impl FnMut(&[u8])) {
        for byte in piece {
            if *byte == b'\n' {
                self.end(&mut each);
            } else if self.length < LONGEST {
                self.line[self.length] = *byte;
                self.length += 1;
            }
        }
    }

    /// Ends the line.
    pub(super) fn end(&mut self, mut each: impl FnMut(&[u8])) {
        each(&self.line[..std::mem::take(&mut self.length)]);
    }
}

/// Each line of a file. The path must be shorter than 384 bytes: std opens such paths from the stack.
pub(super) fn each(path: &str, mut each: impl FnMut(&[u8])) -> Result<()> {
    let (mut file, mut lines, mut buffer) = (File::open(path)?, Lines::new(), [0; 4096]);
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => lines.take(&buffer[..length], &mut each),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    lines.end(each);
    Ok(())
}
