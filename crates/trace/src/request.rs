//! The request of a command to the recorder in a process, and the answer. The command writes the request to the memory
//! of the process, and reads the answer there.

/// Record from now on.
pub const ATTACH: u32 = 1;
/// Change the tables of libraries that were opened since the last request.
pub const LOOK_AGAIN: u32 = 2;
/// Put the tables back, and end the trace.
pub const DETACH: u32 = 3;

/// The recorder has never recorded.
pub const STATE_NEVER: u32 = 0;
/// The recorder records.
pub const STATE_ATTACHED: u32 = 1;
/// The recorder has recorded, and the trace has ended.
pub const STATE_DETACHED: u32 = 2;

/// A request. All zeros means no request.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchRequest {
    /// What to do.
    pub act: u32,
    /// One block in this many is recorded.
    pub rate: u32,
    /// The largest size of the trace in bytes.
    pub limit: u64,
    /// The stack of one allocation in this many is recorded; 0 for none.
    pub stacks: u32,
    /// Length of the folder's path in bytes.
    pub length: u32,
    /// The folder's path.
    pub folder: [u8; 1024],
}

impl PatchRequest {
    /// No request.
    pub const NONE: PatchRequest = PatchRequest { act: 0, rate: 0, limit: 0, stacks: 0, length: 0, folder: [0; 1024] };

    /// The request as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let numbers = [self.act.to_le_bytes(), self.rate.to_le_bytes()].concat();
        let more = [self.stacks.to_le_bytes(), self.length.to_le_bytes()].concat();
        [numbers, self.limit.to_le_bytes().to_vec(), more, self.folder.to_vec()].concat()
    }
}

/// An answer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// One of the states.
    pub state: u32,
    /// Why nothing was done: the system's error number, 0 for success.
    pub error: i32,
    /// The step that failed: 1 a function was not found, 2 the program itself has the allocator, 3 two modules share
    /// it, 4 the file, 5 the tables, 6 the recorder is not in the state that the request needs, 7 the process was
    /// started with the recorder.
    pub step: u32,
    /// The number of modules whose words were changed or put back.
    pub modules: u32,
    /// The number of words that were changed or put back.
    pub words: u32,
    /// The number of modules that were not changed, because they call another allocator or are not writable.
    pub left: u32,
    /// The number of words that other code has changed after us. They stay as they are.
    pub others: u32,
    /// The number of changed words whose modules are closed.
    pub gone: u32,
}

impl Reply {
    /// Length of an answer in bytes.
    pub const BYTES: usize = size_of::<Reply>();

    /// Reads an answer from bytes.
    pub fn of(bytes: &[u8]) -> Option<Reply> {
        let mut numbers = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        let mut next = || numbers.next();
        Some(Reply {
            state: next()?,
            error: next()? as i32,
            step: next()?,
            modules: next()?,
            words: next()?,
            left: next()?,
            others: next()?,
            gone: next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_what_the_structures_have_in_memory() {
        let request = PatchRequest { act: 1, rate: 2, limit: 3, stacks: 4, length: 5, folder: [7; 1024] };
        // SAFETY: a structure of numbers without gaps.
        let memory: [u8; size_of::<PatchRequest>()] = unsafe { std::mem::transmute(request) };
        assert_eq!(request.bytes(), memory);
        let reply = Reply { state: 1, error: -2, step: 3, modules: 4, words: 5, left: 6, others: 7, gone: 8 };
        // SAFETY: as above.
        let memory: [u8; Reply::BYTES] = unsafe { std::mem::transmute(reply) };
        assert_eq!((Reply::of(&memory), Reply::of(&memory[..31])), (Some(reply), None));
    }
}
