//! Evaluates a process's seccomp filter, to see whether it allows a system call.

use std::io;

/// One instruction: code, jump if true, jump if false, a constant. The kernel's `struct sock_filter`.
pub type Instruction = (u16, u8, u8, u32);

/// The most instructions of a program.
const LONGEST: usize = 4096;

/// The verdict that lets a call pass: its upper 16 bits.
const ALLOW: u32 = 0x7fff_0000;
/// The verdict that lets a call pass and logs it.
const LOG: u32 = 0x7ffc_0000;

/// The number of this machine in a filter's data.
const MACHINE: u32 = if cfg!(target_arch = "aarch64") { 0xc000_00b7 } else { 0xc000_003e };

/// A system call with the arguments that are known in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyscallArgs {
    /// Its number.
    pub number: i64,
    /// Its arguments; `None` for an unknown one.
    pub arguments: [Option<u64>; 6],
}

/// A filter that needs more steps than this counts as one that refuses.
const STEPS: usize = 200_000;

/// Whether a filter allows a call, whatever values the unknown arguments have. If the filter cannot be evaluated here, it counts
/// as one that refuses.
pub fn allows(filter: &[Instruction], call: &SyscallArgs) -> bool {
    let start = State { at: 0, a: Some(0), x: Some(0), memory: [Some(0); 16] };
    let (mut open, mut steps) = (vec![start], 0);
    while let Some(mut state) = open.pop() {
        loop {
            steps += 1;
            match (steps < STEPS).then(|| step(filter, call, &mut state)).flatten() {
                Some(Next::On) => {}
                // The compared value is unknown: both branches are followed.
                Some(Next::Either(one, other)) => {
                    open.push(State { at: one, ..state });
                    state.at = other;
                }
                Some(Next::Verdict(verdict)) if [ALLOW, LOG].contains(&(verdict & 0xffff_0000)) => break,
                Some(Next::Verdict(_)) | None => return false,
            }
        }
    }
    true
}

/// The state of a filter that is evaluated. A value that depends on something unknown is unknown.
#[derive(Clone, Copy)]
struct State {
    at: usize,
    a: Option<u32>,
    x: Option<u32>,
    memory: [Option<u32>; 16],
}

enum Next {
    On,
    Either(usize, usize),
    Verdict(u32),
}

/// A word of the filter's input: the call's number, the architecture, the address of the call, the arguments. The outer `None` means that
/// there is no such word, the inner one that its value is unknown.
fn told(call: &SyscallArgs, at: u32) -> Option<Option<u32>> {
    match at {
        0 => Some(Some(call.number as u32)),
        4 => Some(Some(MACHINE)),
        8 | 12 => Some(None),
        16..64 if at.is_multiple_of(4) => {
            let argument = call.arguments[(at as usize - 16) / 8];
            Some(argument.map(|argument| if at.is_multiple_of(8) { argument as u32 } else { (argument >> 32) as u32 }))
        }
        _ => None,
    }
}

/// Evaluates one instruction. `None` if the instruction is unknown. Jumps only go forward, so that a filter ends.
fn step(filter: &[Instruction], call: &SyscallArgs, state: &mut State) -> Option<Next> {
    let (code, yes, no, k) = *filter.get(state.at)?;
    state.at += 1;
    let operand = if code & 0x08 == 0 { Some(k) } else { state.x };
    match code & 0x07 {
        0x00 => {
            state.a = match code & 0xe0 {
                0x20 => told(call, k)?,
                0x00 => Some(k),
                0x60 => *state.memory.get(k as usize)?,
                0x80 => Some(64),
                _ => return None,
            }
        }
        0x01 => {
            state.x = match code & 0xe0 {
                0x00 => Some(k),
                0x60 => *state.memory.get(k as usize)?,
                0x80 => Some(64),
                _ => return None,
            }
        }
        0x02 => *state.memory.get_mut(k as usize)? = state.a,
        0x03 => *state.memory.get_mut(k as usize)? = state.x,
        0x04 => state.a = computed(code & 0xf0, state.a, operand)?,
        0x05 => return jump(code & 0xf0, state, operand, k, (yes, no)),
        0x06 => return if code & 0x18 == 0x10 { state.a.map(Next::Verdict) } else { Some(Next::Verdict(k)) },
        _ if code & 0xf8 == 0 => state.x = state.a,
        _ => state.a = state.x,
    }
    Some(Next::On)
}

fn computed(operation: u16, a: Option<u32>, operand: Option<u32>) -> Option<Option<u32>> {
    // The result is 0, whatever the other value is.
    if operation == 0x50 && (a == Some(0) || operand == Some(0)) {
        return Some(Some(0));
    }
    let Some((a, operand)) = a.zip(if operation == 0x80 { Some(0) } else { operand }) else { return Some(None) };
    Some(Some(match operation {
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
    }))
}

fn jump(operation: u16, state: &mut State, operand: Option<u32>, k: u32, (yes, no): (u8, u8)) -> Option<Next> {
    if operation == 0x00 {
        state.at = state.at.checked_add(k as usize)?;
        return Some(Next::On);
    }
    let (yes, no) = (state.at + usize::from(yes), state.at + usize::from(no));
    let Some((a, operand)) = state.a.zip(operand) else { return Some(Next::Either(yes, no)) };
    let holds = match operation {
        0x10 => a == operand,
        0x20 => a > operand,
        0x30 => a >= operand,
        0x40 => a & operand != 0,
        _ => return None,
    };
    state.at = if holds { yes } else { no };
    Some(Next::On)
}

/// The filters of a stopped thread, the newest first. Reading them needs CAP_SYS_ADMIN.
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

    fn any(number: i64) -> SyscallArgs {
        SyscallArgs { number, arguments: [None; 6] }
    }

    #[test]
    fn a_list_of_calls_is_followed() {
        let filter = [
            LOAD_MACHINE,
            (0x15, 1, 0, MACHINE),
            end(0),
            LOAD_NUMBER,
            (0x15, 0, 1, libc::SYS_munmap as u32),
            end(0x0005_0001),
            end(ALLOW),
        ];
        assert!(allows(&filter, &any(libc::SYS_mmap)));
        assert!(!allows(&filter, &any(libc::SYS_munmap)));
    }

    #[test]
    fn a_damaged_filter_allows_nothing() {
        assert!(!allows(&[(0x20, 0, 0, 64), end(ALLOW)], &any(libc::SYS_mmap)), "behind the arguments");
        assert!(!allows(&[], &any(libc::SYS_mmap)));
        assert!(!allows(&[(0x05, 0, 0, u32::MAX), end(ALLOW)], &any(libc::SYS_mmap)));
        assert!(!allows(&[(0x34, 0, 0, 0), end(ALLOW)], &any(libc::SYS_mmap)), "a division by zero");
    }

    #[test]
    fn comparisons_and_arithmetic() {
        // Numbers from 100 on are refused: (number & 0xff) - 1 >= 99.
        let filter = [LOAD_NUMBER, (0x54, 0, 0, 0xff), (0x14, 0, 0, 1), (0x35, 0, 1, 99), end(0), end(LOG)];
        assert!(allows(&filter, &any(5)) && allows(&filter, &any(99)) && !allows(&filter, &any(100)));
    }

    /// A filter like that of systemd's MemoryDenyWriteExecute: it refuses memory that can be both written and executed,
    /// and no other memory.
    #[test]
    fn a_filter_by_arguments_is_asked_for_ours() {
        let filter = [
            LOAD_NUMBER,
            (0x15, 0, 4, libc::SYS_mmap as u32),
            (0x20, 0, 0, 32),
            (0x54, 0, 0, 6),
            (0x15, 0, 1, 6),
            end(0x0005_0001),
            end(ALLOW),
        ];
        let mmap = |access| SyscallArgs { number: libc::SYS_mmap, arguments: [None, None, access, None, None, None] };
        assert!(allows(&filter, &mmap(Some(3))) && allows(&filter, &any(libc::SYS_brk)));
        assert!(!allows(&filter, &mmap(Some(7))));
        assert!(!allows(&filter, &mmap(None)), "what is not known may be refused");
        // The unknown value is masked to zero.
        let masked = [(0x20, 0, 0, 32), (0x54, 0, 0, 0), (0x15, 0, 1, 0), end(ALLOW), end(0)];
        assert!(allows(&masked, &mmap(None)));
    }

    #[test]
    fn a_filter_that_doubles_its_ways_ends() {
        let mut filter = vec![(0x20, 0, 0, 16)];
        for _ in 0..1000 {
            filter.push((0x15, 1, 0, 0));
            filter.push((0x00, 0, 0, 1));
            filter.push((0x20, 0, 0, 16));
        }
        filter.push(end(ALLOW));
        assert!(!allows(&filter, &any(libc::SYS_mmap)));
    }
}
