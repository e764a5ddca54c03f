//! The frame of x86-64.

use allocanary_heap::ptrace::Registers;

/// The size of a frame: a return address, the context, and the facts about the signal.
pub const BYTES: u64 = 440;

/// The offset in an extended state of the word that says which parts it has.
const SOFTWARE: usize = 464;
/// The offset of the word that says which of these parts are in use.
const IN_USE: usize = 512;

// The kernel's marks at the beginning and at the end of an extended state.
const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;

/// The extended state, in the form that a frame has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended(Vec<u8>);

impl Extended {
    /// Makes it from what the kernel reports about a stopped thread, with the parts that every thread has on this processor. `None` if the
    /// thread uses others.
    pub fn of(told: &[u8]) -> Option<Extended> {
        let (parts, size) = parts(told)?;
        Extended::new(told, parts, size)
    }

    /// Makes it from what the kernel reports about a stopped thread. `parts` are the parts that a frame has room for, and `size` is
    /// their size in bytes. `None` if the thread uses other parts, because a frame of this size has no room for them.
    pub fn new(told: &[u8], parts: u64, size: usize) -> Option<Extended> {
        let word = |at: usize| Some(u64::from_le_bytes(told.get(at..at + 8)?.try_into().ok()?));
        let (has, used) = (word(SOFTWARE)?, word(IN_USE)?);
        if used & !parts != 0 || has & parts != parts || size < IN_USE + 64 {
            return None;
        }
        let mut bytes = told.get(..size)?.to_vec();
        bytes[SOFTWARE..IN_USE].fill(0);
        bytes[SOFTWARE..SOFTWARE + 4].copy_from_slice(&MAGIC1.to_le_bytes());
        bytes[SOFTWARE + 4..SOFTWARE + 8].copy_from_slice(&(size as u32 + 4).to_le_bytes());
        bytes[SOFTWARE + 8..SOFTWARE + 16].copy_from_slice(&parts.to_le_bytes());
        bytes[SOFTWARE + 16..SOFTWARE + 20].copy_from_slice(&(size as u32).to_le_bytes());
        bytes.extend(MAGIC2.to_le_bytes());
        Some(Extended(bytes))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The parts of the extended state that every thread has on this processor, and their size in bytes. Parts that a program has to request
/// (AMX) are not included: the kernel makes room for them only in a thread that uses them.
fn parts(told: &[u8]) -> Option<(u64, usize)> {
    const ASKED_FOR: u64 = 1 << 18;
    let has = u64::from_le_bytes(told.get(SOFTWARE..SOFTWARE + 8)?.try_into().ok()?);
    let parts = has & !ASKED_FOR;
    let end = |part: u32| {
        let leaf = std::arch::x86_64::__cpuid_count(0xd, part);
        // Bit 0 of ECX marks a part that only the kernel uses.
        (leaf.ecx & 1 == 0).then_some((leaf.eax + leaf.ebx) as usize)
    };
    let size = (2..63).filter(|part| parts >> part & 1 == 1).filter_map(end).max();
    Some((parts, size.unwrap_or(0).max(IN_USE + 64)))
}

/// The highest address for an extended state below an address.
pub fn place_of_extended(below: u64, extended: &Extended) -> u64 {
    (below - extended.0.len() as u64) / 64 * 64
}

/// The highest address for a frame below an address. Its first word is a return address, and it is aligned as after a
/// call.
pub fn place(below: u64) -> u64 {
    (below - BYTES) / 16 * 16 - 8
}

/// The bytes of a frame. `back` is the code to which a handler returns. It makes the call `rt_sigreturn`. `extended` is the address of an
/// extended state, or 0. With 0, the registers of that state are as at the start of a program.
pub fn bytes(registers: &Registers, mask: u64, extended: u64, back: u64) -> [u8; BYTES as usize] {
    let mut frame = [0; BYTES as usize];
    let mut put = |at: usize, value: u64| frame[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(0, back);
    // Flags: there is an extended state, the frame has SS, and the kernel restores SS.
    put(8, if extended == 0 { 6 } else { 7 });
    // The alternate stack cannot be read from outside. With an invalid mode, the kernel leaves it as it is.
    put(32, 0x7f);
    let one = registers;
    for (at, value) in [one.r8, one.r9, one.r10, one.r11, one.r12, one.r13, one.r14, one.r15].into_iter().enumerate() {
        put(48 + at * 8, value);
    }
    let rest = [one.rdi, one.rsi, one.rbp, one.rbx, one.rdx, one.rax, one.rcx, one.rsp, one.rip, one.eflags];
    for (at, value) in rest.into_iter().enumerate() {
        put(112 + at * 8, value);
    }
    put(192, one.cs & 0xffff | (one.ss & 0xffff) << 48);
    put(232, extended);
    put(304, mask);
    frame
}

#[cfg(test)]
#[path = "x86_64_tests.rs"]
mod tests;
