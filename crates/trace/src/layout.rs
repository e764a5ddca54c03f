//! The layout of a prepared trace in its file: operations and marks. `prepare` writes them, and a replay executes them directly from the
//! mapped file.

/// The first bytes of a prepared file. The last of them is its version.
pub(crate) const MAGIC: [u8; 8] = *b"ALCPREP\x01";
pub(crate) const HEADER: u64 = 4096;

pub(crate) mod kind {
    pub const MALLOC: u32 = 0;
    pub const CALLOC: u32 = 1;
    pub const FREE: u32 = 2;
    pub const REALLOC: u32 = 3;
    /// An epoch begins for this thread: its number in `slot`, nanoseconds since the start in `value`.
    pub const EPOCH: u32 = 4;
    /// The thread ends.
    pub const END: u32 = 5;
}

/// The bit of an operation whose block is in the pool.
const ELSEWHERE: u32 = 1 << 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Op {
    /// The block's slot, or an epoch.
    pub slot: u32,
    /// The kind in 3 bits, log2 of the alignment in 6, whether the block is in the pool in bit 9, and the slot's generation in the upper 16
    /// bits.
    pub what: u32,
    /// The size in bytes, or a time.
    pub value: u64,
}

impl Op {
    pub(crate) fn new(kind: u32, log2: u32, slot: u32, generation: u16, value: u64) -> Self {
        Op { slot, what: kind | log2 << 3 | u32::from(generation) << 16, value }
    }

    /// The same operation, with its block in the pool: see [`Elsewhere`](crate::prepare::Elsewhere).
    pub(crate) fn elsewhere(self) -> Self {
        Op { what: self.what | ELSEWHERE, ..self }
    }

    #[inline(always)]
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.what & ELSEWHERE != 0
    }

    pub(crate) fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.slot.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.what.to_le_bytes());
        bytes[8..].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }
}

/// A moment at which a replay stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayMoment {
    /// The service was ready.
    Ready,
    /// The live bytes are at their maximum.
    Peak,
    /// The program began its longest wait after the peak, or ended.
    Idle,
}

impl ReplayMoment {
    /// The moment of a mark; `None` for the end of the load, at which a replay does not stop.
    pub(crate) fn of(what: u32) -> Option<ReplayMoment> {
        match what {
            0 => Some(ReplayMoment::Ready),
            1 => Some(ReplayMoment::Peak),
            2 => Some(ReplayMoment::Idle),
            _ => None,
        }
    }
}

/// A place at which a replay stops for the meters, or ends its search for the peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The replay stops after this epoch.
    pub epoch: u32,
    /// 0 ready, 1 peak, 2 idle, 3 the end of the load. See [`ReplayMoment::of`].
    pub what: u32,
    /// Live bytes at this place.
    pub live: u64,
    /// Blocks that were made, freed and resized before it.
    pub events: u64,
}
