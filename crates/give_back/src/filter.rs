//! A seccomp filter of a process, and whether it allows a system call. In: the program that the kernel has. Out: its verdict.

use std::io;

/// One instruction: code, jump if true, jump if false, a constant. The kernel's `struct sock_filter`.
pub type Instruction = (u16, u8, u8, u32);

/// The most instructions of a program.
const LONGEST: usize = 4096;

/// The verdict that lets a call pass: its upper 16 bits.
const ALLOW: u32 = 0x7fff_0000;
/// The same, and the kernel writes a line about it.
const LOG: u32 = 0x7ffc_0000;

/// The architecture's number of x86-64 in a filter's data.
const X86_64: u32 = 0xc000_003e;

/// Whether a filter lets a call pass, whatever its arguments. A filter that looks at an argument, or that cannot be run here, does not.
pub fn allows(filter: &[Instruction], call: i64) -> bool {
    matches!(run(filter, call as u32), Some(verdict) if [ALLOW, LOG].contains(&(verdict & 0xffff_0000)))
}

/// Runs a filter. Jumps only go forward, so that it ends.
fn run(filter: &[Instruction], call: u32) -> Option<u32> {
    let (mut a, mut x, mut memory) = (0_u32, 0_u32, [0_u32; 16]);
    let mut at = 0;
    loop {
        let (code, yes, no, k) = *filter.get(at)?;
        at += 1;
        let operand = if code & 0x08 == 0 { k } else { x };
        match code & 0x07 {
            // Load: of the data (only the number of the call and the architecture are known), a constant, or the memory.
            0x00 => {
                a = match (code & 0xe0, k) {
                    (0x20, 0) => call,
                    (0x20, 4) => X86_64,
                    (0x00, _) => k,
                    (0x60, _) => *memory.get(k as usize)?,
                    (0x80, _) => 64,
                    _ => return None,
                }
            }
            0x01 => {
                x = match code & 0xe0 {
                    0x00 => k,
                    0x60 => *memory.get(k as usize)?,
                    0x80 => 64,
                    _ => return None,
                }
            }
            0x02 => *memory.get_mut(k as usize)? = a,
            0x03 => *memory.get_mut(k as usize)? = x,
            0x04 => {
                a = match code & 0xf0 {
                    0x00 => a.wrapping_add(operand),
                    0x10 => a.wrapping_sub(operand),
                    0x20 => a.wrapping_mul(operand),
                    0x30 => a.checked_div(operand)?,
                    0x40 => a | operand,
                    0x50 => a & operand,
                    0x60 => a.checked_shl(operand)?,
                    0x70 => a.checked_shr(operand)?,
                    0x80 => a.wrapping_neg(),
                    0xa0 => a ^ operand,
                    _ => return None,
                }
            }
            0x05 => {
                let jump = match code & 0xf0 {
                    0x00 => k as usize,
                    0x10 => usize::from(if a == operand { yes } else { no }),
                    0x20 => usize::from(if a > operand { yes } else { no }),
                    0x30 => usize::from(if a >= operand { yes } else { no }),
                    0x40 => usize::from(if a & operand != 0 { yes } else { no }),
                    _ => return None,
                };
                at = at.checked_add(jump)?;
            }
            0x06 => return Some(if code & 0x18 == 0x10 { a } else { k }),
            _ => {
                if code & 0xf8 == 0 {
                    x = a;
                } else {
                    a = x;
                }
            }
        }
    }
}

/// The filters of a thread that is stopped, the newest first. It needs CAP_SYS_ADMIN.
pub fn filters(tid: u32) -> io::Result<Vec<Vec<Instruction>>> {
    const GET_FILTER: u32 = 0x420c;
    let mut all = Vec::new();
    loop {
        let mut program = vec![[0_u8; 8]; LONGEST];
        // SAFETY: the kernel writes at most the longest program, for which there is room.
        let length = unsafe { libc::ptrace(GET_FILTER as _, tid as libc::pid_t, all.len(), program.as_mut_ptr()) };
        if length < 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::ENOENT) { Ok(all) } else { Err(error) };
        }
        let instruction = |bytes: &[u8; 8]| {
            let [a, b, yes, no, k @ ..] = *bytes;
            (u16::from_le_bytes([a, b]), yes, no, u32::from_le_bytes(k))
        };
        all.push(program[..length as usize].iter().map(instruction).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD_NUMBER: Instruction = (0x20, 0, 0, 0);
    const LOAD_MACHINE: Instruction = (0x20, 0, 0, 4);

    fn end(verdict: u32) -> Instruction {
        (0x06, 0, 0, verdict)
    }

    #[test]
    fn a_list_of_calls_is_followed() {
        let filter = [
            LOAD_MACHINE,
            (0x15, 1, 0, X86_64),
            end(0),
            LOAD_NUMBER,
            (0x15, 0, 1, libc::SYS_munmap as u32),
            end(0x0005_0001),
            end(ALLOW),
        ];
        assert!(allows(&filter, libc::SYS_mmap));
        assert!(!allows(&filter, libc::SYS_munmap));
    }

    #[test]
    fn a_filter_by_arguments_or_a_damaged_one_allows_nothing() {
        assert!(!allows(&[(0x20, 0, 0, 16), end(ALLOW)], libc::SYS_mmap));
        assert!(!allows(&[], libc::SYS_mmap));
        assert!(!allows(&[(0x05, 0, 0, u32::MAX), end(ALLOW)], libc::SYS_mmap));
        assert!(!allows(&[(0x34, 0, 0, 0), end(ALLOW)], libc::SYS_mmap), "a division by zero");
    }

    #[test]
    fn comparisons_and_arithmetic() {
        // Numbers from 100 on are refused: (number & 0xff) - 1 >= 99.
        let filter = [LOAD_NUMBER, (0x54, 0, 0, 0xff), (0x14, 0, 0, 1), (0x35, 0, 1, 99), end(0), end(LOG)];
        assert!(allows(&filter, 5) && allows(&filter, 99) && !allows(&filter, 100));
    }
}
