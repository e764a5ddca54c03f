//! Reads what a program writes. In: a pipe. Out: a file of bounded length, the hash of all bytes, and the last lines.
//!
//! A thread of ours reads each pipe, so that a program that writes a gigabyte fills neither memory nor the disk.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use allocanary_rows::program::Output;
use allocanary_sys::fnv::Fnv;
use allocanary_sys::private;
use allocanary_text::outside::harmless;

/// The length of a kept file. What is written after it is only read and counted.
pub const MOST_KEPT: u64 = 16 << 20;
/// How many of the last bytes are kept, to make messages of their end.
const MOST_END: usize = 8 << 10;

/// A pipe that is being read.
pub struct Pipe {
    state: Arc<Mutex<State>>,
    thread: JoinHandle<()>,
    /// The file with the first bytes.
    pub file: PathBuf,
}

#[derive(Default)]
struct State {
    bytes: u64,
    hash: Fnv,
    end: VecDeque<u8>,
    /// The text to wait for, and whether it was seen.
    wanted: Option<(Vec<u8>, bool)>,
    /// Whether the file can no longer be written, because the disk is full.
    is_full: bool,
}

impl Pipe {
    /// Reads `pipe` to its end, on a thread, into `file`. `wanted` is a text to wait for.
    pub fn read(pipe: impl Read + Send + 'static, file: &Path, wanted: Option<&str>) -> std::io::Result<Pipe> {
        let wanted = wanted.map(|text| (text.as_bytes().to_vec(), false));
        let state = Arc::new(Mutex::new(State { wanted, ..State::default() }));
        let (shared, mut out) = (state.clone(), private::replace(file, b"")?);
        let thread = thread::Builder::new().spawn(move || drain(pipe, &mut out, &shared))?;
        Ok(Pipe { state, thread, file: file.to_path_buf() })
    }

    /// Whether the text to wait for was written.
    pub fn has_wanted(&self) -> bool {
        self.state().wanted.as_ref().is_some_and(|(_, seen)| *seen)
    }

    /// Waits for the end of the pipe, for at most `most`, because a process that was not ended may hold it open.
    pub fn finish(&self, most: Duration) {
        let until = Instant::now() + most;
        let mut pause = Duration::from_micros(50);
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
    }

    /// The length and the hash so far.
    pub fn output(&self) -> Output {
        let state = self.state();
        Output { bytes: state.bytes, digest: format!("{:016x}", state.hash.value()) }
    }

    /// The last lines, joined.
    pub fn last_lines(&self) -> String {
        let end: Vec<u8> = self.state().end.iter().copied().collect();
        last_lines(&end)
    }

    /// Whether the file could not be written.
    pub fn is_full(&self) -> bool {
        self.state().is_full
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn drain(mut pipe: impl Read, out: &mut File, shared: &Mutex<State>) {
    let mut buffer = vec![0; 64 << 10];
    let mut window: Vec<u8> = Vec::new();
    loop {
        let read = match pipe.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let piece = &buffer[..read];
        let mut state = shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let room = MOST_KEPT.saturating_sub(state.bytes).min(read as u64) as usize;
        if room > 0 && !state.is_full {
            // On a full disk the rows need the room, so the file is emptied.
            state.is_full = out.write_all(&piece[..room]).is_err();
            if state.is_full {
                let _ = out.set_len(0);
            }
        }
        state.bytes += read as u64;
        state.hash.add(piece);
        let kept = &piece[read.saturating_sub(MOST_END)..];
        state.end.extend(kept);
        let surplus = state.end.len().saturating_sub(MOST_END);
        state.end.drain(..surplus);
        if let Some((wanted, seen)) = &mut state.wanted
            && !*seen
        {
            window.extend_from_slice(piece);
            *seen = wanted.is_empty() || window.windows(wanted.len()).any(|part| part == wanted.as_slice());
            let surplus = window.len().saturating_sub(wanted.len());
            window.drain(..surplus);
        }
    }
}

/// The last three lines, which contain the reason. They are joined, because an error is one line.
pub fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let kept = lines[lines.len().saturating_sub(3)..].join(" | ");
    harmless(&kept).chars().take(400).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static [u8], wanted: Option<&str>) -> (Pipe, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let pipe = Pipe::read(text, &folder.path().join("out"), wanted).unwrap();
        pipe.finish(Duration::from_secs(60));
        (pipe, folder)
    }

    #[test]
    fn equal_texts_have_equal_hashes_and_the_end_is_kept() {
        let (one, _folder) = read(b"a\nb\nc\nd\n", Some("c\nd"));
        assert_eq!(one.output(), read(b"a\nb\nc\nd\n", None).0.output());
        assert_ne!(one.output(), read(b"a\nb\nc\nD\n", None).0.output());
        assert_eq!((one.last_lines().as_str(), one.has_wanted()), ("b | c | d", true));
        assert_eq!(last_lines("\u{1b}[31mred\u{202e}\n".as_bytes()), "\u{fffd}[31mred\u{fffd}");
        assert_eq!(std::fs::read(&one.file).unwrap(), b"a\nb\nc\nd\n");
        assert!(!read(b"a\nb\n", Some("c")).0.has_wanted());
    }

    #[test]
    fn a_file_is_bounded_and_the_rest_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let long = std::io::repeat(b'x').take(MOST_KEPT + 100_000);
        let pipe = Pipe::read(long, &folder.path().join("out"), None).unwrap();
        pipe.finish(Duration::from_secs(600));
        assert_eq!(pipe.output().bytes, MOST_KEPT + 100_000);
        assert_eq!(pipe.file.metadata().unwrap().len(), MOST_KEPT);
    }
}
