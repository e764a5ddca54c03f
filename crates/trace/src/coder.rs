//! Single events as bytes: see the table in [`format`](crate::format). In: a call of the malloc family. Out: its bytes,
//! and the reverse. Writer and reader keep the same state, a [`Coder`], so that an address becomes a small difference.
//!
//! Nothing here allocates, because the writer runs inside other programs' `malloc`.

mod near;

use crate::format::LONGEST_EVENT;
use crate::predictor::class_of;
use crate::stacks::StackId;

/// Stamps below this number of ticks take at most three bytes.
pub const NEAR_TICKS: u64 = 1 << 21;

/// The number of entries in the table of recent blocks.
const RECENT: usize = 2048;

/// A call, or another event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new block.
    New {
        /// The function that made it.
        how: AllocFunction,
        /// Its address.
        address: u64,
        /// Its size.
        size: u64,
    },
    /// A block is freed.
    Free {
        /// Its address.
        address: u64,
    },
    /// A realloc begins with this block.
    Resize {
        /// Its address.
        address: u64,
    },
    /// The realloc failed, and its block stays live.
    ResizeFailed,
    /// The realloc to size 0 freed its block.
    ResizeFreed,
    /// The RssAnon of the process, in KiB.
    Resident(u64),
    /// The thread ends.
    End,
    /// A mark of the recorder: 0 ready, 1 peak, 2 idle.
    Mark(u8),
    /// A stamp without another event.
    Stamp,
    /// The stack of the thread's next allocation.
    Stack(StackId),
}

/// The function that made a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocFunction {
    /// malloc.
    Malloc,
    /// calloc.
    Calloc,
    /// memalign, aligned_alloc, posix_memalign, valloc, with log2 of the alignment.
    Aligned(u8),
    /// The end of a realloc.
    Resized,
}

/// What a read returns: the event, the ticks of its stamp, and its length in bytes.
pub type DecodedEvent = (Event, Option<u64>, usize);

/// The state that a thread's writer and its reader share. All zeros is its first state.
#[derive(Clone)]
#[repr(C)]
pub struct Coder {
    /// For each size class, the last address, divided by 8.
    sizes: [u64; 129],
    /// For each slot, the last address, divided by 8, that was freed by address.
    freed: [u64; 16],
    /// Recent addresses, divided by 8, each at the entry of its hash.
    recent: [u64; RECENT],
}

impl Default for Coder {
    fn default() -> Self {
        Coder::NEW
    }
}

#[inline(always)]
fn entry_of(units: u64) -> usize {
    (units.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 53) as usize
}

#[inline(always)]
fn zigzag(difference: u64) -> u64 {
    let signed = difference as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

#[inline(always)]
fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// Writes a varint and returns the place after it.
///
/// # Safety
///
/// Ten bytes at `at` may be written.
#[inline(always)]
unsafe fn put(at: *mut u8, number: u64) -> *mut u8 {
    // SAFETY: the caller's promise. One and two bytes are by far the most frequent lengths.
    unsafe {
        if number < 0x80 {
            *at = number as u8;
            return at.add(1);
        }
        if number < 0x4000 {
            at.cast::<[u8; 2]>().write([number as u8 | 0x80, (number >> 7) as u8]);
            return at.add(2);
        }
        put_long(at, number)
    }
}

/// # Safety
///
/// The same as for [`put`].
#[inline(never)]
unsafe fn put_long(mut at: *mut u8, mut number: u64) -> *mut u8 {
    // SAFETY: the caller's promise, and 64 bits are at most ten groups of seven.
    unsafe {
        while number >= 0x80 {
            *at = number as u8 | 0x80;
            at = at.add(1);
            number >>= 7;
        }
        *at = number as u8;
        at.add(1)
    }
}

/// Finishes an event by writing its first byte, which comes last.
///
/// # Safety
///
/// `at` may be written.
#[inline(always)]
unsafe fn finish(at: *mut u8, first: u8, end: *mut u8) -> *mut u8 {
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::Release);
    // SAFETY: the caller's promise.
    unsafe { at.write_volatile(first) };
    end
}

/// Whether the size of a block of malloc fits in the event's first byte. It then is a multiple of 8, and at most 504
/// bytes.
#[inline(always)]
pub fn is_short(size: u64) -> bool {
    size.is_multiple_of(8) && size.wrapping_sub(1) < 504
}

impl Coder {
    /// The first state.
    pub const NEW: Coder = Coder { sizes: [0; 129], freed: [0; 16], recent: [0; RECENT] };

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.sizes = [0; 129];
        self.freed = [0; 16];
        self.recent = [0; RECENT];
    }

    #[inline(always)]
    fn difference(&mut self, class: usize, address: u64) -> u64 {
        let units = address >> 3;
        let difference = zigzag(units.wrapping_sub(self.sizes[class]));
        self.sizes[class] = units;
        self.recent[entry_of(units)] = units;
        difference
    }

    /// Writes a new block of malloc and returns the place after the event.
    ///
    /// # Safety
    ///
    /// [`LONGEST_EVENT`] bytes at `at` may be written.
    #[inline(always)]
    pub unsafe fn put_malloc(&mut self, at: *mut u8, address: u64, size: u64) -> *mut u8 {
        if is_short(size) {
            let code = size / 8;
            let difference = self.difference(code as usize, address);
            // SAFETY: the caller's promise.
            unsafe { finish(at, (code as u8) << 2, put(at.add(1), difference)) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.put_new(at, AllocFunction::Malloc, address, size) }
        }
    }

    /// Writes a new block of malloc of a size that [`is_short`], with a stamp.
    ///
    /// # Safety
    ///
    /// [`LONGEST_EVENT`] bytes at `at` may be written.
    #[inline(always)]
    pub unsafe fn put_malloc_stamped(&mut self, at: *mut u8, address: u64, size: u64, ticks: u64) -> *mut u8 {
        let code = (size / 8) & 63;
        let difference = self.difference(code as usize, address);
        // SAFETY: the caller's promise.
        unsafe { finish(at, (code as u8) << 2 | 3, put(put(at.add(1), difference), ticks)) }
    }

    /// Writes a new block of any function and returns the place after the event.
    ///
    /// # Safety
    ///
    /// [`LONGEST_EVENT`] bytes at `at` may be written.
    #[inline(never)]
    pub unsafe fn put_new(&mut self, at: *mut u8, how: AllocFunction, address: u64, size: u64) -> *mut u8 {
        let difference = self.difference(class_of(size), address);
        // SAFETY: the caller's promise: at most 1 + 10 + 1 + 10 bytes.
        unsafe {
            let (first, behind) = match how {
                AllocFunction::Malloc if is_short(size) => (((size / 8) as u8) << 2, at.add(1)),
                AllocFunction::Malloc => (16 << 2 | 2, put(at.add(1), size)),
                AllocFunction::Calloc => (17 << 2 | 2, put(at.add(1), size)),
                AllocFunction::Resized => (19 << 2 | 2, put(at.add(1), size)),
                AllocFunction::Aligned(log2) => {
                    let behind = put(at.add(1), size);
                    *behind = log2;
                    (18 << 2 | 2, behind.add(1))
                }
            };
            finish(at, first, put(behind, difference))
        }
    }

    /// The table's entry of this block, if this thread allocated it recently.
    #[inline(always)]
    pub fn recent(&self, address: u64) -> Option<usize> {
        let units = address >> 3;
        let entry = entry_of(units);
        (self.recent[entry] == units).then_some(entry)
    }

    /// Writes a free of a recent block. `entry` is from [`recent`](Self::recent).
    ///
    /// # Safety
    ///
    /// [`LONGEST_EVENT`] bytes at `at` may be written.
    #[inline(always)]
    pub unsafe fn put_free_recent(&mut self, at: *mut u8, entry: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe {
            *at.add(1) = (entry >> 6) as u8;
            finish(at, ((entry & 63) as u8) << 2 | 1, at.add(2))
        }
    }

    #[inline(always)]
    fn freed(&mut self, address: u64) -> (usize, u64) {
        let units = address >> 3;
        let slot = (units >> 13 & 15) as usize;
        let difference = zigzag(units.wrapping_sub(self.freed[slot]));
        self.freed[slot] = units;
        (slot, difference)
    }

    /// Writes a free by address, with a stamp.
    ///
    /// # Safety
    ///
    /// [`LONGEST_EVENT`] bytes at `at` may be written.
    #[inline(always)]
    pub unsafe fn put_free(&mut self, at: *mut u8, address: u64, ticks: u64) -> *mut u8 {
        let (slot, difference) = self.freed(address);
        // SAFETY: the caller's promise.
        unsafe { finish(at, (slot as u8) << 2 | 2, put(put(at.add(1), difference), ticks)) }
    }

    /// Writes the beginning of a realloc, with a stamp if the block is not recent. Returns the place after the event,
    /// and whether the stamp was written.
    ///
    /// # Safety
    ///
    /// [`LONGEST_EVENT`] bytes at `at` may be written.
    pub unsafe fn put_resize(&mut self, at: *mut u8, address: u64, ticks: u64) -> (*mut u8, bool) {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(entry) = self.recent(address) {
                *at.add(1) = entry as u8;
                *at.add(2) = (entry >> 8) as u8;
                return (finish(at, 20 << 2 | 2, at.add(3)), false);
            }
            let (slot, difference) = self.freed(address);
            *at.add(1) = slot as u8;
            (finish(at, 21 << 2 | 2, put(put(at.add(2), difference), ticks)), true)
        }
    }

    /// Writes an event that has no address. `ticks` is for events with a stamp.
    ///
    /// # Safety
    ///
    /// [`LONGEST_EVENT`] bytes at `at` may be written.
    pub unsafe fn put_other(&mut self, at: *mut u8, event: Event, ticks: u64) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe {
            let behind = at.add(1);
            let (sub, behind) = match event {
                Event::ResizeFailed => (22, behind),
                Event::Resident(kib) => (23, put(put(behind, kib), ticks)),
                Event::End => (24, put(behind, ticks)),
                Event::ResizeFreed => (25, behind),
                Event::Mark(mark) => {
                    *behind = mark;
                    (26, put(behind.add(1), ticks))
                }
                Event::Stack(stack) => (28, put(behind, u64::from(stack))),
                _ => (27, put(behind, ticks)),
            };
            finish(at, (sub as u8) << 2 | 2, behind)
        }
    }

    /// Reads one event from the start of `bytes`. Returns the event, the ticks of its stamp, and its length; `Ok(None)`
    /// at the end of the chunk. The error says what is wrong.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Option<DecodedEvent>, &'static str> {
        let mut rest = Bytes { bytes, at: 1 };
        let Some(first) = bytes.first().copied().filter(|first| *first != 0) else { return Ok(None) };
        let (kind, x) = (first & 3, first >> 2);
        let small = u64::from(x) * 8;
        let (event, stamped) = match (kind, x) {
            (0 | 3, 0) => return Err("an unknown first byte"),
            (0, _) => (self.new_block(AllocFunction::Malloc, small, &mut rest)?, false),
            (3, _) => (self.new_block(AllocFunction::Malloc, small, &mut rest)?, true),
            (1, _) => {
                let entry = usize::from(x) | usize::from(rest.byte()?) << 6;
                let units = self.recent.get(entry).copied().filter(|units| *units != 0);
                (Event::Free { address: units.ok_or("a free of no recent block")? << 3 }, false)
            }
            (_, 0..=15) => (Event::Free { address: self.freed_block(usize::from(x), &mut rest)? }, true),
            (_, 16..=19) => {
                let size = rest.varint()?;
                let how = match x {
                    16 => AllocFunction::Malloc,
                    17 => AllocFunction::Calloc,
                    18 => AllocFunction::Aligned(rest.byte()?.min(63)),
                    _ => AllocFunction::Resized,
                };
                (self.new_block(how, size, &mut rest)?, false)
            }
            (_, 20) => {
                let entry = usize::from(rest.byte()?) | usize::from(rest.byte()?) << 8;
                let units = self.recent.get(entry).copied().filter(|units| *units != 0);
                (Event::Resize { address: units.ok_or("a realloc of no recent block")? << 3 }, false)
            }
            (_, 21) => {
                let slot = usize::from(rest.byte()?);
                (Event::Resize { address: self.freed_block(slot, &mut rest)? }, true)
            }
            (_, 22) => (Event::ResizeFailed, false),
            (_, 23) => (Event::Resident(rest.varint()?), true),
            (_, 24) => (Event::End, true),
            (_, 25) => (Event::ResizeFreed, false),
            (_, 26) => (Event::Mark(rest.byte()?), true),
            (_, 27) => (Event::Stamp, true),
            (_, 28) => (Event::Stack(rest.varint()?.try_into().map_err(|_| "a stack above 2^32")?), false),
            _ => return Err("an unknown first byte"),
        };
        let ticks = if stamped { Some(rest.varint()?) } else { None };
        Ok(Some((event, ticks, rest.at)))
    }

    fn new_block(&mut self, how: AllocFunction, size: u64, rest: &mut Bytes) -> Result<Event, &'static str> {
        if size > 1 << 46 {
            return Err("a block larger than the address space");
        }
        let class = class_of(size);
        let units = self.sizes[class].wrapping_add(unzigzag(rest.varint()?)) & (u64::MAX >> 3);
        self.sizes[class] = units;
        self.recent[entry_of(units)] = units;
        Ok(Event::New { how, address: units << 3, size })
    }

    fn freed_block(&mut self, slot: usize, rest: &mut Bytes) -> Result<u64, &'static str> {
        let last = self.freed.get_mut(slot).ok_or("a slot above 15")?;
        *last = last.wrapping_add(unzigzag(rest.varint()?)) & (u64::MAX >> 3);
        Ok(*last << 3)
    }
}

/// The bytes of one event, and how many of them were read.
struct Bytes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bytes<'_> {
    fn byte(&mut self) -> Result<u8, &'static str> {
        let byte = self.bytes.get(self.at).copied().filter(|_| self.at < LONGEST_EVENT);
        self.at += 1;
        byte.ok_or("an event that the chunk's end cuts")
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number of more than 64 bits")
    }
}

#[cfg(test)]
mod tests;
