//! Ballast: memory set aside before it is needed. In: an amount. Out: a guard, and the cost of the memory that it
//! keeps.
//!
//! Services in languages with a garbage collector use a ballast: a large block that is never touched, so that the
//! collector runs less often (Twitch, 2019: 10 GiB, 99 % fewer collections, 45 % off the 99th percentile at peak). Rust
//! has no collector. Here a burst costs page faults: the allocator gave memory back after the last burst, and must get
//! it again page by page. Two calls help, and each has a cost:
//!
//! - [`Ballast::reserve`] reserves addresses without memory, for later growth. It costs no resident memory until it is
//!   touched. An untouched block that is merely allocated, as in the article, does nothing for a Rust program.
//! - [`Ballast::keep`] makes the installed allocator keep freed memory, by the allocator's own settings. It costs the
//!   memory that is kept.
//!
//! | | keeps by | at most | what the end of the guard does |
//! |---|---|---|---|
//! | jemalloc | `dirty_decay_ms` -1 in every arena | no limit: [`Kept::settle`] | puts each arena's value back; what was kept then decays |
//! | mimalloc | `purge_delay` of 24 days | no limit | purges what was kept, then puts the value back |
//! | glibc | `M_TRIM_THRESHOLD`, `M_TOP_PAD`, `M_MMAP_THRESHOLD` of 32 MiB | the bytes, in each arena | puts back what `install!` and environment say, else glibc's defaults; gives back the top of the calling thread's arena |
//!
//! Limits:
//!
//! - jemalloc purges an arena when its last thread ends, whatever its decay, unless background threads are on.
//! - mimalloc unmaps blocks above `arena_max_object_size`.
//! - glibc maps blocks of 32 MiB and more one by one, and unmaps each. It keeps free memory at the top of an arena
//!   only; free memory below the top never goes back by itself. After the guard, the tops of other threads' arenas stay
//!   until those threads free 64 KiB or more at once, or return their memory
//!   ([`thread_idle`](crate::tuning::thread_idle)); `malloc_trim` does not reach them. **Setting any of the three glibc
//!   settings turns the adaptive mmap threshold off, and nothing turns it on again.**

mod kept;
mod reserved;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::install::installed;
use allocanary_text::units::Bytes;

pub use kept::Kept;
pub use reserved::{ReserveError, Reserved};

/// Memory set aside before it is needed. See [the module](crate::ballast).
///
/// ```no_run
/// use allocanary::{Ballast, units::Bytes};
///
/// allocanary::install!(jemalloc, dirty_decay_ms = 1000);
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let mut room = Ballast::reserve(Bytes(10 << 30))?; // 10 GiB of addresses, nothing resident
///     room.as_mut_slice()[0] = 1; // a page
///     let kept = Ballast::keep(Bytes(256 << 20))?; // through the rush hour
///     kept.settle()?; // after a burst: no more than 256 MiB stay
///     drop(kept); // decay is a second again
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ballast;

/// Only one guard at a time: two guards that end in another order than they began would restore each other's values.
static KEEPING: AtomicBool = AtomicBool::new(false);

impl Ballast {
    /// Reserves addresses, readable and writable, without memory. Only a page that is touched becomes resident, at its full size (2 MiB if
    /// transparent huge pages are `always`).
    ///
    /// Returns an error that names the limit if `RLIMIT_AS`, strict overcommit (`vm.overcommit_memory` 2) or the
    /// processor's address space has too little room.
    pub fn reserve(bytes: Bytes) -> std::result::Result<Reserved, ReserveError> {
        Reserved::new(bytes)
    }

    /// Makes the installed allocator keep freed memory until the guard is dropped: with glibc up to `bytes` in each arena
    /// ([`Kept::at_most`]), with jemalloc and mimalloc all of it. The memory that bursts leave stays resident.
    ///
    /// Returns an error if `bytes` is 0, if another guard is in force, or if the allocator cannot do it: glibc takes
    /// at most 2 GiB less a byte, and musl's malloc cannot keep freed memory.
    ///
    /// Nothing is allocated in advance: the first burst has page faults, and later bursts reuse its pages.
    ///
    /// With jemalloc, an arena that another thread is making when the guard begins or ends may miss the change, as
    /// with [`set_decay`](crate::tuning::set_decay). After the end such an arena never decays.
    pub fn keep(bytes: Bytes) -> Result<Kept> {
        let allocator = installed().ok_or(Error::NotInstalled)?;
        let refused = |why: &str| Error::Refused {
            allocator: allocator.name(),
            what: "keeping freed memory",
            why: why.to_string(),
        };
        if bytes.0 == 0 {
            return Err(refused("wanted at least 1 byte, found 0"));
        }
        if KEEPING.swap(true, Ordering::AcqRel) {
            return Err(refused("another guard is in force: drop it first"));
        }
        match allocator.keep(bytes.0) {
            Ok(keeping) => Ok(Kept::new(allocator, bytes, keeping, &KEEPING)),
            Err(error) => {
                KEEPING.store(false, Ordering::Release);
                Err(error)
            }
        }
    }
}
