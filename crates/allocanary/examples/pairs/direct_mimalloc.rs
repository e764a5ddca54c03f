//! Pairs of allocate and free with mimalloc as its crate declares it. `install!` is compared with this.

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

include!("body.rs");
