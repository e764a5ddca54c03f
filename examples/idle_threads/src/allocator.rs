// The global allocator of each binary: the features choose it.
#[cfg(feature = "system-alloc")]
allocanary::install!(system, threads_give_back = true);
#[cfg(all(feature = "mimalloc-alloc", not(feature = "system-alloc")))]
allocanary::install!(mimalloc, threads_give_back = true);
#[cfg(not(any(feature = "system-alloc", feature = "mimalloc-alloc")))]
allocanary::install!(jemalloc, threads_give_back = true);
