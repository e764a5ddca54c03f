use proptest::prelude::*;

use super::*;
use crate::object::MappedObject;

const START: u64 = 0x40_0000;
/// The function's code: its first address and its length.
const CODE: u64 = 0x50_0000;
const LENGTH: u32 = 100;

/// Tables with a header, a common entry with this augmentation and the usual first rules, and an entry for one
/// function.
fn tables_of(letters: &[u8], first: &[u8], code: &[u8]) -> Vec<u8> {
    tables_with(letters, (1, 16), first, code)
}

/// The same with an alignment of code and a register of the return address.
fn tables_with(letters: &[u8], (align, back): (u8, u8), first: &[u8], code: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, 0x1B, 0x03, 0x3B];
    bytes.extend(16_u32.to_le_bytes()); // the tables begin here; this field is not read
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(((CODE - START) as u32).to_le_bytes());
    let entry_at = bytes.len();
    bytes.extend([0; 4]);
    let common = bytes.len();
    let body = [&[0, 0, 0, 0, 1][..], letters, &[0, align, 0x78, back, 1, 0x1B], first].concat();
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(body);
    let entry = bytes.len();
    bytes[entry_at..entry_at + 4].copy_from_slice(&(entry as u32).to_le_bytes());
    bytes.extend((4 + 4 + 4 + 1 + code.len() as u32).to_le_bytes());
    bytes.extend(((entry + 4 - common) as u32).to_le_bytes());
    let distance = CODE.wrapping_sub(START + bytes.len() as u64) as u32;
    bytes.extend(distance.to_le_bytes());
    bytes.extend(LENGTH.to_le_bytes());
    bytes.push(0);
    bytes.extend(code);
    bytes
}

fn rule_at(bytes: &[u8], pc: u64) -> Rule {
    Tables { bytes, address: START, header: START }.rule(pc)
}

/// The CFA is rsp + 8, and the return address is right below it.
const FIRST: [u8; 5] = [0x0C, 7, 8, 0x90, 1];

#[test]
fn a_frame_pointer_is_followed_from_instruction_to_instruction() {
    // push rbp (1 byte); mov rbp, rsp (3 bytes); ...; pop rbp at 50; ret.
    let code = [0x41, 0x0E, 16, 0x86, 2, 0x43, 0x0D, 6, 0x02, 46, 0x0C, 7, 8, 0xC6];
    let bytes = tables_of(b"zR", &FIRST, &code);
    let rule = |pc| rule_at(&bytes, CODE + pc);
    assert_eq!(rule(0), Rule::new(Cfa::Rsp(8), Rbp::Same));
    assert_eq!(rule(1), Rule::new(Cfa::Rsp(16), Rbp::AtCfa(-16)));
    assert_eq!(rule(3), Rule::new(Cfa::Rsp(16), Rbp::AtCfa(-16)));
    assert_eq!(rule(4), Rule::new(Cfa::Rbp(16), Rbp::AtCfa(-16)));
    assert_eq!(rule(49), Rule::new(Cfa::Rbp(16), Rbp::AtCfa(-16)));
    assert_eq!(rule(50), Rule::new(Cfa::Rsp(8), Rbp::Same), "restored");
    assert_eq!(rule(u64::from(LENGTH) - 1), Rule::new(Cfa::Rsp(8), Rbp::Same));
    assert_eq!((rule(u64::from(LENGTH)), rule_at(&bytes, CODE - 1)), (Rule::UNKNOWN, Rule::UNKNOWN));
}

#[test]
fn what_was_remembered_comes_back() {
    let code = [0x0A, 0x41, 0x0E, 64, 0x41, 0x0B, 0x41, 0x0E, 32];
    let bytes = tables_of(b"zR", &FIRST, &code);
    let distances: Vec<_> = (0..4).map(|pc| rule_at(&bytes, CODE + pc).cfa()).collect();
    assert_eq!(distances, [Cfa::Rsp(8), Cfa::Rsp(64), Cfa::Rsp(8), Cfa::Rsp(32)]);
}

#[test]
fn an_aligned_stack_an_outermost_frame_and_a_signal_have_rules() {
    // The CFA is the word at rbp - 8; the caller's rbp is the word at rbp.
    let aligned = [0x0F, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0];
    assert_eq!(rule_at(&tables_of(b"zR", &FIRST, &aligned), CODE), Rule::new(Cfa::AtRbp(-8), Rbp::AtRbp(0)));
    assert_eq!(rule_at(&tables_of(b"zR", &FIRST, &[0x07, 16]), CODE).cfa(), Cfa::End);
    let signal = [
        0x0F, 4, 0x77, 0xA0, 1, 0x06, 0x10, 6, 3, 0x77, 0xF8, 0, 0x10, 16, 3, 0x77, 0xA8, 1, //
    ];
    assert_eq!(rule_at(&tables_of(b"zRS", &FIRST, &signal), CODE).cfa(), Cfa::Signal);
    assert_eq!(rule_at(&tables_of(b"zRS", &FIRST, &signal[..6]), CODE), Rule::UNKNOWN, "another one than the kernel's");
}

/// paciasp; stp x29, x30, [sp, #-48]!; mov x29, sp; ...; ldp x29, x30, [sp], #48; autiasp; ret
#[test]
fn a_return_address_of_aarch64_is_in_its_register_until_it_is_saved() {
    let code = [0x41, 0x2D, 0x41, 0x0E, 48, 0x9D, 6, 0x9E, 5, 0x42, 0xDE, 0xDD, 0x0E, 0, 0x41, 0x2D];
    let bytes = tables_with(b"zR", (4, 30), &[0x0C, 31, 0], &code);
    let rule = |instruction: u64| {
        let rule = Tables { bytes: &bytes, address: START, header: START }.aarch64(CODE + instruction * 4);
        (rule.cfa, rule.rbp, rule.back)
    };
    let begin = (Cfa::Rsp(0), Rbp::Same, Back::Register);
    let inside = (Cfa::Rsp(48), Rbp::AtCfa(-48), Back::AtCfa(-40));
    assert_eq!([0, 1, 2, 3, 4, 5].map(rule), [begin, begin, inside, inside, begin, begin]);
    assert_eq!(rule_at(&bytes, CODE), Rule::UNKNOWN, "x86-64 has another register");
    // The first function of a thread has no caller. A return address in another register is not followed.
    let first = |code: &[u8]| {
        let bytes = tables_with(b"zR", (4, 30), &[0x0C, 31, 0], code);
        Tables { bytes: &bytes, address: START, header: START }.aarch64(CODE)
    };
    assert_eq!(first(&[0x07, 30]).cfa, Cfa::End);
    assert_eq!(first(&[0x09, 30, 3]), CallerRule::UNKNOWN);
}

#[test]
fn what_is_not_read_here_ends_the_walk() {
    for code in [
        &[0x0D, 3][..],                  // CFA from rbx
        &[0x10, 6, 2, 0x73, 0],          // rbp saved at rbx
        &[0x09, 6, 3],                   // rbp in rbx
        &[0x3F],                         // an unknown instruction
        &[0x0B],                         // restores a state that was not stored
        &[0x0A; 9],                      // stores too many states
        &[0x01, 0, 0, 0, 0, 0, 0, 0, 0], // set_loc
        &[0x0E],                         // ends in the middle of an instruction
    ] {
        assert_eq!(rule_at(&tables_of(b"zR", &FIRST, code), CODE), Rule::UNKNOWN, "{code:x?}");
    }
    assert_eq!(rule_at(&tables_of(b"zX", &FIRST, &[]), CODE), Rule::UNKNOWN, "an unknown augmentation");
}

#[test]
fn fuzz_any_instructions_have_a_rule_or_none() {
    allocanary_testing::fuzz::holds(
        3000,
        20,
        (prop::collection::vec(any::<u8>(), 0..60), prop::collection::vec(any::<u8>(), 0..200), 0_u64..150),
        |(first, code, pc)| {
            let bytes = tables_of(b"zR", &first, &code);
            let rule = rule_at(&bytes, CODE + pc);
            assert!(pc < u64::from(LENGTH) || rule == Rule::UNKNOWN);
            assert_ne!(rule, Rule::default());
        },
    );
}

#[test]
fn fuzz_damaged_tables_have_a_rule_or_none() {
    let sound =
        tables_of(b"zR", &FIRST, &[0x41, 0x0E, 16, 0x86, 2, 0x43, 0x0D, 6, 0x0A, 0x02, 46, 0x0B, 0x0C, 7, 8, 0xC6]);
    let damage = prop::collection::vec((0..sound.len(), any::<u8>()), 1..6);
    allocanary_testing::fuzz::holds(5000, 20, (damage, 0..=sound.len(), any::<bool>(), any::<u64>()), |drawn| {
        let (damage, cut, is_cut, address) = drawn;
        let mut bytes = sound.clone();
        damage.into_iter().for_each(|(at, byte)| bytes[at] = byte);
        bytes.truncate(if is_cut { cut } else { bytes.len() });
        for pc in [CODE, CODE + 4, CODE + 60, address] {
            rule_at(&bytes, pc);
            let elsewhere = Tables { bytes: &bytes, address: address & !7, header: address };
            elsewhere.rule(pc);
        }
    });
}

/// The C library's own tables, with damaged bytes.
#[test]
#[cfg(all(target_arch = "x86_64", target_env = "gnu", not(miri)))]
fn fuzz_damaged_tables_of_the_c_library_have_a_rule_or_none() {
    assert!(crate::object::look_up());
    // SAFETY: the C library is not closed.
    let object = unsafe { MappedObject::of(libc::getpid as *const () as u64) }.unwrap();
    let tables = object.tables().unwrap();
    let (bytes, code) = (tables.bytes.to_vec(), object.end - object.start);
    let bytes = std::cell::RefCell::new(bytes);
    let damage = prop::collection::vec((0..tables.bytes.len(), any::<u8>()), 1..200);
    allocanary_testing::fuzz::holds(400, 1, (damage, prop::collection::vec(0..code, 50)), |(damage, places)| {
        let mut bytes = bytes.borrow_mut();
        let header = (tables.header - tables.address) as usize;
        for (at, byte) in &damage {
            bytes[*at] = *byte;
            // The damage is in the sorted table, because a wrong address in it may lead anywhere.
            bytes[header + 12 + at % 4096] ^= byte & 7;
        }
        for place in places {
            Tables { bytes: &bytes, ..tables }.rule(object.start + place);
        }
        bytes.copy_from_slice(tables.bytes);
    });
}

#[test]
#[cfg(all(target_arch = "x86_64", target_env = "gnu", not(miri)))]
fn nearly_all_functions_of_the_c_library_have_rules() {
    assert!(crate::object::look_up());
    // SAFETY: the C library is not closed.
    let object = unsafe { MappedObject::of(libc::getpid as *const () as u64) }.unwrap();
    let tables = object.tables().unwrap();
    let header = (tables.header - tables.address) as usize;
    let pairs = tables.bytes[header + 12..].as_chunks::<8>().0;
    let count = u32::from_le_bytes(tables.bytes[header + 8..header + 12].try_into().unwrap()) as usize;
    let first = |pair: &[u8; 8]| tables.header.wrapping_add(i64::from(i32_of(&pair[..4])) as u64);
    let known = pairs[..count].iter().filter(|pair| tables.rule(first(pair)) != Rule::UNKNOWN).count();
    assert!(count > 1000 && known * 100 > count * 99, "{known} of {count}");
}
