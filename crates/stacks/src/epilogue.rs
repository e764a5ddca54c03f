//! Derives a rule from the end of a function without tables. In: the bytes around a return address. Out: the place of
//! the caller's frame, if the function does nothing after the call except return.
//!
//! The trampolines that a runtime makes are such functions: Python makes one for each of its functions. A function that
//! does more after the call gets no rule, because its code would have to be followed to its end.

use crate::bytes::Bytes;
use crate::rule::{Cfa, Rbp, Rule};

/// The number of bytes that are read before a return address. The longest call has 7.
pub const BEFORE: usize = 8;
/// The number of bytes that are read from the return address on. An addition, six pops and a return have 18.
pub const AFTER: usize = 24;

/// The rule of a return address. [`Rule::UNKNOWN`] if the bytes before it are not a call, or if the code after it is
/// not understood.
pub fn rule(before: &[u8; BEFORE], after: &[u8]) -> Rule {
    Some(after).filter(|_| is_call(before)).and_then(rule_of).unwrap_or(Rule::UNKNOWN)
}

/// Whether these bytes end in a call: relative, by a register, or by an address in memory.
pub fn is_call(before: &[u8; BEFORE]) -> bool {
    let calls = |length: usize| {
        let code = &before[BEFORE - length..];
        code[0] == 0xFF && code[1] >> 3 & 7 == 2 && operand(&code[1..]) == Some(length - 1)
    };
    before[BEFORE - 5] == 0xE8 || (2..BEFORE).any(calls)
}

/// Whether these bytes end in a call of aarch64: relative, or by a register, whose address can be signed.
pub fn is_call_of_aarch64(before: &[u8; BEFORE]) -> bool {
    let [.., a, b, c, d] = *before;
    let word = u32::from_le_bytes([a, b, c, d]);
    let (relative, register, signed) = (word >> 26 == 0x25, word & 0xFFFF_FC1F == 0xD63F_0000, word >> 11);
    relative || register || [0xD63F_0800 >> 11, 0xD73F_0800 >> 11].contains(&signed)
}

/// The length of an operand. It has a first byte, a second one if there is an index, and a displacement.
fn operand(bytes: &[u8]) -> Option<usize> {
    let first = *bytes.first()?;
    let (mode, register) = (first >> 6, first & 7);
    if mode == 3 {
        return Some(1);
    }
    let has_index = register == 4;
    let base = if has_index { *bytes.get(1)? & 7 } else { register };
    let distance = match mode {
        0 if base == 5 => 4,
        0 => 0,
        1 => 1,
        _ => 4,
    };
    Some(1 + usize::from(has_index) + distance)
}

/// The register from which the stack pointer is computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    Rsp,
    Rbp,
}

/// Follows the instructions up to the return.
fn rule_of(after: &[u8]) -> Option<Rule> {
    let mut at = Bytes::from(after, 0);
    // `base` and `distance` are the stack pointer, relative to its value after the call or to the frame pointer.
    // `saved` is the place of the caller's frame pointer.
    let (mut base, mut distance) = (Base::Rsp, 0_i64);
    let mut saved = None;
    loop {
        match at.u8()? {
            0xC3 => break,
            0xF3 if at.u8()? == 0xC3 => break,
            // leave
            0xC9 if saved.is_none() => (base, distance, saved) = (Base::Rbp, 8, Some(0)),
            // pop %rbp
            0x5D if saved.is_none() => (saved, distance) = (Some(distance), distance + 8),
            // pop %rax, %rcx, %rdx, %rbx, %rsi, %rdi
            0x58..=0x5B | 0x5E | 0x5F => distance += 8,
            // pop %r8 to %r15
            0x41 if (0x58..=0x5F).contains(&at.u8()?) => distance += 8,
            0x48 => match (at.u8()?, at.u8()?) {
                // add, and sub of a negative number
                (0x83, 0xC4) => distance += near(&mut at)?,
                (0x83, 0xEC) => distance -= near(&mut at)?,
                (0x81, 0xC4) => distance += far(&mut at)?,
                // lea
                (0x8D, 0x64) if at.u8()? == 0x24 => distance += near(&mut at)?,
                (0x8D, 0xA4) if at.u8()? == 0x24 => distance += far(&mut at)?,
                (0x8D, 0x65) if saved.is_none() => (base, distance) = (Base::Rbp, near(&mut at)?),
                (0x8D, 0xA5) if saved.is_none() => (base, distance) = (Base::Rbp, far(&mut at)?),
                // mov %rbp,%rsp
                (0x89, 0xEC) | (0x8B, 0xE5) if saved.is_none() => (base, distance) = (Base::Rbp, 0),
                _ => return None,
            },
            _ => return None,
        }
    }
    let top = distance + 8;
    let rbp = saved.map_or(Rbp::Same, |saved| Rbp::AtCfa(saved - top));
    match base {
        // The caller's frame must be above this one.
        Base::Rsp if distance < 0 || saved.is_some_and(|saved| saved < 0) => None,
        Base::Rsp => Some(Rule::new(Cfa::Rsp(top), rbp)),
        Base::Rbp => Some(Rule::new(Cfa::Rbp(top), rbp)),
    }
}

/// A displacement of one byte.
fn near(at: &mut Bytes) -> Option<i64> {
    at.u8().map(|byte| i64::from(byte as i8))
}

/// A displacement of four bytes.
fn far(at: &mut Bytes) -> Option<i64> {
    at.u32().map(|word| i64::from(word as i32))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// call *%rcx
    const CALL: [u8; BEFORE] = [0, 0, 0, 0, 0, 0, 0xFF, 0xD1];

    fn of(after: &[u8]) -> Rule {
        rule(&CALL, after)
    }

    #[test]
    fn the_rest_of_a_function_says_where_its_caller_s_frame_is() {
        let rsp = |distance, rbp| Rule::new(Cfa::Rsp(distance), rbp);
        let rbp = |distance, rbp| Rule::new(Cfa::Rbp(distance), rbp);
        let wanted: [(&[u8], Rule); 14] = [
            // Python 3.12 and 3.13: add $8,%rsp; ret
            (&[0x48, 0x83, 0xC4, 8, 0xC3], rsp(16, Rbp::Same)),
            // Later versions of Python: pop %rbp; ret
            (&[0x5D, 0xC3], rsp(16, Rbp::AtCfa(-16))),
            (&[0xC3], rsp(8, Rbp::Same)),
            (&[0xF3, 0xC3], rsp(8, Rbp::Same)),
            (&[0xC9, 0xC3], rbp(16, Rbp::AtCfa(-16))),
            (&[0x48, 0x89, 0xEC, 0x5D, 0xC3], rbp(16, Rbp::AtCfa(-16))),
            (&[0x48, 0x8B, 0xE5, 0x5D, 0xC3], rbp(16, Rbp::AtCfa(-16))),
            (&[0x48, 0x81, 0xC4, 0, 1, 0, 0, 0x5B, 0x5D, 0x41, 0x5C, 0xC3], rsp(256 + 32, Rbp::AtCfa(-24))),
            (&[0x48, 0x83, 0xEC, 0x80, 0xC3], rsp(136, Rbp::Same)),
            (&[0x48, 0x8D, 0x64, 0x24, 0x18, 0xC3], rsp(32, Rbp::Same)),
            (&[0x48, 0x8D, 0xA4, 0x24, 0x18, 0, 0, 0, 0xC3], rsp(32, Rbp::Same)),
            (&[0x48, 0x8D, 0x65, 0xF0, 0x5B, 0x41, 0x5C, 0x5D, 0xC3], rbp(16, Rbp::AtCfa(-16))),
            (&[0x48, 0x8D, 0xA5, 0xF8, 0xFF, 0xFF, 0xFF, 0x5B, 0x5D, 0xC3], rbp(16, Rbp::AtCfa(-16))),
            (&[0x58, 0x59, 0x5A, 0x5E, 0x5F, 0x41, 0x58, 0xC3], rsp(56, Rbp::Same)),
        ];
        for (after, wanted) in wanted {
            assert_eq!(of(after), wanted, "{after:x?}");
            let cut = (0..after.len()).filter(|length| of(&after[..*length]) != Rule::UNKNOWN).count();
            assert_eq!(cut, 0, "{after:x?}, cut");
        }
    }

    #[test]
    fn what_is_not_understood_is_no_rule() {
        for after in [
            &[0x90, 0xC3][..],
            &[0xC2, 8, 0, 0xC3],
            &[0x5C, 0xC3],
            &[0x5D, 0x5D, 0xC3],
            &[0x5D, 0xC9, 0xC3],
            &[0x5D, 0x48, 0x89, 0xEC, 0xC3],
            &[0x41, 0x90, 0xC3],
            &[0xF3, 0x90, 0xC3],
            &[0x48, 0x83, 0xEC, 8, 0xC3],
            &[0x48, 0x83, 0xC4, 0xF8, 0x5D, 0xC3],
            &[0x48, 0x8D, 0x64, 0x25, 8, 0xC3],
            &[0x48, 0x01, 0xC4, 0xC3],
        ] {
            assert_eq!(of(after), Rule::UNKNOWN, "{after:x?}");
        }
    }

    #[test]
    fn a_return_address_lies_behind_a_call() {
        let ends = |code: &[u8]| {
            let mut before = [0; BEFORE];
            before[BEFORE - code.len()..].copy_from_slice(code);
            rule(&before, &[0xC3]) != Rule::UNKNOWN
        };
        for code in [
            &[0xE8, 1, 2, 3, 4][..],
            &[0xFF, 0xD1],
            &[0x41, 0xFF, 0xD3],
            &[0xFF, 0x10],
            &[0xFF, 0x14, 0xC8],
            &[0xFF, 0x50, 0x18],
            &[0xFF, 0x54, 0x24, 0x18],
            &[0xFF, 0x15, 1, 2, 3, 4],
            &[0xFF, 0x90, 1, 2, 3, 4],
            &[0xFF, 0x14, 0x25, 1, 2, 3, 4],
            &[0xFF, 0x94, 0x24, 1, 2, 3, 4],
        ] {
            assert!(ends(code), "{code:x?}");
        }
        // A jump, a push, calls of another length, and bytes that are not code.
        for code in [&[0xFF, 0xE1][..], &[0xFF, 0xF1], &[0xFF, 0x50], &[0xFF, 0xD1, 0x90], &[0x15, 1, 2, 3, 4], &[]] {
            assert!(!ends(code), "{code:x?}");
        }
    }

    #[test]
    fn a_call_of_aarch64_is_one_of_four_instructions() {
        let ends = |word: u32| is_call_of_aarch64(&(u64::from(word) << 32).to_le_bytes());
        // bl, blr x3, blraaz x3, blraa x3, x4
        assert!([0x9400_0001, 0x97FF_FFFF, 0xD63F_0060, 0xD63F_087F, 0xD73F_0864].into_iter().all(ends));
        // b, br x3, ret, nop, svc
        assert!(![0x1400_0001, 0xD61F_0060, 0xD65F_03C0, 0xD503_201F, 0xD400_0001, 0].into_iter().any(ends));
    }

    proptest! {
        /// No bytes cause a panic, and a rule never leads to a frame below the present one.
        #[test]
        fn fuzz_any_code(before in any::<[u8; BEFORE]>(), after in proptest::collection::vec(any::<u8>(), 0..AFTER)) {
            let _ = rule(&before, &after);
            if let Cfa::Rsp(distance) = of(&after).cfa() {
                prop_assert!(distance >= 8);
            }
        }
    }
}
