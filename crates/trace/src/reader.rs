//! Reads a trace. In: a file. Out: its header, its threads, and each thread's events. The memory is bounded: 40 bytes
//! for each chunk of the file (64 for a packed one), and one chunk for each thread that is being read.

mod packed;
mod tables;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::coder::{AllocFunction, Coder, Event};
use crate::error::{Error, Result};
use crate::format::{CHUNK_HEADER, Chunk, HEADER, MAGIC, TableHeader, TraceHeader};
use crate::predictor::{Predictor, is_chosen};
use crate::stacks::StackId;

const _: () = assert!(size_of::<Chunk>() == 40, "what is said above");

/// An open trace.
pub struct Trace {
    path: PathBuf,
    file: File,
    /// Its header.
    pub header: TraceHeader,
    /// The chunks of each thread, in order.
    threads: BTreeMap<u32, Vec<Chunk>>,
    /// The chunks with nodes, modules and resident pages.
    tables: Vec<TableHeader>,
    /// The used bytes; for a packed trace, those of the unpacked file.
    pub bytes: u64,
    /// The bytes of the file, if it is packed.
    pub packed_bytes: Option<u64>,
    /// The places of the chunks, if the trace is packed.
    packed: Vec<Packed>,
    /// Where the chain of chunks breaks; `None` if it is complete.
    damage: Option<String>,
    /// Where the window begins, in ticks; 0 without a window.
    from: u64,
}

/// A chunk of a packed trace.
#[derive(Clone, Copy)]
struct Packed {
    /// Its offset in the unpacked file.
    offset: u64,
    /// The offset in the packed file of the bytes after the chunk's header, and the number of these bytes.
    at: u64,
    length: u32,
}

/// An event with the times between which it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The event.
    pub event: Event,
    /// The event happened at this tick or later.
    pub low: u64,
    /// The event happened at this tick or earlier.
    pub high: u64,
    /// The stack of an allocation; 0 if it has none, and for other events.
    pub stack: StackId,
}

/// The bytes that the search for chunks reads in one call.
const WINDOW: usize = 64 << 10;

/// Reads headers at rising offsets, many of them with one system call.
pub(crate) struct Headers<'a> {
    path: &'a Path,
    buffer: Vec<u8>,
    start: u64,
    filled: usize,
}

impl<'a> Headers<'a> {
    pub(crate) fn new(path: &'a Path) -> Self {
        Headers { path, buffer: vec![0; WINDOW], start: 0, filled: 0 }
    }

    /// The first `N` bytes at an offset. `None` if the file ends before that.
    pub(crate) fn at<const N: usize>(&mut self, file: &File, offset: u64) -> Result<Option<&[u8; N]>> {
        if offset < self.start || offset.saturating_add(N as u64) > self.start + self.filled as u64 {
            (self.start, self.filled) = (offset, 0);
            while self.filled < self.buffer.len() {
                match file.read_at(&mut self.buffer[self.filled..], self.start + self.filled as u64) {
                    Ok(0) => break,
                    Ok(read) => self.filled += read,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(Error::file(self.path, "reading the trace", error)),
                }
            }
        }
        let from = (offset - self.start) as usize;
        Ok(self.buffer[..self.filled].get(from..).and_then(|rest| rest.first_chunk()))
    }
}

/// Whether a file begins as a trace does. A file that cannot be read is no trace.
pub fn is_one(path: &Path) -> bool {
    let mut begin = [0; MAGIC.len()];
    path.is_file() && File::open(path).is_ok_and(|file| file.read_exact_at(&mut begin, 0).is_ok()) && begin == MAGIC
}

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
        let header = TraceHeader::read(&bytes).map_err(|error| Error::file(path, "reading the trace", error))?;
        let end = match header.is_packed {
            // The limit prevents an overflow of sums of offsets.
            true => header.used.min(1 << 60),
            false => header.used.clamp(HEADER as u64, length.max(HEADER as u64)).min(length),
        };
        let packed_bytes = header.is_packed.then_some(length);
        let (threads, tables, packed) = (BTreeMap::new(), Vec::new(), Vec::new());
        let path = path.into();
        let mut trace =
            Trace { path, file, header, threads, tables, bytes: end, packed_bytes, packed, damage: None, from: 0 };
        if trace.header.is_packed {
            trace.find_packed(length)?;
            trace.check_memory(length)?;
        } else {
            if trace.header.used > length {
                trace.damage = Some(format!("the file is cut: wanted {} bytes, found {length}", trace.header.used));
            }
            trace.find_chunks(end)?;
        }
        trace.order_chunks();
        trace.begin_window();
        Ok(trace)
    }

    /// Finds the beginning of the window, and drops chunks that ended before it. Changes the times in the header so
    /// that they begin there.
    fn begin_window(&mut self) {
        let header = &mut self.header;
        if header.window == 0 {
            return;
        }
        let chunks = self.threads.values().flatten();
        let last = chunks.map(|chunk| chunk.closed.max(chunk.stamp)).max().unwrap_or(0).max(header.last_ticks);
        let length = (header.window as f64 / header.tick_ns) as u64;
        self.from = header.horizon.max(last.saturating_sub(length)).max(header.start_ticks);
        let passed = header.nanos(self.from);
        for mark in [&mut header.marks.ready, &mut header.marks.peak, &mut header.marks.idle, &mut header.end] {
            *mark = mark.and_then(|nanos| nanos.checked_sub(passed));
        }
        header.start_wall += passed;
        header.start_ticks = self.from;
        let from = self.from;
        self.threads.values_mut().for_each(|chunks| chunks.retain(|chunk| chunk.closed == 0 || chunk.closed >= from));
        self.threads.retain(|_, chunks| !chunks.is_empty());
    }

    /// Whether the trace has the last seconds only.
    pub fn has_window(&self) -> bool {
        self.header.window > 0
    }

    /// Whether the trace lacks blocks from before its beginning: it has only the last seconds, or the recorder was put
    /// into a running process.
    pub fn lacks_begin(&self) -> bool {
        self.has_window() || self.header.attached
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The number of threads that have written.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// The damage of the file, in words. Events before the damage are read.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Whether a chunk follows another one in a place of a window.
    fn is_in_place(&self, offset: u64) -> bool {
        self.has_window() && !(offset - HEADER as u64).is_multiple_of(u64::from(self.header.ring))
    }

    fn find_chunks(&mut self, end: u64) -> Result<()> {
        let path = self.path.clone();
        let mut headers = Headers::new(&path);
        let mut offset = HEADER as u64;
        // The thread of the previous chunk.
        let mut last = None;
        while offset + CHUNK_HEADER as u64 <= end {
            let Some(bytes) = headers.at(&self.file, offset)? else { break };
            let Some(length) = self.found(bytes, offset, end, &mut last) else { break };
            offset += length;
        }
        Ok(())
    }

    /// Stores the chunk with this header, and returns the distance to the next chunk. `None` if there is no chunk here;
    /// nothing after this place is then read.
    fn found(&mut self, bytes: &[u8; CHUNK_HEADER], offset: u64, end: u64, last: &mut Option<u32>) -> Option<u64> {
        match Chunk::read(bytes, offset) {
            Some(mut chunk) if offset + u64::from(chunk.length) <= end => {
                if self.is_in_place(offset) {
                    // The header of the place's first chunk has the time at which the place's last chunk ended. Each
                    // other chunk of the place ended when the next one began. So the previous chunk ended when this one
                    // began, and this one takes over the time from the header.
                    let before = last.and_then(|last| self.threads.get_mut(&last)).and_then(|all| all.last_mut());
                    if let Some(before) = before {
                        chunk.closed = std::mem::replace(&mut before.closed, chunk.stamp);
                    }
                }
                *last = Some(chunk.thread);
                self.threads.entry(chunk.thread).or_default().push(chunk);
                Some(u64::from(chunk.length))
            }
            // If the file was cut, its last chunk ends at the end of the file.
            Some(chunk) => {
                let length = (end - offset) as u32;
                self.threads.entry(chunk.thread).or_default().push(Chunk { length, ..chunk });
                self.damage.get_or_insert(format!("the chunk at byte {offset} is cut"));
                None
            }
            None if self.header.stacks > 0
                && let Some(table) = TableHeader::read(bytes, offset)
                && offset + u64::from(table.length) <= end =>
            {
                self.tables.push(table);
                Some(u64::from(table.length))
            }
            None => match self.header.gap(bytes, offset) {
                None => {
                    self.damage.get_or_insert(format!("wanted a chunk at byte {offset}, found something else"));
                    None
                }
                gap => gap,
            },
        }
    }

    /// Puts the chunks of each thread in order.
    fn order_chunks(&mut self) {
        for chunks in self.threads.values_mut() {
            chunks.sort_by_key(|chunk| (chunk.number, chunk.offset));
            if self.header.window > 0 {
                continue;
            }
            // After a missing chunk the writer's state is unknown.
            let in_order = chunks.iter().enumerate().take_while(|(at, chunk)| chunk.number as usize == *at).count();
            if in_order < chunks.len() {
                let (thread, missing) = (chunks[0].thread, in_order);
                self.damage.get_or_insert(format!("thread {thread} lacks its chunk {missing}"));
                chunks.truncate(in_order);
            }
        }
        self.threads.retain(|_, chunks| !chunks.is_empty());
    }

    /// Reads the bytes after the header of a chunk.
    fn read_chunk(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        if self.header.is_packed {
            self.unpack(offset, out)
        } else {
            self.file.read_exact_at(out, offset + CHUNK_HEADER as u64)
        }
    }

    /// Each thread's number, and the tick of its first chunk.
    pub fn threads(&self) -> impl Iterator<Item = (u32, u64)> {
        self.threads.iter().map(|(thread, chunks)| (*thread, chunks[0].stamp.max(self.from)))
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
            predictor: (self.header.stacks > 0).then(Box::default),
            given: None,
            stack_bytes: 0,
            stamp: 0,
            ready: VecDeque::new(),
            damage: None,
            over: false,
            in_realloc: false,
        }
    }
}

/// The maximum number of events that are held back until the next stamp. Only a damaged trace has more.
const MOST_HELD: usize = 256;

/// One thread's events in order.
pub struct Stream<'a> {
    trace: &'a Trace,
    chunks: std::slice::Iter<'a, Chunk>,
    /// The bytes of the present chunk's events, and the place in them.
    bytes: Vec<u8>,
    at: usize,
    /// The offset of these bytes in the file.
    origin: u64,
    coder: Box<Coder>,
    /// The predictor, for a trace with stacks.
    predictor: Option<Box<Predictor>>,
    /// The stack from the last stack event, for the next allocation.
    given: Option<StackId>,
    stack_bytes: u64,
    stamp: u64,
    ready: VecDeque<Item>,
    damage: Option<String>,
    over: bool,
    /// Whether the beginning of the present realloc is in the window. Then its end is in the window too.
    in_realloc: bool,
}

impl Stream<'_> {
    /// Why the stream ended early, in words; `None` if it did not.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Reads until a stamp gives the latest time of the events before it.
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
                    match event {
                        Event::Stamp => {}
                        Event::Stack(stack) if self.predictor.is_some() => {
                            self.given = Some(stack);
                            self.stack_bytes += length as u64;
                        }
                        Event::Stack(_) => {
                            self.damage = Some(format!(
                                "byte {}: a stack in a trace without stacks",
                                self.origin + self.at as u64
                            ));
                            self.over = true;
                        }
                        _ => {
                            let stack = self.stack_of(event);
                            let high = low.saturating_add(self.trace.header.stamp_ticks);
                            self.ready.push_back(Item { event, low, high, stack });
                        }
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

    /// The stack of the event that was just read; 0 if it is not an allocation, or has no stack.
    fn stack_of(&mut self, event: Event) -> StackId {
        let (Event::New { address, size, .. }, Some(predictor)) = (event, &mut self.predictor) else { return 0 };
        if !is_chosen(address, self.trace.header.stacks) {
            return 0;
        }
        let stack = self.given.take().unwrap_or_else(|| predictor.foretold(size));
        predictor.keep(size, stack);
        stack
    }

    /// The number of bytes, so far, of the events that contain a stack.
    pub(crate) fn stack_bytes(&self) -> u64 {
        self.stack_bytes
    }

    /// The event as it is in the window; `None` if it was before the window. The format has the rules.
    fn within(&mut self, item: Item) -> Option<Item> {
        let from = self.trace.from;
        let is_within = match item.event {
            Event::Free { .. } => item.high >= from,
            Event::Resize { .. } => {
                self.in_realloc = item.high >= from;
                self.in_realloc
            }
            Event::New { how: AllocFunction::Resized, .. } | Event::ResizeFailed | Event::ResizeFreed => {
                std::mem::replace(&mut self.in_realloc, false) || item.low >= from
            }
            Event::End => true,
            _ => item.low >= from,
        };
        // This is a free between two stamps, the first of which is before the window. The thread frees a block that it
        // has just made, so the allocation was before the window. If the free waited for an allocation until the second
        // stamp, it would match a wrong one.
        let is_before = item.low < from && matches!(item.event, Event::Free { .. } | Event::Resize { .. });
        let high = if is_before { from } else { item.high };
        is_within.then_some(Item { low: item.low.max(from), high, ..item })
    }

    /// Limits the latest time of the events from number `first` on to the present stamp.
    fn settle(&mut self, first: usize) {
        let stamp = self.stamp;
        self.ready.iter_mut().skip(first).for_each(|item| item.high = item.high.min(stamp));
    }

    fn next_chunk(&mut self) {
        let Some(chunk) = self.chunks.next() else {
            self.over = true;
            return;
        };
        self.origin = chunk.offset + CHUNK_HEADER as u64;
        self.bytes.resize((chunk.length as usize).saturating_sub(CHUNK_HEADER), 0);
        self.at = 0;
        if let Err(error) = self.trace.read_chunk(chunk.offset, &mut self.bytes) {
            self.damage = Some(format!("byte {}: {error}", self.origin));
            self.over = true;
        }
        if self.trace.has_window() {
            *self.coder = Coder::NEW;
            self.given = None;
            if let Some(predictor) = self.predictor.as_deref_mut() {
                predictor.clear();
            }
        }
        self.stamp = self.stamp.max(chunk.stamp);
        self.settle(0);
    }
}

impl Iterator for Stream<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            if self.ready.is_empty() {
                self.fill();
            }
            let item = self.ready.pop_front()?;
            if let Some(item) = self.within(item) {
                return Some(item);
            }
        }
    }
}
