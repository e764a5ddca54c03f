//! Pairs of allocate and free with system as its crate declares it: what `install!` is compared with.

#[global_allocator]
static GLOBAL: std::alloc::System = std::alloc::System;

include!("body.rs");
