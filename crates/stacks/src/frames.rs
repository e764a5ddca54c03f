//! The tables of `.eh_frame_hdr` and `.eh_frame`, as the System V ABI and the Linux Standard Base describe them. In: the bytes of a
//! segment, which may be damaged, and an address of code. Out: the rule for that address.
//!
//! Only the parts that a walk needs are kept: the CFA, and the places of the frame pointer and of the return address. So a row takes only
//! 48 bytes of the stack. This matters because the program may call malloc on a signal's stack of a few KiB. For the same reason no general
//! reader is used: gimli's rows take some KiB.

use crate::bytes::Bytes;
use crate::rule::{Back, CallerRule, Cfa, Rbp, Rule};

/// The segment with the tables of a program.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    /// The segment's bytes.
    pub bytes: &'a [u8],
    /// The address of the first byte.
    pub address: u64,
    /// The address of `.eh_frame_hdr`.
    pub header: u64,
}

/// The numbers of a processor's registers in the tables.
#[derive(Clone, Copy)]
struct Numbers {
    frame: u64,
    stack: u64,
    back: u64,
    /// Where the return address is, as long as a table says nothing else.
    first: Place,
}

const X86_64: Numbers = Numbers { frame: 6, stack: 7, back: 16, first: Place::Other };
/// A function begins with its return address in x30.
const AARCH64: Numbers = Numbers { frame: 29, stack: 31, back: 30, first: Place::Same };

/// The maximum number of rows that `remember_state` keeps.
const REMEMBERED: usize = 8;

/// Where the caller's value of a register is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Same,
    Undefined,
    AtCfa(i64),
    /// In memory, at a register plus this offset.
    At(u64, i64),
    Other,
}

/// How the table computes the CFA.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    /// A register plus this offset.
    Register(u64, i64),
    /// The word at a register plus this offset.
    AtRegister(u64, i64),
    Other,
}

/// The rules for one address.
#[derive(Clone, Copy)]
struct Row {
    cfa: Base,
    rbp: Place,
    back: Place,
}

/// The part that functions of one compilation share (CIE).
struct Common {
    numbers: Numbers,
    code_align: u64,
    data_align: i64,
    /// The encoding of the functions' addresses.
    encoding: u8,
    is_augmented: bool,
    is_signal: bool,
    from: usize,
    to: usize,
}

impl<'a> Tables<'a> {
    fn at(&self, address: u64) -> Option<Bytes<'a>> {
        let offset = usize::try_from(address.checked_sub(self.address)?).ok()?;
        (offset < self.bytes.len()).then(|| Bytes::from(self.bytes, offset))
    }

    /// The rule for an address of code of x86-64. [`Rule::UNKNOWN`] if there is none.
    pub fn rule(&self, pc: u64) -> Rule {
        self.row(pc, X86_64).map_or(Rule::UNKNOWN, |(row, is_signal)| rule_of(&row, is_signal))
    }

    /// The rule for an address of code of aarch64. [`CallerRule::UNKNOWN`] if there is none.
    pub fn aarch64(&self, pc: u64) -> CallerRule {
        let row = self.row(pc, AARCH64).filter(|(_, is_signal)| !is_signal);
        row.and_then(|(row, _)| caller_of(&row, AARCH64)).unwrap_or(CallerRule::UNKNOWN)
    }

    /// The row for an address, and whether the kernel calls this code for a signal.
    fn row(&self, pc: u64, numbers: Numbers) -> Option<(Row, bool)> {
        let entry = self.entry(pc)?;
        let mut at = self.at(entry)?;
        let (start, after) = self.length(&mut at)?;
        let back = at.u32()?;
        let common = self.common(start.checked_sub(u64::from(back))?, numbers)?;
        let first = self.pointer(&mut at, common.encoding)?;
        let count = self.pointer(&mut at, common.encoding & 0x0F)?;
        if pc.wrapping_sub(first) >= count {
            return None;
        }
        if common.is_augmented {
            let length = at.unsigned()?;
            at.skip(length)?;
        }
        let mut row = Row { cfa: Base::Other, rbp: Place::Same, back: numbers.first };
        let first_code = Bytes { all: self.bytes, at: common.from, end: common.to };
        execute(first_code, &common, None, 0, u64::MAX, &mut row)?;
        let code = Bytes { all: self.bytes, at: at.at, end: after };
        let initial = row;
        execute(code, &common, Some(initial), first, pc, &mut row)?;
        Some((row, common.is_signal))
    }

    /// The address of the entry of the last function that begins at or before `pc`, from the sorted table of `.eh_frame_hdr`.
    fn entry(&self, pc: u64) -> Option<u64> {
        let mut at = self.at(self.header)?;
        let [version, of_frames, of_count, of_table] = at.take(4)? else { return None };
        // This is the only form of table that linkers write: pairs of 32-bit distances from the header.
        if (*version, *of_table) != (1, 0x3B) {
            return None;
        }
        self.pointer(&mut at, *of_frames)?;
        let count = usize::try_from(self.pointer(&mut at, *of_count)?).ok()?;
        let pairs = self.bytes.get(at.at..)?.as_chunks::<8>().0;
        let pairs = pairs.get(..count.min(pairs.len()))?;
        let distance = |word: &[u8]| self.header.wrapping_add(i64::from(i32_of(word)) as u64);
        let next = pairs.partition_point(|pair| distance(&pair[..4]) <= pc);
        let pair = pairs.get(next.checked_sub(1)?)?;
        Some(distance(&pair[4..]))
    }

    /// Reads the length of an entry. Returns the address right after the length, and the offset at which the entry
    /// ends.
    fn length(&self, at: &mut Bytes) -> Option<(u64, usize)> {
        let length = match at.u32()? {
            0 => return None,
            0xFFFF_FFFF => at.u64()?,
            length => u64::from(length),
        };
        let end = at.at.checked_add(usize::try_from(length).ok()?)?;
        (end <= self.bytes.len()).then_some((self.address.wrapping_add(at.at as u64), end))
    }

    fn common(&self, address: u64, numbers: Numbers) -> Option<Common> {
        let mut at = self.at(address)?;
        let (_, to) = self.length(&mut at)?;
        at.end = to;
        if at.u32()? != 0 {
            return None; // this entry is not a common entry
        }
        let version = at.u8()?;
        let letters = at;
        while at.u8()? != 0 {}
        match version {
            1 | 3 => {}
            4 => at.skip(2)?,
            _ => return None,
        }
        let (code_align, data_align) = (at.unsigned()?, at.signed()?);
        let back = if version == 1 { u64::from(at.u8()?) } else { at.unsigned()? };
        let mut common =
            Common { numbers, code_align, data_align, encoding: 0, is_augmented: false, is_signal: false, from: 0, to };
        let mut after = None;
        let mut letters = letters;
        loop {
            match letters.u8()? {
                0 => break,
                b'z' => {
                    common.is_augmented = true;
                    let length = usize::try_from(at.unsigned()?).ok()?;
                    after = Some(at.at.checked_add(length)?);
                }
                b'R' => common.encoding = at.u8()?,
                b'P' => {
                    let encoding = at.u8()?;
                    self.pointer(&mut at, encoding & 0x7F)?;
                }
                b'L' => _ = at.u8()?,
                b'S' => common.is_signal = true,
                b'B' => {}
                _ => return None,
            }
        }
        common.from = after.unwrap_or(at.at);
        (back == numbers.back && common.from <= to).then_some(common)
    }

    /// Reads a pointer in one of the encodings that need no register and no other memory.
    fn pointer(&self, at: &mut Bytes, encoding: u8) -> Option<u64> {
        let here = self.address.wrapping_add(at.at as u64);
        let number = match encoding & 0x0F {
            0 | 4 | 12 => at.u64()?,
            1 => at.unsigned()?,
            2 => u64::from(at.u16()?),
            3 => u64::from(at.u32()?),
            9 => at.signed()? as u64,
            10 => at.u16()? as i16 as u64,
            11 => at.u32()? as i32 as u64,
            _ => return None,
        };
        match encoding & 0xF0 {
            0 => Some(number),
            0x10 => Some(here.wrapping_add(number)),
            0x30 => Some(self.header.wrapping_add(number)),
            _ => None,
        }
    }
}

fn i32_of(bytes: &[u8]) -> i32 {
    bytes.try_into().map_or(0, i32::from_le_bytes)
}

/// Executes the instructions of an entry up to the row of `pc`. Each instruction has at least one byte, so this ends.
fn execute(mut at: Bytes, common: &Common, initial: Option<Row>, first: u64, pc: u64, row: &mut Row) -> Option<()> {
    let mut kept = [*row; REMEMBERED];
    let mut depth = 0_usize;
    let mut here = first;
    let numbers = common.numbers;
    let set = |row: &mut Row, register: u64, place: Place| set(row, numbers, register, place);
    let restore = |row: &mut Row, register: u64, initial: Row| restore(row, numbers, register, initial);
    let scaled = |number: u64| (number as i64).wrapping_mul(common.data_align);
    while at.at < at.end {
        let code = at.u8()?;
        let low = u64::from(code & 0x3F);
        let mut passed = None;
        match code >> 6 {
            1 => passed = Some(low),
            2 => {
                let place = Place::AtCfa(scaled(at.unsigned()?));
                set(row, low, place);
            }
            3 => restore(row, low, initial?),
            _ => match code {
                0 => {}
                // set_loc: no compiler writes it.
                1 => return None,
                2 => passed = Some(u64::from(at.u8()?)),
                3 => passed = Some(u64::from(at.u16()?)),
                4 => passed = Some(u64::from(at.u32()?)),
                5 => {
                    let register = at.unsigned()?;
                    set(row, register, Place::AtCfa(scaled(at.unsigned()?)));
                }
                6 => restore(row, at.unsigned()?, initial?),
                7 => set(row, at.unsigned()?, Place::Undefined),
                8 => set(row, at.unsigned()?, Place::Same),
                // register
                9 => {
                    let register = at.unsigned()?;
                    at.unsigned()?;
                    set(row, register, Place::Other);
                }
                10 => {
                    *kept.get_mut(depth)? = *row;
                    depth += 1;
                }
                11 => {
                    depth = depth.checked_sub(1)?;
                    *row = *kept.get(depth)?;
                }
                12 => row.cfa = Base::Register(at.unsigned()?, at.unsigned()? as i64),
                13 => {
                    let register = at.unsigned()?;
                    row.cfa = match row.cfa {
                        Base::Register(_, distance) => Base::Register(register, distance),
                        _ => Base::Other,
                    };
                }
                14 => row.cfa = with_distance(row.cfa, at.unsigned()? as i64),
                15 => row.cfa = cfa_of(expression(&mut at)?),
                16 => {
                    let register = at.unsigned()?;
                    let place = place_of(expression(&mut at)?);
                    set(row, register, place);
                }
                17 => {
                    let register = at.unsigned()?;
                    set(row, register, Place::AtCfa(at.signed()?.wrapping_mul(common.data_align)));
                }
                18 => {
                    let register = at.unsigned()?;
                    row.cfa = Base::Register(register, at.signed()?.wrapping_mul(common.data_align));
                }
                19 => row.cfa = with_distance(row.cfa, at.signed()?.wrapping_mul(common.data_align)),
                // val_offset, val_offset_sf
                20 | 21 => {
                    let register = at.unsigned()?;
                    at.unsigned()?;
                    set(row, register, Place::Other);
                }
                // val_expression
                22 => {
                    let register = at.unsigned()?;
                    expression(&mut at)?;
                    set(row, register, Place::Other);
                }
                // The return address is signed from here on, or no longer. Its bits that are no address are removed when it is read.
                0x2D if numbers.back == AARCH64.back => {}
                // GNU_args_size
                0x2E => _ = at.unsigned()?,
                // GNU_negative_offset_extended
                0x2F => {
                    let register = at.unsigned()?;
                    set(row, register, Place::AtCfa(scaled(at.unsigned()?).wrapping_neg()));
                }
                _ => return None,
            },
        }
        if let Some(passed) = passed {
            here = here.wrapping_add(passed.wrapping_mul(common.code_align));
            if here > pc {
                return Some(());
            }
        }
    }
    Some(())
}

fn with_distance(cfa: Base, distance: i64) -> Base {
    match cfa {
        Base::Register(register, _) => Base::Register(register, distance),
        _ => Base::Other,
    }
}

fn set(row: &mut Row, numbers: Numbers, register: u64, place: Place) {
    if register == numbers.frame {
        row.rbp = place;
    } else if register == numbers.back {
        row.back = place;
    }
}

fn restore(row: &mut Row, numbers: Numbers, register: u64, initial: Row) {
    if register == numbers.frame {
        row.rbp = initial.rbp;
    } else if register == numbers.back {
        row.back = initial.back;
    }
}

/// Reads an expression. Only the two forms that compilers and the C library write are supported.
fn expression<'a>(at: &mut Bytes<'a>) -> Option<&'a [u8]> {
    let length = usize::try_from(at.unsigned()?).ok()?;
    at.take(length)
}

/// A register, an offset, and whether the value is the word at that place.
fn at_register(operations: &[u8]) -> Option<(u64, i64, bool)> {
    let mut at = Bytes::from(operations, 0);
    // DW_OP_breg0 to DW_OP_breg31
    let register = at.u8()?.checked_sub(0x70).filter(|register| *register < 32)?;
    let distance = at.signed()?;
    let is_read = match at.u8() {
        None => false,
        // DW_OP_deref
        Some(0x06) if at.at == operations.len() => true,
        Some(_) => return None,
    };
    Some((u64::from(register), distance, is_read))
}

fn cfa_of(operations: &[u8]) -> Base {
    match at_register(operations) {
        Some((register, distance, true)) => Base::AtRegister(register, distance),
        Some((register, distance, false)) => Base::Register(register, distance),
        None => Base::Other,
    }
}

fn place_of(operations: &[u8]) -> Place {
    match at_register(operations) {
        Some((register, distance, false)) => Place::At(register, distance),
        _ => Place::Other,
    }
}

/// The kernel saves the interrupted registers at these offsets from the handler's frame: stack pointer, frame pointer,
/// address of the code.
pub(crate) const SIGNAL: [i64; 3] = [160, 120, 168];

fn rule_of(row: &Row, is_signal: bool) -> Rule {
    if is_signal {
        let stack = X86_64.stack;
        let [rsp, rbp, rip] = SIGNAL;
        let is_known = row.cfa == Base::AtRegister(stack, rsp)
            && row.rbp == Place::At(stack, rbp)
            && row.back == Place::At(stack, rip);
        return Rule::new(if is_known { Cfa::Signal } else { Cfa::Unknown }, Rbp::Same);
    }
    match caller_of(row, X86_64) {
        Some(CallerRule { cfa: Cfa::End, rbp, .. }) => Rule::new(Cfa::End, rbp),
        // The call instruction has written the return address there.
        Some(CallerRule { cfa, rbp, back: Back::AtCfa(-8) }) => Rule::new(cfa, rbp),
        _ => Rule::UNKNOWN,
    }
}

/// The places of the caller's registers; `None` if the row has a form that is not supported here.
fn caller_of(row: &Row, numbers: Numbers) -> Option<CallerRule> {
    let rbp = match row.rbp {
        // An undefined register keeps its value, as in GCC's unwinder.
        Place::Same | Place::Undefined => Rbp::Same,
        Place::AtCfa(apart) => Rbp::AtCfa(apart),
        Place::At(register, apart) if register == numbers.frame => Rbp::AtRbp(apart),
        Place::At(..) | Place::Other => return None,
    };
    let back = match row.back {
        Place::Undefined => return Some(CallerRule { cfa: Cfa::End, rbp, back: Back::Register }),
        Place::AtCfa(apart) => Back::AtCfa(apart),
        Place::Same if numbers.first == Place::Same => Back::Register,
        _ => return None,
    };
    let cfa = match row.cfa {
        Base::Register(register, distance) if register == numbers.stack => Cfa::Rsp(distance),
        Base::Register(register, distance) if register == numbers.frame => Cfa::Rbp(distance),
        Base::AtRegister(register, distance) if register == numbers.frame => Cfa::AtRbp(distance),
        _ => return None,
    };
    Some(CallerRule { cfa, rbp, back })
}

#[cfg(test)]
mod tests;
