//! Makes the bytes on a borrowed thread's stack that make its call, and then return the thread to its wait without our help. Also makes the
//! registers with which the call begins. Each machine has its own chain of these bytes.

use allocanary_heap::ptrace::Registers;

use crate::give_back::borrow::frame::Extended;
use crate::give_back::remedy::Argument;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

/// The size of the area for the bytes of the arguments, and in front of them for a result.
const DATA: u64 = 1024;

/// The state to which a thread returns.
pub struct ReturnState<'a> {
    /// Its registers, set so that its wait begins again.
    pub registers: Registers,
    /// The signals that it blocks.
    pub mask: u64,
    /// Its extended state.
    pub extended: &'a Extended,
    /// The address of its error number, and the number.
    pub errno: (u64, u32),
}

/// The values of the arguments, and the bytes that they point to, in an area for data at this address. `None` if they do not fit.
fn values(area: u64, arguments: &[Argument]) -> Option<([u64; 6], Vec<u8>)> {
    let (mut values, mut data) = ([0; 6], Vec::new());
    let from = area + 16;
    for (at, argument) in arguments.iter().enumerate() {
        let value = values.get_mut(at)?;
        let bytes = match argument {
            Argument::Number(number) => {
                *value = *number;
                continue;
            }
            Argument::Text(text) => [text.as_bytes(), &[0]].concat(),
            Argument::Bytes(bytes) => bytes.clone(),
        };
        *value = from + data.len() as u64;
        data.extend(bytes);
        data.resize(data.len().next_multiple_of(16), 0);
    }
    (data.len() as u64 + 16 <= DATA).then_some((values, data))
}

/// The signals that a thread gets for a fault.
const FAULTS: [i32; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// The signals that are blocked during a call: all but those of faults and the one that reports the call's end, if there is one.
pub fn blocked(notice: Option<i32>) -> u64 {
    use allocanary_heap::ptrace::bit;
    !(FAULTS.map(bit).into_iter().sum::<u64>() | notice.map_or(0, bit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_laid_out_one_after_the_other() {
        let arguments = [Argument::Text("epoch".into()), Argument::Number(7), Argument::Bytes(vec![1, 2])];
        let (found, data) = values(0x1000, &arguments).unwrap();
        assert_eq!(found, [0x1010, 7, 0x1020, 0, 0, 0]);
        assert_eq!((&data[..6], &data[16..18], data.len()), (&b"epoch\0"[..], &[1, 2][..], 32));
        assert_eq!(values(0x1000, &[Argument::Bytes(vec![0; 2000])]), None);
        assert_eq!(values(0x1000, &vec![Argument::Number(0); 7]), None);
    }
}
