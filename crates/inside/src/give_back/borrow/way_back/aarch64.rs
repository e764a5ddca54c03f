//! The way back of aarch64. The kernel's own code ends a signal's handler there, so that only the code that stores the error number is searched
//! for in files.
//!
//! A thread reaches all of this code by a return or by a frame. So marks for jumps (BTI) and signed return addresses (PAC) do not matter.

// A test on another machine uses only a part.
#![cfg_attr(not(target_arch = "aarch64"), allow(dead_code, unused_imports))]

use allocanary_heap::{Mapping, Memory};
use serde::{Deserialize, Serialize};

use super::{MOST, code_of_files, has};
use crate::give_back::borrow::walker::Seen;
use crate::give_back::functions::CodeFunctions;

/// `mov x8, #139; svc #0`: the call that ends a handler.
const RESTORE: [u32; 2] = [0xd280_1168, 0xd400_0001];
const RET: u32 = 0xd65f_03c0;

/// Code that stores four bytes of a register, and returns: `str w2, [x1, #distance]; ret`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreCode {
    /// Its address.
    pub at: u64,
    /// The number of the register with the address.
    pub address: u8,
    /// The number of the register with the value.
    pub value: u8,
    /// The number that is added to the address.
    pub distance: u64,
}

/// All pieces of code that a thread needs to return.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayBack {
    /// The address of the kernel's code that ends a handler.
    pub restore: u64,
    /// The code that stores the error number.
    pub store: StoreCode,
    /// The offset of the error number from the thread pointer.
    pub errno: u64,
}

/// Whether [`WayBack::find`] needs a function of this name among the `CodeFunctions`.
pub fn is_wanted(name: &str) -> bool {
    name == "__errno_location"
}

impl WayBack {
    /// Whether its code is in these mappings, and its registers can be used. This is checked, because the child that has found it reads
    /// hostile files.
    pub fn is_in(&self, mappings: &[Mapping]) -> bool {
        let is_code = |at: u64| mappings.iter().any(|one| one.executable && (one.from..one.to).contains(&at));
        let StoreCode { address, value, .. } = self.store;
        is_code(self.restore) && is_code(self.store.at) && address < 30 && value < 30 && address != value
    }

    /// Finds the code. The error names what is missing.
    pub(crate) fn find(memory: &Seen, functions: &CodeFunctions) -> Result<WayBack, &'static str> {
        let location = functions.all.iter().find(|one| one.name == "__errno_location");
        let errno = location.and_then(|one| Some((one, error_number(memory, one.at)?)));
        let (location, errno) = errno.ok_or("the place of a thread's error number")?;
        let kernel = memory.mappings().iter().find(|one| one.executable && one.name == "[vdso]");
        let restore = kernel.and_then(|kernel| {
            let mut bytes = vec![0; kernel.bytes().min(MOST) as usize];
            Memory::read(memory, kernel.from, &mut bytes).then_some(())?;
            let at = words(&bytes).windows(2).position(|two| two == RESTORE)?;
            Some(kernel.from + at as u64 * 4)
        });
        let restore = restore.ok_or("the kernel's code that ends a signal's handler")?;
        let store = code_of_files(memory, &location.file).into_iter().find_map(|mapping| {
            let mut bytes = vec![0; mapping.bytes().min(MOST) as usize];
            let read = memory.read_of_file(mapping, mapping.offset, &mut bytes).unwrap_or(0);
            let store = store_of(&words(&bytes[..read]))?;
            let is_there = has(memory, mapping.from + store.at, &bytes[store.at as usize..][..8]);
            is_there.then_some(StoreCode { at: mapping.from + store.at, ..store })
        });
        Ok(WayBack { restore, store: store.ok_or("code that stores a number")?, errno })
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// The first such code. Its address is its offset in the code.
fn store_of(code: &[u32]) -> Option<StoreCode> {
    code.windows(2).enumerate().find_map(|(at, two)| {
        let [store, RET] = *two else { return None };
        let (address, value) = ((store >> 5 & 31) as u8, (store & 31) as u8);
        // Register 30 has the return address, and 31 is the stack pointer or zero.
        let is_usable = address < 30 && value < 30 && address != value;
        let distance = u64::from(store >> 10 & 0xfff) * 4;
        (store >> 22 == 0x2e4 && is_usable).then_some(StoreCode { at: at as u64 * 4, address, value, distance })
    })
}

/// The offset of the error number from the thread pointer, read from the code of the function that returns its address.
fn error_number(memory: &dyn Memory, function: u64) -> Option<u64> {
    let mut code = [0; 48];
    memory.read(function, &mut code).then_some(())?;
    offset_of(&words(&code), function, |at| memory.word(at))
}

/// Follows the code of a function that returns an address: its distance from the thread pointer. `word` reads a word of the process.
fn offset_of(code: &[u32], function: u64, word: impl Fn(u64) -> Option<u64>) -> Option<u64> {
    /// The value of a register: a number, or a distance from the thread pointer.
    #[derive(Clone, Copy)]
    enum Value {
        Number(u64),
        FromPointer(u64),
    }
    use Value::{FromPointer, Number};
    let mut values = [None; 32];
    for (at, one) in code.iter().enumerate() {
        let pc = function.wrapping_add(at as u64 * 4);
        let (to, from, second) = ((one & 31) as usize, (one >> 5 & 31) as usize, (one >> 16 & 31) as usize);
        let number = u64::from(one >> 10 & 0xfff);
        let shift = (one >> 21 & 3) * 16;
        let half = u64::from(one >> 5 & 0xffff) << shift;
        values[to] = match one {
            // nop, and marks for jumps and signatures: bti, paciasp, autiasp
            _ if one & 0xffff_f01f == 0xd503_201f => continue,
            // mrs to, tpidr_el0
            _ if one & !31 == 0xd53b_d040 => Some(FromPointer(0)),
            // adrp to, page
            _ if one & 0x9f00_0000 == 0x9000_0000 => {
                let pages = i64::from((one << 8) as i32 >> 13) << 2 | i64::from(one >> 29 & 3);
                Some(Number((pc & !0xfff).wrapping_add((pages << 12) as u64)))
            }
            // ldr to, [from, #number]
            _ if one & 0xffc0_0000 == 0xf940_0000 => match values[from]? {
                Number(address) => Some(Number(word(address.wrapping_add(number * 8))?)),
                FromPointer(_) => return None,
            },
            // add to, from, second
            _ if one & 0xffe0_fc00 == 0x8b00_0000 => match (values[from]?, values[second]?) {
                (Number(one), Number(other)) => Some(Number(one.wrapping_add(other))),
                (FromPointer(one), Number(other)) | (Number(one), FromPointer(other)) => {
                    Some(FromPointer(one.wrapping_add(other)))
                }
                _ => return None,
            },
            // add to, from, #number, perhaps shifted by 12 bits
            _ if one & 0xff80_0000 == 0x9100_0000 => {
                let number = number << (12 * (one >> 22 & 1));
                match values[from]? {
                    Number(one) => Some(Number(one.wrapping_add(number))),
                    FromPointer(one) => Some(FromPointer(one.wrapping_add(number))),
                }
            }
            // movz to, #number: the other bits are zero. movk to, #number: they stay. Both perhaps shifted by 16, 32 or 48 bits.
            _ if one & 0xff80_0000 == 0xd280_0000 => Some(Number(half)),
            _ if one & 0xff80_0000 == 0xf280_0000 => match values[to]? {
                Number(one) => Some(Number(one & !(0xffff << shift) | half)),
                FromPointer(_) => return None,
            },
            &RET => {
                return match values[0]? {
                    FromPointer(offset) => Some(offset),
                    Number(_) => None,
                };
            }
            _ => return None,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_error_number_is_read_from_code() {
        // adrp x0, 17 pages further; ldr x0, [x0, #0xf40]; mrs x1, tpidr_el0; add x0, x1, x0; ret
        let shared = [0xb000_0000 | 4 << 5, 0xf947_a000, 0xd53b_d041, 0x8b00_0020, RET];
        let word = |at: u64| (at == 0x1012 << 12 | 0xf40).then_some(0x30);
        let first = (0x1001 << 12 | 0x234, shared);
        assert_eq!(offset_of(&first.1, first.0, word), Some(0x30));
        let marked = [&[0xd503_245f][..], &shared].concat();
        assert_eq!(offset_of(&marked, first.0, word), Some(0x30), "bti c");
        // A static program: mrs x0, tpidr_el0; add x0, x0, #0x1, lsl #12; add x0, x0, #0x28; ret
        let own = [0xd53b_d040, 0x9140_0400, 0x9100_a000, RET];
        assert_eq!(offset_of(&own, 0x40_0000, |_| None), Some(0x1028));
        // glibc in a static program: movz x0, #1, lsl #16; movk x0, #0x30; mrs x1, tpidr_el0; add x0, x1, x0; ret
        let of_glibc = [0xd2a0_0020, 0xf280_0600, 0xd53b_d041, 0x8b00_0020, RET];
        assert_eq!(offset_of(&of_glibc, 0x40_0000, |_| None), Some(0x1_0030));
        assert_eq!(offset_of(&of_glibc[1..], 0x40_0000, |_| None), None, "a part of a number that is not known");
        // A call, an address that is not the thread's, and an end that is missing.
        assert_eq!(offset_of(&[0x9400_0000, RET], 0, |_| None), None);
        assert_eq!(offset_of(&[0xd280_0540, RET], 0, |_| None), None);
        assert_eq!(offset_of(&own[..3], 0, |_| None), None);
    }

    #[test]
    fn code_that_stores_is_understood_or_left() {
        let of = |code: &[u32]| store_of(code).map(|one| (one.at, one.address, one.value, one.distance));
        // str w2, [x1, #8]; ret
        assert_eq!(of(&[0xd503_201f, 0xb900_0822, RET]), Some((4, 1, 2, 8)));
        assert_eq!(of(&[0xb900_0822, 0xd503_201f, RET]), None, "it does more");
        assert_eq!(of(&[0xf900_0022, RET]), None, "eight bytes");
        assert_eq!(of(&[0xb900_0021, RET]), None, "one register");
        assert_eq!(of(&[0xb900_003f, RET]), None, "zero");
        assert_eq!(of(&[0xb900_03e2, RET]), None, "the stack");
    }

    #[cfg(target_arch = "aarch64")]
    #[test]
    fn it_is_found_in_this_process() {
        use crate::give_back::symbols::FunctionSearch;
        let pid = std::process::id();
        let walker = crate::give_back::borrow::walker::ProcessWalker::open(pid).unwrap();
        let live = &walker.seen;
        let functions =
            CodeFunctions::find(pid, &FunctionSearch { to_borrow: true, ..FunctionSearch::default() }).unwrap();
        let found = WayBack::find(live, &functions).unwrap();
        assert!(found.is_in(live.mappings()));
        let pointer: u64;
        // SAFETY: only reads a register.
        unsafe { std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem)) };
        // SAFETY: the function has no conditions.
        let errno = unsafe { libc::__errno_location() }.addr() as u64;
        assert_eq!(pointer.wrapping_add(found.errno), errno);
    }
}
