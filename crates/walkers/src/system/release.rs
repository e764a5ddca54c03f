//! The differences between the releases of glibc on 64-bit processors, as one table of distances. Everything else, as seen from
//! the bins, has been the same since 2.27.

/// A release, or several that have the same structures.
#[derive(Debug)]
pub(super) struct Release {
    /// The first release that has them: 31 for 2.31.
    pub since: u32,
    /// The name in reports, if the program does not name its release.
    pub name: &'static str,
    /// The distance from the start of an arena to its bins.
    pub bins: u64,
    /// The bytes of an arena's structure.
    pub arena: u64,
    /// Whether an arena has fast bins, 96 bytes before its bins.
    pub fast_bins: bool,
    /// The length of the header of a thread arena's heap. In the first heap, the arena is after the header.
    pub heap_header: u64,
    /// Whether the links of thread caches and fast bins are mangled with their address.
    pub mangled: bool,
    /// The distance from the count of mmapped blocks to the word `sbrk_base`.
    pub n_mmaps: u64,
    /// Whether the release can use huge pages. If so, two sizes of huge pages are 56 and 48 bytes before `sbrk_base`.
    pub huge_pages: bool,
    /// The number of bytes by which the size of an mmapped block is smaller than its pages.
    pub mmapped_short: u64,
    /// The thread caches.
    pub cache: Cache,
}

/// The structure of a thread cache. It has a count of one or two bytes for each bin, then a list for each bin.
#[derive(Debug)]
pub(super) struct Cache {
    /// The size of the block that contains the cache. The block may also be 16 bytes larger.
    pub block: u64,
    /// The number of bins. The first 64 have one size each: 32, 48, and so on.
    pub bins: u64,
    /// The bytes of one count.
    pub count: u64,
    /// True if a thread gets its cache when it first frees a block. False if it gets it when it first allocates one.
    pub at_first_free: bool,
}

const CACHE_27: Cache = Cache { block: 0x250, bins: 64, count: 1, at_first_free: false };
const CACHE_30: Cache = Cache { block: 0x290, bins: 64, count: 2, at_first_free: false };
const CACHE_42: Cache = Cache { block: 0x300, bins: 76, count: 2, at_first_free: false };

const OLDEST: Release = Release {
    since: 27,
    name: "2.27 to 2.29, by its structures",
    bins: 112,
    arena: 2200,
    fast_bins: true,
    heap_header: 0x20,
    mangled: false,
    n_mmaps: 32,
    huge_pages: false,
    mmapped_short: 0,
    cache: CACHE_27,
};

const WITH_WIDE_COUNTS: Release =
    Release { since: 30, name: "2.30 or 2.31, by its structures", cache: CACHE_30, ..OLDEST };

const MANGLED: Release =
    Release { since: 32, name: "2.32 to 2.34, by its structures", mangled: true, ..WITH_WIDE_COUNTS };

const WITH_HUGE_PAGES: Release = Release {
    since: 35,
    name: "2.35 to 2.41, by its structures",
    heap_header: 0x30,
    n_mmaps: 36,
    huge_pages: true,
    ..MANGLED
};

const WITH_LARGE_CACHED: Release =
    Release { since: 42, name: "2.42, by its structures", cache: CACHE_42, ..WITH_HUGE_PAGES };

const WITHOUT_FAST_BINS: Release = Release {
    since: 43,
    name: "2.43 or later, by its structures",
    bins: 24,
    arena: 2112,
    fast_bins: false,
    mmapped_short: 16,
    cache: Cache { at_first_free: true, ..CACHE_42 },
    ..WITH_LARGE_CACHED
};

/// All known releases, the oldest first. For 2.31, 2.36, 2.41 and 2.43 the distances were compared with glibc's own counts. For the other
/// releases they come from its source. The process tests run on the release of the host.
pub(super) const ALL: &[Release] =
    &[OLDEST, WITH_WIDE_COUNTS, MANGLED, WITH_HUGE_PAGES, WITH_LARGE_CACHED, WITHOUT_FAST_BINS];

/// The releases in which the bins are `bins` bytes after an arena's start, the most likely one first. `minor` is the release that the
/// program names: 31 for 2.31. If that is later than all known releases, the last known one is tried, and the checks show whether it fits.
pub(super) fn candidates(bins: u64, minor: Option<u32>) -> Vec<&'static Release> {
    let fits = |one: &&Release| one.bins == bins;
    match minor {
        Some(minor) => ALL.iter().rev().find(|one| one.since <= minor).filter(fits).into_iter().collect(),
        None => ALL.iter().rev().filter(fits).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read_by_the_last_row_that_is_not_newer() {
        let since = |bins, minor| candidates(bins, minor).iter().map(|one| one.since).collect::<Vec<_>>();
        assert_eq!(since(112, Some(31)), [30]);
        assert_eq!(since(112, Some(36)), [35]);
        assert_eq!(since(112, Some(41)), [35]);
        assert_eq!(since(24, Some(99)), [43]);
        assert_eq!(since(112, Some(26)), [0_u32; 0]);
        assert_eq!(since(24, Some(36)), [0_u32; 0]);
        assert_eq!(since(112, None), [42, 35, 32, 30, 27]);
    }

    #[test]
    fn a_thread_cache_fills_its_block() {
        for release in ALL {
            let cache = &release.cache;
            let bytes = cache.bins * (cache.count + 8);
            assert_eq!((bytes + 8).next_multiple_of(16), cache.block, "{}", release.name);
        }
    }
}
