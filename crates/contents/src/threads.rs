//! The threads of a process with the data that roots need: where each stack begins, and the words in registers.

use std::collections::BTreeMap;

use allocanary_heap::{CoreFile, Memory};
use allocanary_process::{StoppedProcess, ThreadRegisters, ThreadWait, calls};

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSnapshot {
    /// The thread ID.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its thread pointer, if it could be read.
    pub pointer: Option<u64>,
    /// Its stack pointer; `None` for a thread that was running when it was read.
    pub stack: Option<u64>,
    /// The words in its registers: all of them if it is stopped, otherwise the arguments of the system call in which it waits.
    pub registers: Vec<u64>,
}

/// The threads of a live process. All registers are known only if it is stopped.
pub fn of(memory: &dyn Memory, pid: u32, stopped: Option<&StoppedProcess>) -> Vec<ThreadSnapshot> {
    let called: BTreeMap<u32, ThreadWait> =
        calls(pid).unwrap_or_default().into_iter().map(|called| (called.tid, called)).collect();
    let registers: BTreeMap<u32, ThreadRegisters> =
        stopped.map(StoppedProcess::registers).unwrap_or_default().into_iter().map(|one| (one.tid, one)).collect();
    let one = |thread: &allocanary_heap::ThreadId| {
        let called = called.get(&thread.tid);
        let (stack, words) = match (stopped, registers.get(&thread.tid)) {
            (Some(_), Some(one)) => (Some(one.stack), one.words.clone()),
            (Some(_), None) => (None, Vec::new()),
            (None, _) => parse_call(called.map_or("", |called| &called.call)),
        };
        let name = called.map(|called| called.name.clone()).unwrap_or_default();
        ThreadSnapshot { tid: thread.tid, name, pointer: thread.pointer, stack, registers: words }
    };
    memory.threads().iter().map(one).collect()
}

/// The threads of a core.
pub fn of_core(core: &CoreFile) -> Vec<ThreadSnapshot> {
    let one = |(thread, (stack, registers)): (&allocanary_heap::ThreadId, &(u64, Vec<u64>))| ThreadSnapshot {
        tid: thread.tid,
        name: String::new(),
        pointer: thread.pointer,
        stack: Some(*stack),
        registers: registers.clone(),
    };
    core.threads().iter().zip(&core.registers).map(one).collect()
}

/// Parses the text of `/proc/PID/task/TID/syscall`: the call's number, six arguments, the stack pointer, the program counter. For a thread
/// that waits outside of a call, it has `-1` and the last two. For a running thread, it has one word without numbers.
fn parse_call(text: &str) -> (Option<u64>, Vec<u64>) {
    let words: Option<Vec<u64>> = text
        .split_whitespace()
        .skip(1)
        .map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok())
        .collect();
    let words = words.unwrap_or_default();
    let stack = words.len().checked_sub(2).map(|at| words[at]);
    (stack, words[..words.len().saturating_sub(2)].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_tells_its_arguments_and_the_stack() {
        let (stack, registers) = parse_call("7 0x7ffd10 0x1 0xffffffffffffffff 0x0 0x8 0x0 0x7ffd00 0x7f11\n");
        assert_eq!((stack, registers), (Some(0x7ffd00), vec![0x7ffd10, 1, u64::MAX, 0, 8, 0]));
        assert_eq!(parse_call("running\n"), (None, vec![]));
        assert_eq!(parse_call("-1 0x7ffd00 0x7f11"), (Some(0x7ffd00), vec![]));
        assert_eq!(parse_call(""), (None, vec![]));
    }
}
