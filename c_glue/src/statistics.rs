//! The statistics of memory, for C. In: the allocator's counters and /proc. Out: one struct.

use allocanary::tuning;
use allocanary_sys::proc::ProcStatus;
use allocanary_sys::proc::smaps::MappingBytes;

use crate::border::{AllocanaryCode, guard, null, tuned};
use crate::heap::allocanary_requested_bytes;

/// The value of a field of `AllocanaryStatistics` that this allocator does not report.
pub const ALLOCANARY_UNKNOWN: u64 = u64::MAX;

/// Where the memory of all threads together is. A field that this allocator does not report is `ALLOCANARY_UNKNOWN`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AllocanaryStatistics {
    /// Bytes in blocks that the program holds, rounded up to size classes.
    pub allocator_allocated_bytes: u64,
    /// Bytes in pages with at least one such block.
    pub allocator_active_bytes: u64,
    /// Bytes in pages of the allocator that are in memory.
    pub allocator_resident_bytes: u64,
    /// Bytes of mappings of the allocator, touched or not.
    pub allocator_mapped_bytes: u64,
    /// Bytes in the allocator's own structures.
    pub allocator_metadata_bytes: u64,
    /// Bytes of addresses kept for later, without memory.
    pub allocator_retained_bytes: u64,
    /// The number of arenas that have been used.
    pub allocator_arenas: u64,
    /// The maximum number of arenas that threads are spread over; unknown if there is no limit.
    pub allocator_arenas_limit: u64,
    /// Resident memory of the whole process, whoever allocated it.
    pub resident_bytes: u64,
    /// Bytes in blocks of `allocanary_calloc`, in the requested sizes.
    pub requested_bytes: u64,
    /// Active bytes divided by allocated bytes: 1 means no fragmentation. Negative if it is unknown.
    pub allocator_fragmentation_ratio: f64,
}

/// Writes to `statistics` where the memory is. The call takes microseconds. With glibc it locks each arena in turn.
///
/// # Safety
///
/// `statistics` points to a struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn allocanary_statistics(statistics: *mut AllocanaryStatistics) -> AllocanaryCode {
    guard(|| {
        if statistics.is_null() {
            return null("statistics");
        }
        // SAFETY: not null, and the caller promises it.
        tuned(read().map(|found| unsafe { statistics.write(found) }))
    })
}

/// The present statistics.
pub fn read() -> tuning::Result<AllocanaryStatistics> {
    let known = |value: Option<u64>| value.unwrap_or(ALLOCANARY_UNKNOWN);
    let tuning::Statistics { counters, fragmentation, .. } = tuning::statistics()?;
    Ok(AllocanaryStatistics {
        allocator_allocated_bytes: known(counters.allocated),
        allocator_active_bytes: known(counters.active),
        allocator_resident_bytes: known(counters.resident),
        allocator_mapped_bytes: known(counters.mapped),
        allocator_metadata_bytes: known(counters.metadata),
        allocator_retained_bytes: known(counters.retained),
        allocator_arenas: known(counters.arenas),
        // Only glibc's loader has the answer. Reading it starts a process, which is too expensive for statistics.
        allocator_arenas_limit: if cfg!(feature = "system") {
            ALLOCANARY_UNKNOWN
        } else {
            known(tuning::most_arenas()?.map(u64::from))
        },
        resident_bytes: known(resident()),
        requested_bytes: allocanary_requested_bytes() as u64,
        allocator_fragmentation_ratio: fragmentation.unwrap_or(-1.0),
    })
}

/// The resident memory from smaps_rollup, which is exact. If the kernel does not have this file, `status` is read,
/// which may be wrong by some pages per processor.
fn resident() -> Option<u64> {
    let rollup = MappingBytes::own().ok().and_then(|counts| counts.resident);
    rollup.or_else(|| ProcStatus::own().ok()?.resident)
}
