//! Address space without memory. In: a size. Out: a mapping that costs nothing until it is touched, or the limit that
//! forbids it.

use std::fmt;
use std::ptr::NonNull;

use allocanary_sys::sys::{first_number, line_number, page_bytes, read_into};
use allocanary_text::units::Bytes;

/// A reserved range of addresses, readable and writable, zero until written. Unmapped on drop.
#[derive(Debug)]
pub struct Reserved {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: this value alone owns the anonymous mapping, and shared access only reads.
unsafe impl Send for Reserved {}
// SAFETY: as above.
unsafe impl Sync for Reserved {}

/// The reason why addresses could not be reserved.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReserveError {
    /// The size is 0, or more than an address can be.
    Size(u64),
    /// A limit leaves fewer bytes than requested.
    Limit {
        /// The requested bytes.
        wanted: Bytes,
        /// The bytes that the limit leaves.
        left: Bytes,
        /// The name of the limit.
        limit: &'static str,
    },
    /// The kernel refused: the address space has no free range of this size, or the process has too many mappings.
    System {
        /// The requested bytes.
        wanted: Bytes,
        /// The kernel's error.
        why: std::io::Error,
    },
}

impl fmt::Display for ReserveError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReserveError::Size(bytes) => {
                write!(out, "reserving addresses: wanted 1 byte or more and fewer than 2^63, found {bytes}")
            }
            ReserveError::Limit { wanted, left, limit } => {
                write!(out, "reserving {wanted}: {limit} leaves {left}; ask for less, or raise the limit")
            }
            ReserveError::System { wanted, why } => {
                write!(out, "reserving {wanted}: the kernel has no room for it among this process's addresses: {why}")
            }
        }
    }
}

impl std::error::Error for ReserveError {}

impl Reserved {
    pub(super) fn new(wanted: Bytes) -> Result<Reserved, ReserveError> {
        let page = page_bytes();
        let whole = wanted.0.div_ceil(page).saturating_mul(page);
        let length = match usize::try_from(whole) {
            Ok(length) if (1..=isize::MAX as usize).contains(&length) => length,
            _ => return Err(ReserveError::Size(wanted.0)),
        };
        for (limit, left) in [
            ("the limit on address space (RLIMIT_AS, ulimit -v)", left_of_addresses()),
            ("strict overcommit (vm.overcommit_memory 2)", left_of_commitment()),
        ] {
            if let Some(left) = left.filter(|left| *left < whole) {
                return Err(ReserveError::Limit { wanted, left: Bytes(left), limit });
            }
        }
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that is there.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Reserved { start, length }),
            _ => Err(ReserveError::System { wanted, why: std::io::Error::last_os_error() }),
        }
    }

    /// The size: the requested bytes, rounded up to whole pages.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.length as u64)
    }

    /// The memory, for reading. A page that is read becomes resident too, as the kernel's shared page of zeroes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: mapped readable for as long as this value lives, and zero where nothing was written.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// The memory, for writing. A page that is written becomes resident.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and writable; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    /// Returns all memory to the system and keeps the addresses: nothing is resident, and all bytes are zero again.
    /// Under `mlockall` the memory stays resident and is filled with zeroes.
    pub fn clear(&mut self) {
        // SAFETY: a private anonymous mapping of ours that nobody else borrows; the kernel fills it with zeroes anew.
        let refused = unsafe { libc::madvise(self.start.as_ptr().cast(), self.length, libc::MADV_DONTNEED) } != 0;
        if refused {
            // Locked memory (mlockall) cannot be returned; it is filled with zeroes instead.
            self.as_mut_slice().fill(0);
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: unmaps what `new` mapped; no slice of it outlives this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Bytes of address space that RLIMIT_AS leaves; `None` if there is no limit.
fn left_of_addresses() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes the limit into memory that is ours.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) } != 0;
    if failed || limit.rlim_cur == libc::RLIM_INFINITY {
        return None;
    }
    let mut text = [0; 128];
    let used = first_number(read_into("/proc/self/statm", &mut text)?)? * page_bytes();
    Some(limit.rlim_cur.saturating_sub(used))
}

/// Bytes that may still be committed under strict overcommit, where untouched memory counts too.
fn left_of_commitment() -> Option<u64> {
    let mut text = [0; 4096];
    if first_number(read_into("/proc/sys/vm/overcommit_memory", &mut text)?)? != 2 {
        return None;
    }
    let text = read_into("/proc/meminfo", &mut text)?;
    let kib = |key: &[u8]| line_number(text, key);
    Some(kib(b"CommitLimit:")?.saturating_sub(kib(b"Committed_AS:")?) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_memory_is_zero_until_written_and_again_when_cleared() {
        let mut reserved = Reserved::new(Bytes(10_000)).unwrap();
        assert_eq!(reserved.bytes().0 % page_bytes(), 0);
        assert_eq!(reserved.as_slice()[9_999], 0);
        reserved.as_mut_slice()[9_999] = 7;
        assert_eq!(reserved.as_slice()[9_999], 7);
        reserved.clear();
        assert_eq!(reserved.as_slice()[9_999], 0);
    }

    #[test]
    fn absurd_sizes_are_errors_that_name_both_numbers() {
        assert!(matches!(Reserved::new(Bytes(0)), Err(ReserveError::Size(0))));
        assert!(matches!(Reserved::new(Bytes(u64::MAX)), Err(ReserveError::Size(_))));
        // 2^62 is an address in theory; no processor has that many.
        let said = Reserved::new(Bytes(1 << 62)).unwrap_err().to_string();
        assert!(said.starts_with("reserving 4194304 TiB: "), "{said}");
    }
}
