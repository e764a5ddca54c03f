//! The frame of aarch64.

/// The size of a frame: the facts about the signal, the context, and room for further parts.
pub const BYTES: u64 = 4688;

// The offsets of the flags of the alternate stack, of the mask of signals, of the general registers, and of the part with the vectors.
const STACK_FLAGS: usize = 152;
const MASK: usize = 168;
const REGISTERS: usize = 312;
const VECTORS: usize = 592;

/// The kernel's mark of the part with the vectors, and the size of this part. The parts end with zeroes.
const MAGIC: u32 = 0x4650_8001;
const SIZE: u32 = 528;

/// The bytes of all vector registers.
const ALL: usize = 512;

/// The vector registers, in the form that a frame has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended(Vec<u8>);

impl Extended {
    /// Makes it from what the kernel reports about a stopped thread: the vector registers, and then the status and the control of floating
    /// point. The upper parts of longer vectors (SVE) are not there: every system call loses them. `None` if bytes are missing.
    pub fn of(told: &[u8]) -> Option<Extended> {
        let (vectors, state) = (told.get(..ALL)?, told.get(ALL..ALL + 8)?);
        Some(Extended([&MAGIC.to_le_bytes(), &SIZE.to_le_bytes(), state, vectors].concat()))
    }
}

/// The highest address for a frame below an address.
pub fn place(below: u64) -> u64 {
    (below - BYTES) / 16 * 16
}

/// The bytes of a frame. In: x0 to x30, the stack pointer, the program counter and the processor's state; the mask of signals; the vectors.
pub fn bytes(registers: &[u64; 34], mask: u64, extended: &Extended) -> Vec<u8> {
    let mut frame = vec![0; BYTES as usize];
    let mut put = |at: usize, bytes: &[u8]| frame[at..at + bytes.len()].copy_from_slice(bytes);
    // The alternate stack cannot be read from outside. With an invalid mode, the kernel leaves it as it is.
    put(STACK_FLAGS, &0x7f_u32.to_le_bytes());
    put(MASK, &mask.to_le_bytes());
    registers.iter().enumerate().for_each(|(at, word)| put(REGISTERS + at * 8, &word.to_le_bytes()));
    put(VECTORS, &extended.0);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first word of the part with the vectors.
    const MARK: u64 = MAGIC as u64 | (SIZE as u64) << 32;

    fn word(bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn each_part_is_where_the_kernel_reads_it() {
        let told: Vec<u8> = (0..528_u32).map(|at| at as u8).collect();
        let extended = Extended::of(&told).unwrap();
        let registers: [u64; 34] = std::array::from_fn(|at| 0x1000 + at as u64);
        let frame = bytes(&registers, 0x55, &extended);
        assert_eq!(frame.len() as u64, BYTES);
        assert_eq!((word(&frame, 152), word(&frame, 168)), (0x7f, 0x55));
        assert_eq!(word(&frame, 304), 0, "the address of a fault");
        let found: Vec<u64> = (0..34).map(|at| word(&frame, 312 + at * 8)).collect();
        assert_eq!(found, registers);
        // Mark and size, status, control, v0 to v31, and the end of the parts.
        assert_eq!(word(&frame, 592), MARK);
        assert_eq!(frame[600..608], told[512..520]);
        assert_eq!(frame[608..1120], told[..512]);
        assert!(frame[1120..].iter().all(|byte| *byte == 0));
        assert_eq!(Extended::of(&told[..519]), None, "the control is missing");
    }

    #[test]
    fn a_frame_is_aligned_below_an_address() {
        for below in [0x10000, 0x10008, 0x1000f] {
            assert_eq!((place(below) % 16, place(below) + BYTES <= below), (0, true));
        }
        assert_eq!(place(0x10000), 0x10000 - BYTES);
    }

    /// A frame is made from the registers in the kernel's frame. It must equal the kernel's frame, except for what only a handler is told.
    #[cfg(target_arch = "aarch64")]
    #[test]
    fn a_frame_is_as_the_kernel_makes_it() {
        use std::sync::Mutex;
        static FOUND: Mutex<Option<(u64, Vec<u8>)>> = Mutex::new(None);
        extern "C" fn handler(_signal: i32, about: *mut libc::siginfo_t, _context: *mut libc::c_void) {
            // SAFETY: the kernel has written the whole frame there, and it stays there until the handler returns.
            let bytes = unsafe { std::slice::from_raw_parts(about.cast::<u8>(), BYTES as usize) }.to_vec();
            *FOUND.try_lock().unwrap() = Some((about.expose_provenance() as u64, bytes));
        }
        // SAFETY: the handler above takes these arguments, and only copies bytes. The signal is raised for this thread.
        let (at, kernel) = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
            libc::raise(libc::SIGUSR1);
            FOUND.lock().unwrap().take().unwrap()
        };
        let registers: [u64; 34] = std::array::from_fn(|place| word(&kernel, REGISTERS + place * 8));
        assert_eq!(word(&kernel, VECTORS), MARK);
        let told = [&kernel[VECTORS + 16..VECTORS + 16 + ALL], &kernel[VECTORS + 8..VECTORS + 16]].concat();
        let own = bytes(&registers, word(&kernel, MASK), &Extended::of(&told).unwrap());
        let differ: Vec<usize> = (0..VECTORS + SIZE as usize).filter(|place| own[*place] != kernel[*place]).collect();
        // The facts about the signal, the flags and the link, the alternate stack, and the address of a fault.
        let told =
            |place: &usize| *place < MASK || (MASK + 8..REGISTERS).contains(place) || (584..VECTORS).contains(place);
        assert!(differ.iter().all(told), "{differ:?}");
        assert_eq!(at % 16, 0);
    }
}
