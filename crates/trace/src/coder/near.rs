//! Writes the two most frequent events in few instructions: malloc of a small block, and free. In: a call. Out: the same bytes as those of
//! [`Coder`]'s general functions, written by one store. If an address or a stamp needs more than three bytes, nothing is written.

use std::sync::atomic::{Ordering::Release, compiler_fence};

use super::{Coder, entry_of, zigzag};

/// A varint of one to three bytes: its bytes as a number, and its length in bits. `None` if it is longer.
#[inline(always)]
fn short(number: u64) -> Option<(u64, u32)> {
    if number < 0x80 {
        Some((number, 8))
    } else if number < 0x4000 {
        Some((number & 0x7F | (number & 0x3F80) << 1 | 0x80, 16))
    } else if number < 0x20_0000 {
        Some((number & 0x7F | (number & 0x3F80) << 1 | (number & 0x1F_C000) << 2 | 0x8080, 24))
    } else {
        None
    }
}

/// Writes an event of up to eight bytes by one store. The bytes after the event stay zeros. If a signal or the end of the process
/// interrupts, the event is either complete or absent. A process that reads the file at the same time may see a part of the event.
///
/// # Safety
///
/// Eight bytes at `at` may be written.
#[inline(always)]
unsafe fn store(at: *mut u8, word: u64, bits: u32) -> *mut u8 {
    compiler_fence(Release);
    // SAFETY: the caller's promise.
    unsafe {
        at.cast::<u64>().write_unaligned(word.to_le());
        at.add(bits as usize / 8)
    }
}

impl Coder {
    /// Writes a new block of malloc of 1 to 504 bytes. With `is_multi`, the event has a stamp if the address is not in the table. `ticks`
    /// then returns the stamp, or `None` if it needs more than three bytes. Returns the place after the event; `None` if nothing was
    /// written.
    ///
    /// # Safety
    ///
    /// [`LONGEST_EVENT`](crate::format::LONGEST_EVENT) bytes at `at` may be written, and are zeros.
    #[inline(always)]
    pub unsafe fn put_near_malloc(
        &mut self,
        at: *mut u8,
        address: u64,
        size: u64,
        is_multi: impl FnOnce() -> bool,
        ticks: impl FnOnce() -> Option<u64>,
    ) -> Option<*mut u8> {
        if size.wrapping_sub(1) >= 504 {
            return None;
        }
        let (units, code) = (address >> 3, size.div_ceil(8));
        let (delta, bits) = short(zigzag(units.wrapping_sub(self.sizes[code as usize])))?;
        let entry = entry_of(units);
        // If the size is not a multiple of 8, it follows the first byte. The whole event has at most six bytes, and no stamp.
        let is_round = size.is_multiple_of(8);
        let (mut word, mut length) = match is_round {
            true => (code << 2 | delta << 8, 8 + bits),
            false => {
                let (size, of_size) = short(size)?;
                (16 << 2 | 2 | size << 8 | delta << (8 + of_size), 8 + of_size + bits)
            }
        };
        if self.recent[entry] != units {
            if is_multi() {
                if !is_round {
                    return None;
                }
                let (ticks, bits) = short(ticks()?)?;
                (word, length) = (word | 3 | ticks << length, length + bits);
            }
            self.recent[entry] = units;
        }
        self.sizes[code as usize] = units;
        // SAFETY: the caller's promise.
        Some(unsafe { store(at, word, length) })
    }

    /// Writes a free of a block that is in the table. If the block is not in the table, it writes nothing and returns `None`.
    ///
    /// # Safety
    ///
    /// The same as for [`put_near_malloc`](Self::put_near_malloc).
    #[inline(always)]
    pub unsafe fn put_near_free(&mut self, at: *mut u8, address: u64) -> Option<*mut u8> {
        let entry = self.recent(address)?;
        compiler_fence(Release);
        // SAFETY: the caller's promise.
        unsafe {
            at.cast::<u16>().write_unaligned(((entry as u16) << 2 | 1).to_le());
            Some(at.add(2))
        }
    }

    /// Writes a free by address, with a stamp. `None` if nothing was written.
    ///
    /// # Safety
    ///
    /// The same as for [`put_near_malloc`](Self::put_near_malloc).
    #[inline(always)]
    pub unsafe fn put_near_free_stamped(&mut self, at: *mut u8, address: u64, ticks: u64) -> Option<*mut u8> {
        let units = address >> 3;
        let slot = (units >> 13 & 15) as usize;
        let (delta, bits) = short(zigzag(units.wrapping_sub(self.freed[slot])))?;
        let (ticks, more) = short(ticks)?;
        self.freed[slot] = units;
        let word = (slot as u64) << 2 | 2 | delta << 8 | ticks << (8 + bits);
        // SAFETY: the caller's promise.
        Some(unsafe { store(at, word, 8 + bits + more) })
    }
}
