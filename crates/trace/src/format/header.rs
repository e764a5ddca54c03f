//! The header of a trace as numbers and texts.

use super::chunk::is_chunk_length;
use super::{
    CHUNK_ALIGN, CHUNK_HEADER, CONFINED, DETACHED, HEADER, MAGIC, PACKED, STACKS, VERSION, WINDOW, at, u32_at, u64_at,
};
use crate::error::{Error, Result};

/// The reason for the end of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEnd {
    /// The process still records, or it was killed.
    Recording,
    /// The process exited.
    Exited,
    /// The maximum size was reached; the program ran on.
    Full,
    /// The disk was full; the program ran on.
    NoRoom,
    /// The recorder was taken out of the process; the program ran on.
    TakenOut,
    /// The process asked to forbid itself what the recorder needs; the program ran on.
    Confined,
}

impl TraceEnd {
    /// Whether the recording stopped by itself while the program ran on.
    pub const fn is_early(self) -> bool {
        matches!(self, TraceEnd::Full | TraceEnd::NoRoom | TraceEnd::Confined)
    }

    /// The end in words.
    pub const fn words(self) -> &'static str {
        match self {
            TraceEnd::Recording => "the process still runs or was killed",
            TraceEnd::Exited => "the process exited",
            TraceEnd::Full => "stopped at the maximum size; the program ran on",
            TraceEnd::NoRoom => "stopped because the disk was full; the program ran on",
            TraceEnd::TakenOut => "the recorder was taken out of the process; the program ran on",
            TraceEnd::Confined => {
                "stopped before the process asked to limit its own system calls or time-stamp counter; the program ran on"
            }
        }
    }
}

/// Moments of a run, in nanoseconds from the start of its trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// When the service was ready.
    pub ready: Option<u64>,
    /// When its load ended. The peak is the most live bytes between ready and this moment.
    pub peak: Option<u64>,
    /// When it was idle.
    pub idle: Option<u64>,
}

/// A file header as numbers and texts.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceHeader {
    /// Whether the chunks are packed. Then `used` is the size of the unpacked file.
    pub is_packed: bool,
    /// Bytes handed out to chunks.
    pub used: u64,
    /// Why the trace ends.
    pub state: TraceEnd,
    /// One block in this many is recorded.
    pub rate: u32,
    /// The process.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Ticks at the start.
    pub start_ticks: u64,
    /// Wall clock at the start, nanoseconds since 1970.
    pub start_wall: u64,
    /// Ticks at the last update.
    pub last_ticks: u64,
    /// Nanoseconds of one tick.
    pub tick_ns: f64,
    /// Calls that were not recorded.
    pub lost: u64,
    /// The number of `lost` calls for which a window had no chunk.
    pub no_chunk: u64,
    /// Whether the program had `PYTHONMALLOC=malloc`. Without it, Python's small objects are not blocks of malloc.
    pub python_malloc: bool,
    /// RssAnon at the last reading in bytes, without the writer's own memory.
    pub resident: u64,
    /// The most RssAnon so far, including the time between two readings.
    pub most_resident: u64,
    /// Whether the recorder was put into a process that already ran, so that blocks from before are not in the trace.
    pub attached: bool,
    /// Whether the recorder was taken out again, so that the process no longer writes to the trace.
    pub taken_out: bool,
    /// The requested window, in nanoseconds; 0 for the whole run.
    pub window: u64,
    /// The tick at which the last overwritten place had been closed. Earlier events are lost.
    pub horizon: u64,
    /// Length of every place of a window.
    pub ring: u32,
    /// The stack of one allocation in this many is recorded; 0 for none.
    pub stacks: u32,
    /// Whether stacks were requested and the C library has no `_dl_find_object`.
    pub no_stacks: bool,
    /// Stacks that had more frames than are recorded.
    pub cut: u64,
    /// Stacks that could not be walked to their end.
    pub broken: u64,
    /// Stacks for which the tables had no room.
    pub no_room: u64,
    /// An event without a stamp happened at most this many ticks after the stamp before it.
    pub stamp_ticks: u64,
    /// The size of a page of the kernel under which the program ran.
    pub page: u64,
    /// When the recording was ended from outside and the resident pages were read, in nanoseconds from the start.
    pub end: Option<u64>,
    /// The moments of the run at which its memory was read.
    pub marks: Marks,
    /// The program's path.
    pub program: String,
    /// The host.
    pub host: String,
    /// The writer's build.
    pub build: String,
    /// The command line.
    pub command: String,
}

impl TraceHeader {
    /// Says why the trace has no stacks, and what to do, as a part of a sentence; `None` if it has them.
    pub fn without_stacks(&self) -> Option<&'static str> {
        match (self.stacks, self.no_stacks) {
            (0, true) => Some(
                "this trace has no stacks, although they were asked for: they need x86-64 or aarch64, and a C library with \
                 _dl_find_object (glibc 2.35 or later)",
            ),
            (0, false) => Some("this trace has no stacks: record again with --stack-sample all"),
            _ => None,
        }
    }

    /// Reads the first 4096 bytes of a file.
    pub fn read(bytes: &[u8]) -> Result<TraceHeader> {
        if bytes.len() < HEADER || bytes[..8] != MAGIC {
            return Err(Error::new(
                "wanted a trace of `allocanary record` (it begins with ALCTRACE), found another file",
            ));
        }
        let version = u32_at(bytes, at::VERSION);
        let parts = u32_at(bytes, at::PARTS);
        if version != VERSION || parts & !(WINDOW | STACKS | PACKED) != 0 {
            return Err(Error::new(format!(
                "wanted a trace of version {VERSION} with no other parts than a window, stacks and packing (bits 1, 2, 4), found version \
                 {version} with the bits {parts:#x}: read it with the allocanary that recorded it, or record again"
            )));
        }
        let has = |part: u32| parts & part != 0;
        let (has_window, has_stacks) = (has(WINDOW), has(STACKS));
        let windowed = |number: u64| if has_window { number } else { 0 };
        let stacked = |number: u64| if has_stacks { number } else { 0 };
        let ring = windowed(u64::from(u32_at(bytes, at::RING))) as u32;
        if has_window && !is_chunk_length(ring) {
            return Err(Error::new(format!("wanted a length of the chunks, found {ring}")));
        }
        let attached = u32_at(bytes, at::ATTACHED);
        let state = match u32_at(bytes, at::STATE) {
            0 => TraceEnd::Recording,
            1 if attached == DETACHED => TraceEnd::TakenOut,
            1 => TraceEnd::Exited,
            2 => TraceEnd::Full,
            CONFINED => TraceEnd::Confined,
            _ => TraceEnd::NoRoom,
        };
        let (ticks, nanos) = (
            u64_at(bytes, at::LAST_TICKS).wrapping_sub(u64_at(bytes, at::START_TICKS)),
            u64_at(bytes, at::LAST_MONOTONIC).wrapping_sub(u64_at(bytes, at::START_MONOTONIC)),
        );
        // A mark from before the start belongs to an earlier process. What happened after an early end is not in the trace.
        let start = u64_at(bytes, at::START_MONOTONIC);
        let last = if state.is_early() { nanos } else { u64::MAX };
        let mark =
            |at: usize| u64_at(bytes, at::MARKS + 8 * at).checked_sub(start).filter(|mark| (1..=last).contains(mark));
        let marks = Marks { ready: mark(0), peak: mark(1), idle: mark(2) };
        // A process that was killed immediately has no second reading of the clocks. The counter is then assumed to have 2.5 GHz.
        let known = ticks > 0 && nanos > 0 && ticks < 1 << 60 && nanos < 1 << 60;
        let tick_ns = if known { nanos as f64 / ticks as f64 } else { 12.8 };
        Ok(TraceHeader {
            is_packed: has(PACKED),
            used: u64_at(bytes, at::USED),
            state,
            rate: u32_at(bytes, at::RATE).max(1),
            pid: u32_at(bytes, at::PID),
            parent: u32_at(bytes, at::PARENT),
            start_ticks: u64_at(bytes, at::START_TICKS),
            start_wall: u64_at(bytes, at::START_WALL),
            last_ticks: u64_at(bytes, at::LAST_TICKS),
            tick_ns: tick_ns.clamp(0.01, 1e6),
            lost: u64_at(bytes, at::LOST),
            python_malloc: u32_at(bytes, at::PYTHON_MALLOC) == 1,
            no_chunk: windowed(u64_at(bytes, at::NO_CHUNK)),
            resident: u64_at(bytes, at::RESIDENT),
            most_resident: u64_at(bytes, at::MOST_RESIDENT),
            attached: attached > 0,
            taken_out: attached == DETACHED,
            window: windowed(u64_at(bytes, at::WINDOW)),
            horizon: windowed(u64_at(bytes, at::HORIZON)),
            ring,
            stacks: stacked(u64::from(u32_at(bytes, at::STACKS)).max(1)) as u32,
            no_stacks: !has_stacks && u32_at(bytes, at::STACKS) == 1,
            cut: stacked(u64_at(bytes, at::CUT)),
            broken: stacked(u64_at(bytes, at::BROKEN)),
            no_room: stacked(u64_at(bytes, at::NO_ROOM)),
            stamp_ticks: u64_at(bytes, at::STAMP_TICKS),
            page: page_at(bytes),
            end: u64_at(bytes, at::END).checked_sub(start).filter(|nanos| *nanos > 0),
            marks,
            program: text_at(bytes, at::PROGRAM, at::HOST),
            host: text_at(bytes, at::HOST, at::BUILD),
            build: text_at(bytes, at::BUILD, at::COMMAND),
            command: text_at(bytes, at::COMMAND, HEADER),
        })
    }

    /// The distance to the next possible chunk, if the chunk at this place was not begun. `None` if there are other bytes here.
    pub(crate) fn gap(&self, bytes: &[u8; CHUNK_HEADER], offset: u64) -> Option<u64> {
        if self.window > 0 {
            // No thread has begun this place, or it is partly erased.
            let ring = u64::from(self.ring);
            return Some(ring - (offset - HEADER as u64) % ring);
        }
        // The chunk was handed out and not begun: the process died, or a thread had just started.
        bytes.iter().all(|byte| *byte == 0).then_some(CHUNK_ALIGN as u64)
    }

    /// Nanoseconds from the start to a stamp.
    pub fn nanos(&self, ticks: u64) -> u64 {
        (ticks.saturating_sub(self.start_ticks) as f64 * self.tick_ns) as u64
    }
}

/// The size of a page. A damaged header may have any number: then it is that of most kernels.
fn page_at(bytes: &[u8]) -> u64 {
    let page = u64::from(u32_at(bytes, at::PAGE));
    if page.is_power_of_two() && (4 << 10..=64 << 10).contains(&page) { page } else { 4 << 10 }
}

fn text_at(bytes: &[u8], from: usize, to: usize) -> String {
    let text = bytes[from..to].split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
