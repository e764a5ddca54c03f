//! The chain of x86-64.
//!
//! From the top down, the bytes are: the extended state, and a frame with the whole state of the thread; the bytes of arguments, and a
//! place for the result; a frame that restores the error number; the words through which the function returns. The function returns to code
//! that stores the result. Then the thread raises a signal without a handler, which tells us that the function has ended. Then it returns
//! through both frames. If this command ends meanwhile, the thread does all of this alone.

use allocanary_heap::ptrace::Registers;

use super::{DATA, ReturnState, blocked, values};
use crate::give_back::borrow::frame::{self, Extended};
use crate::give_back::borrow::way_back::WayBack;
use crate::give_back::remedy::Argument;

/// The bytes that a thread may use below its stack pointer, according to the ABI.
const RED_ZONE: u64 = 128;

/// The value in the result's place before there is a result. None of the called functions returns it.
pub const NOTHING: u64 = 0xa110_ca4a_0000_5eed;

/// The addresses of all these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    extended: u64,
    after: u64,
    data: u64,
    errno: u64,
    /// The number of words that the storing code takes from the stack.
    taken: u64,
    /// The lowest word: the stack pointer when the function begins.
    pub lowest: u64,
    /// The first address above all these bytes.
    pub top: u64,
}

impl Chain {
    /// Places everything below a thread's stack pointer.
    pub fn below(sp: u64, extended: &Extended, way: &WayBack) -> Chain {
        let top = sp - RED_ZONE;
        let extended = frame::place_of_extended(top, extended);
        let after = frame::place(extended);
        let taken = way.store.words as u64;
        // The words that the storing code takes are directly below the return address of the frame.
        let data = (after - taken * 8 - DATA) / 16 * 16;
        let errno = frame::place(data);
        // The address of the storing code, the words that it takes, one more if the stack would otherwise not be
        // aligned as after a call, and three for the signal.
        let words = (1 + taken + 3).next_multiple_of(2);
        Chain { extended, after, data, errno, taken, lowest: errno - words * 8, top }
    }

    /// The address of the result.
    pub fn result(&self) -> u64 {
        self.data
    }

    /// The values of the arguments, and the bytes that they point to; `None` if these do not fit.
    pub fn values(&self, arguments: &[Argument]) -> Option<([u64; 6], Vec<u8>)> {
        values(self.data, arguments)
    }

    /// The bytes from the lowest word to the top, and the registers with which the function begins. `notice` is the signal that
    /// reports its end. Without it there is no chain.
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
        put(self.lowest, &way.store.at.to_le_bytes());
        // From its second byte on this code only returns. It aligns the stack for the next function.
        for (below, word) in [(4, way.pop + 1), (3, way.pop), (2, notice? as u64), (1, way.raise)] {
            if below < 4 || self.errno - below * 8 > self.lowest + self.taken * 8 {
                put(self.errno - below * 8, &word.to_le_bytes());
            }
        }
        let mut registers = before.registers;
        registers.orig_rax = u64::MAX;
        // Clears the direction flag, as functions expect it, and single stepping.
        registers.eflags &= !0x500;
        let (at, number) = before.errno;
        // Without its first byte the storing code stores four bytes.
        let base = |place: u64| place.wrapping_sub(i64::from(way.store.distance) as u64);
        let (rbx, rsp) = (base(at), self.after - self.taken * 8);
        let errno = Registers { rax: number.into(), rbx, rip: way.store.at + 1, rsp, ..registers };
        put(self.errno, &frame::bytes(&errno, blocked(notice), 0, way.restore));
        put(self.data, &NOTHING.to_le_bytes());
        put(self.data + 16, &data);
        put(self.after, &frame::bytes(&before.registers, before.mask, self.extended, way.restore));
        put(self.extended, before.extended.bytes());
        [registers.rdi, registers.rsi, registers.rdx, registers.rcx, registers.r8, registers.r9] = values;
        (registers.rsp, registers.rip, registers.rbx) = (self.lowest, function, base(self.data));
        (registers.rbp, registers.rax) = (0, 0);
        Some((bytes, registers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::give_back::borrow::way_back::StoreCode;

    const SP: u64 = 0x7fff_0000_1238;

    fn chain(words: usize) -> (Chain, Extended, WayBack) {
        let mut told = vec![0; 832];
        told[464] = 7;
        let extended = Extended::new(&told, 7, 832).unwrap();
        let store = StoreCode { at: 0x200, distance: 24, words };
        let way = WayBack { restore: 0x100, store, pop: 0x300, raise: 0x400, errno: 0 };
        (Chain::below(SP, &extended, &way), extended, way)
    }

    /// The function returns through these words, one after the other. Each function must find the stack aligned as it is after a call.
    #[test]
    fn the_words_lead_from_the_function_to_what_the_thread_had() {
        for taken in [0, 1, 2, 3, 7] {
            let (chain, extended, way) = chain(taken);
            // SAFETY: all zeroes are a value of this structure of numbers.
            let registers = Registers { rip: 0x1111, rsp: SP, cs: 0x33, ..unsafe { std::mem::zeroed() } };
            let before = ReturnState { registers, mask: 5, extended: &extended, errno: (0x2222, 9) };
            let (bytes, start) = chain.call(&before, &way, 0x500, &[Argument::Number(3)], Some(23)).unwrap();
            let word = |at: u64| u64::from_le_bytes(bytes[(at - chain.lowest) as usize..][..8].try_into().unwrap());
            assert_eq!((start.rip, start.rdi, start.rbx, start.orig_rax), (0x500, 3, chain.result() - 24, u64::MAX));
            let mut sp = start.rsp;
            assert_eq!((sp % 16, word(sp)), (8, 0x200), "as after a call");
            assert_eq!(word(chain.result()), NOTHING);
            sp += 8 + taken as u64 * 8;
            if word(sp) == 0x301 {
                sp += 8; // this code only returns
            }
            assert_eq!((word(sp), word(sp + 8), word(sp + 16)), (0x300, 23, 0x400));
            sp += 24;
            assert_eq!((sp % 16, word(sp)), (8, 0x100), "as after a call");
            // The frame that restores the error number begins after its return address.
            let field = |frame: u64, at: u64| word(frame + at);
            assert_eq!((field(sp, 176), field(sp, 152), field(sp, 136)), (0x201, 9, 0x2222 - 24));
            sp = field(sp, 160 + 8) + taken as u64 * 8;
            assert_eq!((word(sp), field(sp, 176), field(sp, 168), field(sp, 304)), (0x100, 0x1111, SP, 5));
            let extended_at = field(sp, 232);
            assert_eq!(extended_at % 64, 0);
            assert_eq!(&bytes[(extended_at - chain.lowest) as usize..][..extended.bytes().len()], extended.bytes());
            assert!(extended_at + extended.bytes().len() as u64 <= SP - 128);
        }
    }
}
