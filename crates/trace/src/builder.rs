//! Makes synthetic traces, for tests and benches. In: events with their threads and times. Out: the bytes of a trace.

use std::collections::BTreeMap;

use crate::coder::{AllocFunction, Coder, Event, is_short};
use crate::format::{
    CHUNK_ALIGN, CHUNK_HEADER, Chunk, HEADER, LONGEST_EVENT, MAGIC, MODULE_MAGIC, NODE_MAGIC, RESIDENT_MAGIC,
    STAMP_EVERY, STAMP_TICKS, TableHeader, VERSION, at, parts_of, put_module,
};
use crate::predictor::{Predictor, is_chosen};
use crate::stacks::{Resident, StackId, Stacks};

/// A trace that grows event by event.
pub struct TraceBuilder {
    bytes: Vec<u8>,
    threads: BTreeMap<u32, Thread>,
    /// The length of a chunk.
    chunk: usize,
    /// The number of events between two stamps.
    every: u32,
    last: u64,
    /// The window in ticks, and the tick until which closed chunks are overwritten.
    window: Option<(u64, u64)>,
    /// The stack of one allocation in this many is written; 0 without stacks.
    stacks: u32,
}

struct Thread {
    coder: Coder,
    predictor: Box<Predictor>,
    events: Vec<u8>,
    begun: u64,
    stamp: u64,
    since: u32,
    number: u32,
}

impl TraceBuilder {
    /// Begins an empty trace with chunks of this length.
    pub fn new(chunk: usize) -> Self {
        TraceBuilder {
            bytes: vec![0; HEADER],
            threads: BTreeMap::new(),
            chunk,
            every: STAMP_EVERY,
            last: 0,
            window: None,
            stacks: 0,
        }
    }

    /// Like [`new`](Self::new), with this many events between two stamps.
    pub fn stamped(chunk: usize, every: u32) -> Self {
        TraceBuilder { every, ..TraceBuilder::new(chunk) }
    }

    /// Like [`new`](Self::new), for a window of this many ticks. Chunks that were closed at tick `lost` or before are
    /// overwritten.
    pub fn windowed(chunk: usize, window: u64, lost: u64) -> Self {
        TraceBuilder { window: Some((window, lost)), ..TraceBuilder::new(chunk) }
    }

    /// Like [`new`](Self::new), with the stacks of one allocation in `one_in`.
    pub fn with_stacks(chunk: usize, one_in: u32) -> Self {
        TraceBuilder { stacks: one_in.max(1), ..TraceBuilder::new(chunk) }
    }

    /// Like [`windowed`](Self::windowed), with the stacks of one allocation in `one_in`.
    pub fn windowed_with_stacks(chunk: usize, window: u64, lost: u64, one_in: u32) -> Self {
        TraceBuilder { stacks: one_in.max(1), ..TraceBuilder::windowed(chunk, window, lost) }
    }

    /// Adds the tables of a trace with stacks: its nodes (without the root) and its modules.
    pub fn tables(&mut self, stacks: &Stacks) {
        let mut nodes = Vec::new();
        for node in stacks.nodes.iter().skip(1) {
            nodes.extend(node.pc.to_le_bytes());
            nodes.extend([node.parent, node.module].map(u32::to_le_bytes).as_flattened());
        }
        self.table(NODE_MAGIC, 1, 0, &nodes);
        let mut modules = Vec::new();
        for module in &stacks.modules {
            let mut record = [0; 8192];
            let numbers = [module.start, module.end, module.bias];
            let length = put_module(&mut record, numbers, module.path.as_bytes(), &module.build_id);
            modules.extend(&record[..length.expect("a path of at most 4096 bytes")]);
        }
        self.table(MODULE_MAGIC, 0, 0, &modules);
    }

    /// Adds the pages that were resident at a mark.
    pub fn resident(&mut self, resident: &Resident) {
        let pairs = resident.ranges.iter().flat_map(|range| [range.start, range.end]);
        let bytes: Vec<u8> = pairs.flat_map(u64::to_le_bytes).collect();
        self.table(RESIDENT_MAGIC, u32::from(resident.mark), resident.ranges.len() as u32, &bytes);
    }

    fn table(&mut self, magic: [u8; 4], first: u32, count: u32, bytes: &[u8]) {
        let offset = self.bytes.len();
        let length = (CHUNK_HEADER + bytes.len()).next_multiple_of(CHUNK_ALIGN);
        // In a window a table takes whole places.
        let places = if self.window.is_some() { length.next_multiple_of(self.chunk) } else { length };
        self.bytes.resize(offset + places, 0);
        let table = TableHeader { magic, offset: offset as u64, length: length as u32, first, count };
        table.write(&mut self.bytes[offset..]);
        self.bytes[offset + CHUNK_HEADER..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Whether the thread allocated this address recently. The free of such an address is written without a stamp.
    pub fn is_recent(&self, thread: u32, address: u64) -> bool {
        self.threads.get(&thread).is_some_and(|thread| thread.coder.recent(address).is_some())
    }

    /// Adds an event. Times must not go back within a thread.
    pub fn event(&mut self, thread: u32, ticks: u64, event: Event) {
        self.stacked(thread, ticks, event, 0);
    }

    /// Adds an event. If it is an allocation, and the trace has stacks, this is its stack.
    pub fn stacked(&mut self, thread: u32, ticks: u64, event: Event, stack: StackId) {
        self.last = self.last.max(ticks);
        let known = self.threads.len() + usize::from(!self.threads.contains_key(&thread));
        let is_multi = known > 1;
        let this = self.threads.entry(thread).or_insert_with(|| Thread {
            coder: Coder::NEW,
            predictor: Box::default(),
            events: Vec::new(),
            begun: ticks,
            stamp: ticks,
            since: 0,
            number: 0,
        });
        let room = if self.stacks > 0 { 4 } else { 3 };
        if this.events.len() + CHUNK_HEADER + room * LONGEST_EVENT > self.chunk {
            let closed = self.window.map(|(_, lost)| (ticks, lost, self.chunk));
            this.flush(thread, &mut self.bytes, closed);
            (this.begun, this.stamp, this.since) = (ticks, ticks, 0);
        }
        let mut buffer = [0; 4 * LONGEST_EVENT];
        let mut start = buffer.as_mut_ptr();
        let mut passed = ticks.saturating_sub(this.stamp);
        let coder = &mut this.coder;
        if let Event::New { address, size, .. } = event
            && self.stacks > 0
            && is_chosen(address, self.stacks)
        {
            if this.predictor.foretold(size) != stack {
                // SAFETY: the buffer has room for four events.
                start = unsafe { coder.put_other(start, Event::Stack(stack), 0) };
            }
            this.predictor.keep(size, stack);
        }
        let is_foreign = matches!(event, Event::New { address, .. } if is_multi && coder.recent(address).is_none());
        let is_small = matches!(event, Event::New { how: AllocFunction::Malloc, size, .. } if is_short(size));
        let is_late = passed > STAMP_TICKS && event != Event::Stamp;
        if (is_foreign || is_late) && !is_small {
            // SAFETY: as above.
            start = unsafe { coder.put_other(start, Event::Stamp, passed) };
            (this.stamp, this.since, passed) = (ticks, 0, 0);
        }
        // SAFETY: as above.
        let (end, stamped) = unsafe {
            match event {
                Event::New { how: AllocFunction::Malloc, address, size } if (is_foreign || is_late) && is_small => {
                    (coder.put_malloc_stamped(start, address, size, passed), true)
                }
                Event::New { how: AllocFunction::Malloc, address, size } => {
                    (coder.put_malloc(start, address, size), false)
                }
                Event::New { how, address, size } => (coder.put_new(start, how, address, size), false),
                Event::Free { address } => match coder.recent(address) {
                    Some(entry) => (coder.put_free_recent(start, entry), false),
                    None => (coder.put_free(start, address, passed), true),
                },
                Event::Resize { address } => coder.put_resize(start, address, passed),
                Event::ResizeFailed | Event::ResizeFreed => (coder.put_other(start, event, 0), false),
                _ => (coder.put_other(start, event, passed), true),
            }
        };
        let mut end = end;
        this.since += 1;
        if stamped {
            (this.stamp, this.since) = (ticks, 0);
        } else if this.since >= self.every {
            // SAFETY: as above.
            end = unsafe { coder.put_other(end, Event::Stamp, passed) };
            (this.stamp, this.since) = (ticks, 0);
        }
        this.events.extend_from_slice(&buffer[..end.addr() - buffer.as_ptr().addr()]);
    }

    /// The bytes of the whole file.
    pub fn finish(mut self) -> Vec<u8> {
        for (thread, this) in &mut self.threads {
            this.flush(*thread, &mut self.bytes, self.window.map(|(_, lost)| (0, lost, self.chunk)));
        }
        let used = self.bytes.len() as u64;
        let threads = self.threads.len() as u32;
        let mut put = |offset: usize, bytes: &[u8]| self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(at::VERSION, &VERSION.to_le_bytes());
        put(at::PARTS, &parts_of(self.window.is_some(), self.stacks > 0).to_le_bytes());
        put(at::STAMP_TICKS, &STAMP_TICKS.to_le_bytes());
        put(at::STACKS, &self.stacks.to_le_bytes());
        if let Some((window, lost)) = self.window {
            put(at::WINDOW, &(window * 10).to_le_bytes());
            put(at::HORIZON, &lost.to_le_bytes());
            put(at::RING, &(self.chunk as u32).to_le_bytes());
        }
        put(12, &(HEADER as u32).to_le_bytes());
        put(at::USED, &used.to_le_bytes());
        put(at::LIMIT, &used.to_le_bytes());
        put(at::STATE, &1_u32.to_le_bytes());
        put(at::RATE, &1_u32.to_le_bytes());
        put(at::PID, &1_u32.to_le_bytes());
        // One tick is 10 ns.
        put(at::LAST_TICKS, &self.last.max(1).to_le_bytes());
        put(at::LAST_MONOTONIC, &(self.last.max(1) * 10).to_le_bytes());
        put(at::THREADS, &threads.to_le_bytes());
        put(at::PAGE, &4096_u32.to_le_bytes());
        put(at::PROGRAM, b"/usr/bin/sample");
        put(at::COMMAND, b"sample");
        self.bytes
    }
}

impl Thread {
    /// Writes the thread's chunk. `window` is the tick at which the chunk is closed, the tick until which chunks are
    /// lost, and the length of a chunk.
    fn flush(&mut self, thread: u32, bytes: &mut Vec<u8>, window: Option<(u64, u64, usize)>) {
        if self.events.is_empty() {
            return;
        }
        let length = (CHUNK_HEADER + self.events.len() + 1).next_multiple_of(CHUNK_ALIGN);
        let length = window.map_or(length, |(.., chunk)| chunk);
        let closed = window.map_or(0, |(closed, ..)| closed);
        let offset = bytes.len();
        bytes.resize(offset + length, 0);
        let chunk = Chunk {
            offset: offset as u64,
            length: length as u32,
            thread,
            number: self.number,
            stamp: self.begun,
            closed,
        };
        let is_lost = window.is_some_and(|(closed, lost, _)| closed > 0 && closed <= lost);
        if !is_lost {
            chunk.write(&mut bytes[offset..]);
            bytes[offset + CHUNK_HEADER..offset + CHUNK_HEADER + self.events.len()].copy_from_slice(&self.events);
        }
        if window.is_some() {
            self.coder = Coder::NEW;
            self.predictor.clear();
        }
        self.events.clear();
        self.number += 1;
    }
}
