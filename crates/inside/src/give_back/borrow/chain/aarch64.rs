//! The chain of aarch64.
//!
//! From the top down, the bytes are: a frame with the whole state of the thread; the bytes of arguments; a frame that restores the error number.
//! The function returns to the kernel's code that ends a signal's handler, with the stack pointer at the lower frame. From there the thread goes
//! to code that stores the error number, which returns to the same code of the kernel, now with the stack pointer at the upper frame.

use allocanary_heap::ptrace::Registers;

use super::{DATA, ReturnState, blocked, values};
use crate::give_back::borrow::frame::{self, BYTES, Extended};
use crate::give_back::borrow::way_back::WayBack;
use crate::give_back::remedy::Argument;

/// The addresses of all these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    after: u64,
    data: u64,
    /// The lower frame: the stack pointer when the function begins.
    pub lowest: u64,
    /// The first address above all these bytes.
    pub top: u64,
}

/// Where a jump may lead (BTYPE), and single stepping. Both are off when a function begins.
const JUMPS: u64 = 3 << 10 | 1 << 21;

impl Chain {
    /// Places everything below a thread's stack pointer. The ABI lets no program use bytes below it.
    pub fn below(sp: u64, _extended: &Extended, _way: &WayBack) -> Chain {
        let after = frame::place(sp);
        let data = after - DATA;
        Chain { after, data, lowest: frame::place(data), top: after + BYTES }
    }

    /// The values of the arguments, and the bytes that they point to; `None` if these do not fit.
    pub fn values(&self, arguments: &[Argument]) -> Option<([u64; 6], Vec<u8>)> {
        values(self.data, arguments)
    }

    /// The bytes from the lowest word to the top, and the registers with which the function begins. No signal reports its end.
    pub fn call(
        &self,
        before: &ReturnState,
        way: &WayBack,
        function: u64,
        arguments: &[Argument],
        notice: Option<i32>,
    ) -> Option<(Vec<u8>, Registers)> {
        let (values, data) = self.values(arguments)?;
        let mut bytes = vec![0; (self.top - self.lowest) as usize];
        let mut put = |at: u64, what: &[u8]| bytes[(at - self.lowest) as usize..][..what.len()].copy_from_slice(what);
        let (at, number) = before.errno;
        let pstate = before.registers.pstate & !JUMPS;
        let mut errno = Registers { sp: self.after, pc: way.store.at, pstate, ..before.registers };
        errno.x[usize::from(way.store.address)] = at.wrapping_sub(way.store.distance);
        errno.x[usize::from(way.store.value)] = number.into();
        errno.x[30] = way.restore;
        put(self.lowest, &frame::bytes(&errno.words(), blocked(notice), before.extended));
        put(self.data + 16, &data);
        put(self.after, &frame::bytes(&before.registers.words(), before.mask, before.extended));
        let mut registers = Registers { sp: self.lowest, pc: function, pstate, ..before.registers };
        registers.x[..6].copy_from_slice(&values);
        (registers.x[29], registers.x[30]) = (0, way.restore);
        Some((bytes, registers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::give_back::borrow::way_back::StoreCode;

    #[test]
    fn the_frames_lead_from_the_function_to_what_the_thread_had() {
        const SP: u64 = 0xffff_0000_1230;
        let extended = Extended::of(&[7; 528]).unwrap();
        let store = StoreCode { at: 0x200, address: 1, value: 2, distance: 8 };
        let way = WayBack { restore: 0x100, store, errno: 0 };
        let chain = Chain::below(SP, &extended, &way);
        let registers = Registers { sp: SP, pc: 0x1111, pstate: 0x6000_0c00, ..Registers::default() };
        let before = ReturnState { registers, mask: 5, extended: &extended, errno: (0x2222, 9) };
        let (bytes, start) = chain.call(&before, &way, 0x500, &[Argument::Number(3)], None).unwrap();
        let word = |at: u64| u64::from_le_bytes(bytes[(at - chain.lowest) as usize..][..8].try_into().unwrap());
        assert_eq!((start.pc, start.sp, start.x[0], start.x[30]), (0x500, chain.lowest, 3, 0x100));
        assert_eq!((start.sp % 16, start.pstate), (0, 0x6000_0000));
        let field = |frame: u64, at: u64| word(frame + 312 + at * 8);
        let lower = chain.lowest;
        assert_eq!((field(lower, 1), field(lower, 2), field(lower, 30)), (0x2222 - 8, 9, 0x100));
        let upper = field(lower, 31);
        assert_eq!((field(lower, 32), upper % 16, field(lower, 33)), (0x200, 0, 0x6000_0000));
        assert_eq!((field(upper, 31), field(upper, 32), field(upper, 33)), (SP, 0x1111, 0x6000_0c00));
        assert_eq!((word(upper + 168), upper + BYTES), (5, chain.top));
        assert!(chain.top <= SP);
    }
}
