//! Reading a trace. In: a file. Out: its header, its threads, and each thread's events. Memory is bounded: 24 bytes for
//! each chunk of the file, and one chunk for each thread that is being read.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::coder::{Coder, Event};
use crate::error::{Error, Result};
use crate::format::{CHUNK_ALIGN, CHUNK_HEADER, Chunk, HEADER, Header};

/// An open trace.
pub struct Trace {
    path: PathBuf,
    file: File,
    /// Its header.
    pub header: Header,
    /// The chunks of each thread in order.
    threads: BTreeMap<u32, Vec<Chunk>>,
    /// Bytes of the file that are used.
    pub bytes: u64,
    /// Where the chain of chunks breaks, if it does.
    damage: Option<String>,
}

/// An event with the time in which it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// What was called.
    pub event: Event,
    /// It happened at this tick or later.
    pub low: u64,
    /// It happened at this tick or earlier.
    pub high: u64,
}

/// Bytes that the search for chunks reads at once.
const WINDOW: usize = 64 << 10;

impl Trace {
    /// Opens a trace and finds its chunks.
    pub fn open(path: &Path) -> Result<Trace> {
        let file = File::open(path).map_err(|error| Error::file(path, "opening the trace", error))?;
        let length = file.metadata().map_err(|error| Error::file(path, "reading the trace", error))?.len();
        let mut bytes = vec![0; HEADER];
        let read = file.read_exact_at(&mut bytes, 0);
        if length >= HEADER as u64 {
            read.map_err(|error| Error::file(path, "reading the trace", error))?;
        }
        let header = Header::read(&bytes).map_err(|error| Error::file(path, "reading the trace", error))?;
        let end = header.used.clamp(HEADER as u64, length.max(HEADER as u64)).min(length);
        let mut trace = Trace { path: path.into(), file, header, threads: BTreeMap::new(), bytes: end, damage: None };
        if trace.header.used > length {
            trace.damage = Some(format!("the file is cut: wanted {} bytes, found {length}", trace.header.used));
        }
        trace.find_chunks(end)?;
        Ok(trace)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of threads that have written.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// The damage of the file, in words. Events before it are read.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    fn find_chunks(&mut self, end: u64) -> Result<()> {
        let mut buffer = vec![0; WINDOW];
        let (mut start, mut filled) = (0_u64, 0_usize);
        let mut offset = HEADER as u64;
        while offset + CHUNK_HEADER as u64 <= end {
            if offset < start || offset + CHUNK_HEADER as u64 > start + filled as u64 {
                (start, filled) = (offset, 0);
                while filled < buffer.len() {
                    match self.file.read_at(&mut buffer[filled..], start + filled as u64) {
                        Ok(0) => break,
                        Ok(read) => filled += read,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(Error::file(&self.path, "reading the trace", error)),
                    }
                }
                if filled < CHUNK_HEADER {
                    break;
                }
            }
            let bytes = &buffer[(offset - start) as usize..filled];
            match Chunk::read(bytes, offset) {
                Some(chunk) if offset + u64::from(chunk.length) <= end => {
                    self.threads.entry(chunk.thread).or_default().push(chunk);
                    offset += u64::from(chunk.length);
                }
                // The last one of a file that was cut is read as far as it goes.
                Some(chunk) => {
                    let length = (end - offset) as u32;
                    self.threads.entry(chunk.thread).or_default().push(Chunk { length, ..chunk });
                    let found = format!("the chunk at byte {offset} is cut");
                    self.damage.get_or_insert(found);
                    break;
                }
                // Handed out and not begun: the process died, or a thread had just started.
                None if bytes[..CHUNK_HEADER].iter().all(|byte| *byte == 0) => offset += CHUNK_ALIGN as u64,
                None => {
                    self.damage.get_or_insert(format!("wanted a chunk at byte {offset}, found something else"));
                    break;
                }
            }
        }
        for chunks in self.threads.values_mut() {
            chunks.sort_by_key(|chunk| (chunk.number, chunk.offset));
            // After a missing chunk the writer's state is unknown.
            let in_order = chunks.iter().enumerate().take_while(|(at, chunk)| chunk.number as usize == *at).count();
            if in_order < chunks.len() {
                let (thread, missing) = (chunks[0].thread, in_order);
                self.damage.get_or_insert(format!("thread {thread} lacks its chunk {missing}"));
                chunks.truncate(in_order);
            }
        }
        self.threads.retain(|_, chunks| !chunks.is_empty());
        Ok(())
    }

    /// Each thread's number with the tick of its first chunk.
    pub fn threads(&self) -> impl Iterator<Item = (u32, u64)> {
        self.threads.iter().map(|(thread, chunks)| (*thread, chunks[0].stamp))
    }

    /// The events of a thread.
    pub fn stream(&self, thread: u32) -> Stream<'_> {
        let chunks = self.threads.get(&thread).map_or(&[][..], Vec::as_slice);
        Stream {
            trace: self,
            chunks: chunks.iter(),
            bytes: Vec::new(),
            at: 0,
            origin: 0,
            coder: Box::new(Coder::NEW),
            stamp: 0,
            ready: VecDeque::new(),
            damage: None,
            over: false,
        }
    }
}

/// Events between two stamps that are held back for their later one; more only in a damaged trace.
const MOST_HELD: usize = 256;

/// One thread's events in order.
pub struct Stream<'a> {
    trace: &'a Trace,
    chunks: std::slice::Iter<'a, Chunk>,
    /// The present chunk's events, and the place in them.
    bytes: Vec<u8>,
    at: usize,
    /// Where those bytes lie in the file.
    origin: u64,
    coder: Box<Coder>,
    stamp: u64,
    ready: VecDeque<Item>,
    damage: Option<String>,
    over: bool,
}

impl Stream<'_> {
    /// What ended the stream early, in words.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Reads until a stamp says how late the events before it can have been.
    fn fill(&mut self) {
        let first = self.ready.len();
        while !self.over && self.ready.len() - first < MOST_HELD {
            if self.at >= self.bytes.len() {
                self.next_chunk();
                if self.ready.len() > first || self.over {
                    break;
                }
                continue;
            }
            match self.coder.read(&self.bytes[self.at..]) {
                Ok(None) => self.at = self.bytes.len(),
                Ok(Some((event, passed, length))) => {
                    self.at += length;
                    let before = self.stamp;
                    self.stamp = self.stamp.saturating_add(passed.unwrap_or(0));
                    if passed.is_some() {
                        self.settle(first);
                    }
                    let low = if passed.is_some() { self.stamp } else { before };
                    if event != Event::Stamp {
                        self.ready.push_back(Item { event, low, high: u64::MAX });
                    }
                    if passed.is_some() {
                        self.settle(first);
                        if self.ready.len() > first {
                            return;
                        }
                    }
                }
                Err(problem) => {
                    self.damage = Some(format!("byte {}: {problem}", self.origin + self.at as u64));
                    self.over = true;
                }
            }
        }
    }

    /// The events since `first` happened no later than the present stamp.
    fn settle(&mut self, first: usize) {
        let stamp = self.stamp;
        self.ready.iter_mut().skip(first).filter(|item| item.high == u64::MAX).for_each(|item| item.high = stamp);
    }

    fn next_chunk(&mut self) {
        let Some(chunk) = self.chunks.next() else {
            self.over = true;
            return;
        };
        self.origin = chunk.offset + CHUNK_HEADER as u64;
        self.bytes.resize((chunk.length as usize).saturating_sub(CHUNK_HEADER), 0);
        self.at = 0;
        if let Err(error) = self.trace.file.read_exact_at(&mut self.bytes, self.origin) {
            self.damage = Some(format!("byte {}: {error}", self.origin));
            self.over = true;
        }
        self.stamp = self.stamp.max(chunk.stamp);
        self.settle(0);
    }
}

impl Iterator for Stream<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if self.ready.is_empty() {
            self.fill();
        }
        self.ready.pop_front()
    }
}
