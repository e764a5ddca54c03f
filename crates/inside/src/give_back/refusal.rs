//! The reasons why no thread of a process makes a call for us. Each message says what else would help.

use std::time::Duration;

use allocanary_heap::ProcessTrouble;

/// Why nothing was done, or why it is unknown whether something was done.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The kernel does not allow it, or the process is gone.
    #[error(transparent)]
    Trouble(#[from] ProcessTrouble),
    /// The state of the whole process forbids it.
    #[error("process {pid}: {state}. {instead}")]
    State {
        /// The process.
        pid: u32,
        /// The state that was found.
        state: String,
        /// What to do instead.
        instead: &'static str,
    },
    /// The allocator has no call that can be found.
    #[error(
        "process {pid}: wanted the function `{function}` of {allocator}, and found it in no symbol table of {looked}. The program is \
         linked statically, without that function or without symbols: have it make that call itself, or restart it with another setting \
         (`allocanary doctor {pid}` has lines)"
    )]
    NoFunction {
        /// The process.
        pid: u32,
        /// The allocator.
        allocator: String,
        /// The function.
        function: &'static str,
        /// How many files were searched, in words.
        looked: String,
    },
    /// Two or more libraries contain the allocator's function, and it is unclear which one has the heap.
    #[error(
        "process {pid}: `{function}` is in {files}, and it is not known which of them has the heap. Have the program make the call itself"
    )]
    SeveralFunctions {
        /// The process.
        pid: u32,
        /// The function.
        function: &'static str,
        /// The files.
        files: String,
    },
    /// No thread waits in a call that can be made again.
    #[error(
        "process {pid}: no thread waits where it can be borrowed ({found}). Wanted: one in nanosleep, poll, select, epoll_wait, read, accept, \
         recv, pause, wait or a wait for a condition. {help}"
    )]
    NoThread {
        /// The process.
        pid: u32,
        /// What its threads do.
        found: String,
        /// What would help.
        help: &'static str,
    },
    /// A thread did not stop in time. When it stopped, it was released.
    #[error(
        "process {pid}: thread {tid}, which waits, did not stop within 2 s: it waits for a device or a file system, or has no processor. It was \
         let go, and nothing was called. Try again later"
    )]
    Late {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
    },
    /// A thread did not stop at all.
    #[error(
        "process {pid}: thread {tid}, which waits, did not stop within 22 s, as if it waited for a device that does not answer. Nothing was called. \
         The kernel lets it go when this command ends, and its wait may end with EINTR"
    )]
    Never {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
    },
    /// The call waited for a lock that another thread holds, and was abandoned.
    #[error(
        "process {pid}: after {waited:?} thread {tid} still waited for a lock that another thread holds. The call was taken back; \
         what arenas before it gave stays given. Try again, with a longer --lock-timeout"
    )]
    Locked {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// How long it had waited.
        waited: Duration,
    },
    /// The call sleeps, and cannot be abandoned. It ends by itself.
    #[error(
        "process {pid}: after {waited:?} the call in thread {tid} still waited for something that another thread holds, and could not be taken \
         back. It ends when that is free, and the thread then waits again as before. Look at the process later"
    )]
    Left {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// How long it had taken.
        waited: Duration,
    },
    /// The call hit a fault. The program continues where it had waited.
    #[error(
        "process {pid}: the call in thread {tid} was stopped by signal {signal} at {at:#x}. The thread waits again as before, but the allocator \
         may hold a lock: restart the program"
    )]
    Fault {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// The signal.
        signal: i32,
        /// The address of the instruction.
        at: u64,
    },
    /// The process ended during the call.
    #[error("process {0}: it ended during the call")]
    Ended(u32),
}

impl Refusal {
    /// Whether a call had begun. It may have given memory back before it failed.
    pub fn has_begun(&self) -> bool {
        matches!(self, Refusal::Locked { .. } | Refusal::Left { .. } | Refusal::Fault { .. } | Refusal::Ended(_))
    }

    /// The reason alone, as a part of a sentence.
    pub fn reason(&self) -> String {
        match self {
            Refusal::State { state, instead, .. } => format!("{state}. {instead}"),
            Refusal::NoFunction { allocator, function, looked, .. } => {
                format!("the function `{function}` of {allocator} is in no symbol table of {looked}")
            }
            Refusal::SeveralFunctions { function, files, .. } => {
                format!("`{function}` is in {files}, and it is not known which of them has the heap")
            }
            Refusal::Trouble(trouble) => trouble.to_string(),
            other => other.to_string(),
        }
    }

    /// Makes a refusal from the system's error; `what` was tried.
    pub fn of(pid: u32, what: &'static str, error: std::io::Error) -> Refusal {
        Refusal::Trouble(ProcessTrouble::of(pid, what, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_again_only_where_a_call_had_begun() {
        let found = String::new();
        let before = [
            Refusal::Late { pid: 1, tid: 1 },
            Refusal::Never { pid: 1, tid: 1 },
            Refusal::NoThread { pid: 1, found, help: "" },
            Refusal::Trouble(ProcessTrouble::Gone(1)),
        ];
        assert!(!before.iter().any(Refusal::has_begun));
        let waited = Duration::from_secs(1);
        let during = [
            Refusal::Locked { pid: 1, tid: 1, waited },
            Refusal::Left { pid: 1, tid: 1, waited },
            Refusal::Fault { pid: 1, tid: 1, signal: 11, at: 0 },
            Refusal::Ended(1),
        ];
        assert!(during.iter().all(Refusal::has_begun));
    }
}
