// The global allocator of each binary: the features choose it.
#[cfg(feature = "system-alloc")]
allocanary::install!(system, thread_idle = give_back);
#[cfg(all(feature = "mimalloc-alloc", not(feature = "system-alloc")))]
allocanary::install!(mimalloc, thread_idle = give_back);
#[cfg(not(any(feature = "system-alloc", feature = "mimalloc-alloc")))]
allocanary::install!(jemalloc, thread_idle = give_back);
