//! Pairs of allocate and free with jemalloc as its crate declares it. `install!` is compared with this.

#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

include!("body.rs");
