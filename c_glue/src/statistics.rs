//! Where the memory is, for C. In: the allocator's counters and /proc. Out: one struct.

use allocanary::tuning;
use allocanary_kernel::sys::{line_number, read_into};

use crate::border::{AllocanaryCode, guard, null, tuned};
use crate::heap::allocanary_bytes_in_use;

/// What this allocator cannot say, in `AllocanaryStatistics`.
pub const ALLOCANARY_UNKNOWN: u64 = u64::MAX;

/// Where the memory is, all threads together. `ALLOCANARY_UNKNOWN` stands for what this allocator cannot say.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AllocanaryStatistics {
    /// In blocks that the program holds, rounded up to size classes.
    pub allocated_bytes: u64,
    /// In pages that hold at least one such block.
    pub active_bytes: u64,
    /// In pages of the allocator that are in memory.
    pub resident_bytes: u64,
    /// In the allocator's own structures.
    pub metadata_bytes: u64,
    /// Addresses kept for later, with no memory behind them.
    pub retained_bytes: u64,
    /// Arenas that have been used, in number.
    pub arenas: u64,
    /// The most arenas that threads are spread over; unknown where there is no limit.
    pub most_arenas: u64,
    /// Resident memory of the whole process, whoever allocated it.
    pub process_resident_bytes: u64,
    /// In blocks of `allocanary_calloc`, as they were asked for.
    pub in_use_bytes: u64,
    /// Active over allocated bytes: 1 is no fragmentation. Negative where it is unknown.
    pub fragmentation: f64,
}

/// Where the memory is, into `statistics`. Costs microseconds, and with glibc a lock on each arena in turn.
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
        // SAFETY: not null, and as the caller promises.
        tuned(read().map(|found| unsafe { statistics.write(found) }))
    })
}

/// The statistics of now.
pub fn read() -> tuning::Result<AllocanaryStatistics> {
    let known = |value: Option<u64>| value.unwrap_or(ALLOCANARY_UNKNOWN);
    let tuning::Statistics { counters, fragmentation, .. } = tuning::statistics()?;
    Ok(AllocanaryStatistics {
        allocated_bytes: known(counters.allocated),
        active_bytes: known(counters.active),
        resident_bytes: known(counters.resident),
        metadata_bytes: known(counters.metadata),
        retained_bytes: known(counters.retained),
        arenas: known(counters.arenas),
        // With glibc the answer comes from its loader, which is a process to start: not for statistics.
        most_arenas: if cfg!(feature = "system") {
            ALLOCANARY_UNKNOWN
        } else {
            known(tuning::most_arenas()?.map(u64::from))
        },
        process_resident_bytes: known(process_resident()),
        in_use_bytes: allocanary_bytes_in_use() as u64,
        fragmentation: fragmentation.unwrap_or(-1.0),
    })
}

/// From smaps_rollup, which is exact; `status`, which may lag by some pages per processor, where a kernel is without.
fn process_resident() -> Option<u64> {
    let mut text = [0; 4096];
    let rollup = read_into("/proc/self/smaps_rollup", &mut text).and_then(|text| line_number(text, b"Rss:"));
    let kib = rollup.or_else(|| line_number(read_into("/proc/self/status", &mut text)?, b"VmRSS:"))?;
    Some(kib * 1024)
}
