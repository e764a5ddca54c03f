//! Reading a trace. In: a file. Out: its header, its threads, and each thread's events. Memory is bounded: 40 bytes for
//! each chunk of the file, and one chunk for each thread that is being read.

mod tables;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::coder::{Coder, Event, How};
use crate::error::{Error, Result};
use crate::format::{CHUNK_ALIGN, CHUNK_HEADER, Chunk, HEADER, Header, Table};
use crate::predictor::{Predictor, is_chosen};
use crate::stacks::StackId;

const _: () = assert!(size_of::<Chunk>() == 40, "what is said above");

/// An open trace.
pub struct Trace {
    path: PathBuf,
    file: File,
    /// Its header.
    pub header: Header,
    /// The chunks of each thread in order.
    threads: BTreeMap<u32, Vec<Chunk>>,
    /// The chunks with nodes, modules and resident pages.
    tables: Vec<Table>,
    /// Bytes of the file that are used.
    pub bytes: u64,
    /// Where the chain of chunks breaks, if it does.
    damage: Option<String>,
    /// Where the window begins, in ticks; 0 without a window.
    from: u64,
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
    /// Of an allocation: its stack; 0 for none.
    pub stack: StackId,
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
        let (threads, tables) = (BTreeMap::new(), Vec::new());
        let mut trace = Trace { path: path.into(), file, header, threads, tables, bytes: end, damage: None, from: 0 };
        if trace.header.used > length {
            trace.damage = Some(format!("the file is cut: wanted {} bytes, found {length}", trace.header.used));
        }
        trace.find_chunks(end)?;
        trace.begin_window();
        Ok(trace)
    }

    /// Finds where the window begins, and drops what ended before. The header then begins there.
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

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, open.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The number of threads that have written.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// The damage of the file, in words. Events before it are read.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Whether a chunk is behind another one in a place of a window.
    fn is_in_place(&self, offset: u64) -> bool {
        self.has_window() && !(offset - HEADER as u64).is_multiple_of(u64::from(self.header.ring))
    }

    fn find_chunks(&mut self, end: u64) -> Result<()> {
        let mut buffer = vec![0; WINDOW];
        let (mut start, mut filled) = (0_u64, 0_usize);
        let mut offset = HEADER as u64;
        // The thread of the chunk before.
        let mut last = None;
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
                Some(mut chunk) if offset + u64::from(chunk.length) <= end => {
                    if self.is_in_place(offset) {
                        // The place's first chunk says when the last one ended. The one before ended when this began.
                        let before = last.and_then(|last| self.threads.get_mut(&last)).and_then(|all| all.last_mut());
                        if let Some(before) = before {
                            chunk.closed = std::mem::replace(&mut before.closed, chunk.stamp);
                        }
                    }
                    last = Some(chunk.thread);
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
                None if self.header.stacks > 0
                    && let Some(table) = Table::read(bytes, offset)
                    && offset + u64::from(table.length) <= end =>
                {
                    self.tables.push(table);
                    offset += u64::from(table.length);
                }
                // Of a window: not begun, or half erased.
                None if self.has_window() => {
                    let ring = u64::from(self.header.ring);
                    offset += ring - (offset - HEADER as u64) % ring;
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
        Ok(())
    }

    /// Each thread's number with the tick of its first chunk.
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
    /// Of a trace with stacks.
    predictor: Option<Box<Predictor>>,
    /// The stack that the trace gives for the next allocation.
    given: Option<StackId>,
    stack_bytes: u64,
    stamp: u64,
    ready: VecDeque<Item>,
    damage: Option<String>,
    over: bool,
    /// The window has the begin of a realloc, so it has its end.
    in_realloc: bool,
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
                    match event {
                        Event::Stamp => {}
                        Event::Stack(stack) if self.predictor.is_some() => {
                            self.given = Some(stack);
                            self.stack_bytes += length as u64;
                        }
                        Event::Stack(_) => {
                            let version = self.trace.header.version;
                            self.damage =
                                Some(format!("byte {}: a stack in version {version}", self.origin + self.at as u64));
                            self.over = true;
                        }
                        _ => {
                            let stack = self.stack_of(event);
                            let promised = self.trace.header.stamp_ticks.unwrap_or(u64::MAX);
                            self.ready.push_back(Item { event, low, high: low.saturating_add(promised), stack });
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

    /// The stack of an event that was just read; 0 if it is no allocation, or has none.
    fn stack_of(&mut self, event: Event) -> StackId {
        let (Event::New { address, size, .. }, Some(predictor)) = (event, &mut self.predictor) else { return 0 };
        if !is_chosen(address, self.trace.header.stacks) {
            return 0;
        }
        let stack = self.given.take().unwrap_or_else(|| predictor.foretold(size));
        predictor.keep(size, stack);
        stack
    }

    /// Bytes of the events so far that say what stack an allocation has.
    pub(crate) fn stack_bytes(&self) -> u64 {
        self.stack_bytes
    }

    /// The event as the window has it; None if it was before. See the format.
    fn within(&mut self, item: Item) -> Option<Item> {
        let from = self.trace.from;
        let is_within = match item.event {
            Event::Free { .. } => item.high >= from,
            Event::Resize { .. } => {
                self.in_realloc = item.high >= from;
                self.in_realloc
            }
            Event::New { how: How::Resized, .. } | Event::ResizeFailed | Event::ResizeFreed => {
                std::mem::replace(&mut self.in_realloc, false) || item.low >= from
            }
            Event::End => true,
            _ => item.low >= from,
        };
        // A free between two stamps, of which the first is before the window: of a block that the thread had just made
        // itself. Its allocation was before; to wait for another until the second stamp would find a wrong one.
        let is_before = item.low < from && matches!(item.event, Event::Free { .. } | Event::Resize { .. });
        let high = if is_before { from } else { item.high };
        is_within.then_some(Item { low: item.low.max(from), high, ..item })
    }

    /// The events since `first` happened no later than the present stamp.
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
        if let Err(error) = self.trace.file.read_exact_at(&mut self.bytes, self.origin) {
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
