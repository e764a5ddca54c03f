//! Pairs of allocate and free with mimalloc as its crate declares it: what `install!` is compared with.

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

include!("body.rs");
